"""Which plan: search over substitutions, materialization, measurement and explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazily import lazily

if TYPE_CHECKING:
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

# Functions that are fused need none of it.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "ORIGINAL": ".contest",
        "Candidate": ".result",
        "Deviation": ".verify",
        "Explanation": ".explain",
        "NodeStory": ".node_story",
        "Optimization": ".result",
        "Step": ".rewrite",
        "explain_model": ".survey",
        "explain_node": ".survey",
        "optimize": ".driver",
        "profile_model": ".survey",
    },
)
