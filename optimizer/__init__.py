"""Which plan: search over substitutions, materialization, measurement and explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazily import lazily

if TYPE_CHECKING:
    from .driver import optimize
    from .explain import Explanation
    from .match.rewrite import Step
    from .node_story import NodeStory
    from .race.contest import ORIGINAL
    from .race.verify import Deviation
    from .result import Candidate, Optimization
    from .survey import explain_model, explain_node, profile_model

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
        "Candidate": ".result",
        "Deviation": ".race.verify",
        "Explanation": ".explain",
        "NodeStory": ".node_story",
        "Optimization": ".result",
        "Step": ".match.rewrite",
        "explain_model": ".survey",
        "explain_node": ".survey",
        "optimize": ".driver",
        "profile_model": ".survey",
    },
)
