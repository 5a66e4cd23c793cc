"""Which plan: search over substitutions, materialization, measurement and explanation."""

from .contest import ORIGINAL
from .driver import optimize
from .explain import Explanation
from .result import Candidate, Optimization
from .rewrite import Step
from .survey import explain_model, profile_model
from .verify import Deviation

__all__ = [
    "ORIGINAL",
    "Candidate",
    "Deviation",
    "Explanation",
    "Optimization",
    "Step",
    "explain_model",
    "optimize",
    "profile_model",
]
