"""Which plan: search over substitutions, materialization, measurement and explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazily import lazily

if TYPE_CHECKING:
    from .driver import optimize
    from .explain.explanation import Explanation
    from .explain.node_story import NodeStory
    from .explain.survey import explain_model, explain_node, profile_model
    from .match.rewrite import Step
    from .race.contest import ORIGINAL
    from .race.verify import Deviation
    from .result.optimization import Candidate, Optimization

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
        "ORIGINAL": ".race.contest",
        "Candidate": ".result.optimization",
        "Deviation": ".race.verify",
        "Explanation": ".explain.explanation",
        "NodeStory": ".explain.node_story",
        "Optimization": ".result.optimization",
        "Step": ".match.rewrite",
        "explain_model": ".explain.survey",
        "explain_node": ".explain.survey",
        "optimize": ".driver",
        "profile_model": ".explain.survey",
    },
)
