"""Which plan: search over substitutions, materialization, measurement and explanation."""

from .contest import ORIGINAL
from .driver import optimize
from .explain import Explanation
from .node_story import NodeStory
from .result import Candidate, Optimization
from .rewrite import Step
from .survey import explain_model, explain_node, profile_model
from .verify import Deviation

__all__ = [
    "ORIGINAL",
    "Candidate",
    "Deviation",
    "Explanation",
    "NodeStory",
    "Optimization",
    "Step",
    "explain_model",
    "explain_node",
    "optimize",
    "profile_model",
]
