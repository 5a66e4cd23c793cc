"""Active measurement: of kernels that are predicted, those are measured that may change the plan.

A predicted cost has an interval. The cheapest plan is the best one whatever the true costs if it
stays so with its own e-nodes at the upper ends and all others at the lower ones; one extraction
more says whether it does, and if not, which plan may be better: the one of the largest regret.
Kernels of either of the two, not of both, are measured, the widest intervals first, and the search
goes on. Where the budget ends before that the expected costs decide, and then the race. Source: the
absolute robust deviation of problems with interval data, Kouvelis and Yu, Robust Discrete
Optimization and Its Applications, 1997.
"""

from __future__ import annotations

from collections.abc import Collection

from ..price import Progress
from .egraph import EGraph
from .extraction.e_node_costs import Costs, original_selection, problem_of
from .extraction.extract import Extraction, extract
from .extraction.problem import Choice, Problem, Selection, cost_of

# How often it is asked which plan may be better, and how many kernels are measured then at first;
# each time twice as many, as extracting takes time too.
ROUNDS, AT_ONCE = 6, 8


def cheapest_within_intervals(
    egraph: EGraph, costs: Costs, steps: int, progress: Progress | None = None
) -> tuple[Extraction, float]:
    """Take the cheapest plan out, measured as far as it takes to know that it is; and the model's.

    The latter is the cost of the model as it is.
    """
    count = AT_ONCE
    for _ in range(ROUNDS):
        _, best = _extracted(egraph, costs, steps)
        chosen = nodes_of(best.selection)
        rivals = nodes_of(_rival(egraph, costs, best.selection, chosen, steps))
        if not costs.measure_kernels(costs.by_effect(sorted(chosen ^ rivals))[:count], progress):
            break
        count *= 2
    costs.end_measuring()
    selection, best = _extracted(egraph, costs, steps)
    return best, cost_of(selection, selection)


def nodes_of(selection: Selection) -> set[int]:
    """The e-nodes of a selection."""
    return {choice.node for choice in selection.values()}


def _extracted(egraph: EGraph, costs: Costs, steps: int) -> tuple[Selection, Extraction]:
    problem = problem_of(egraph, costs)
    selection = original_selection(egraph, problem)
    return selection, extract(problem, selection, steps)


def _rival(
    egraph: EGraph, costs: Costs, best: Selection, chosen: Collection[int], steps: int
) -> Selection:
    """The plan that would gain most over the best one, if intervals speak for it everywhere."""
    problem = problem_of(egraph, lambda node: costs.against(node, chosen))
    return extract(problem, _within(problem, best), steps).selection


def _within(problem: Problem, selection: Selection) -> dict[int, Choice]:
    return {
        class_: next(c for c in problem.choices[class_] if c.node == choice.node)
        for class_, choice in selection.items()
    }
