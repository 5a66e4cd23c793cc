"""Which plan: search over substitutions, materialization, measurement and explanation.

In: a model, or a function of NumPy. Out: a faster one, or the same. Begin with `driver.py` and with
`passes.py`, which lists from top to bottom what is done to a model: plans are derived
(`plan_derivation.py`, `planner.py`), and the best of them is found (`plan_selection.py`), in the
time that `schedule.py` shares out among the passes. What a plan is expected to cost is computed by
`State.expected_cost` in `state.py`, from the costs of its kernels in `price.py`.

| folder | holds |
|---|---|
| `graph/` | a model in memory, types, folding, dead and common code |
| `match/` | where rules match, and what applying a match changes |
| `rewrites/` | rewrites that no rule can say, and the table of what is not proved |
| `egraph/`, `layouts/` | the search over programs, and over the layouts of their values |
| `native/` | kernels for regions of a model, and the library of them |
| `race/` | plans run, compared with the original, and timed |
| `explain/` | why a rule was applied, or why not |
| `result/`, `report/` | what is handed over, and the page that shows it |
| `fuse/` | functions: traced, planned, compiled, run block by block |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazy_imports import lazily

if TYPE_CHECKING:
    from .driver import optimize
    from .explain.explain_model import Explanation, explain_model, explain_node
    from .explain.model_costs import profile_model
    from .explain.node_story import NodeStory
    from .explain.region_reason import explain_region
    from .match.rewrite import Step
    from .race.contest import ORIGINAL
    from .race.verify import Deviation
    from .result.optimization import Optimization
    from .result.outcome import Candidate

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
    "explain_region",
    "optimize",
    "profile_model",
]

# Functions that are fused need none of it.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "ORIGINAL": ".race.contest",
        "Candidate": ".result.outcome",
        "Deviation": ".race.verify",
        "Explanation": ".explain.explain_model",
        "NodeStory": ".explain.node_story",
        "Optimization": ".result.optimization",
        "Step": ".match.rewrite",
        "explain_model": ".explain.explain_model",
        "explain_node": ".explain.explain_model",
        "explain_region": ".explain.region_reason",
        "optimize": ".driver",
        "profile_model": ".explain.model_costs",
    },
)
