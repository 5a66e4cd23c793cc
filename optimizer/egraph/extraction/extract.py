"""The cheapest program of an e-graph by DAG cost, and how far it may be from the best."""

from __future__ import annotations

from dataclasses import dataclass

from ...deadline import checkpoint
from .cutset import decide_cut
from .problem import Choice, Problem, Selection, cost_of, in_order, reduced
from .regions import regions_of
from .repeated_regions import Decisions

# Choices tried in one region, and in all of them together: counts, so that every run decides alike.
STEPS, MOST_STEPS = 4_000, 40_000


@dataclass(frozen=True)
class Extraction:
    """A choice for each class that is computed, in order; its cost, and what none is below.

    `regions` counts the parts that were decided one by one, `exact` those that are known to be
    the best.
    """

    selection: dict[int, Choice]
    cost: float
    bound: float
    regions: int
    exact: int
    steps: int

    @property
    def gap(self) -> float:
        """How much cheaper the best program may be, as a share of this one's cost."""
        return 0.0 if self.cost <= 0 else max(0.0, 1 - self.bound / self.cost)


def extract(problem: Problem, incumbent: Selection, steps: int = MOST_STEPS) -> Extraction:
    """Find a selection that costs no more than `incumbent`, the best one if `steps` allow.

    Each region starts from the incumbent and from the greedy selection, is improved locally, and
    is then searched by branch and bound. Acyclic by construction: what may stand on one cycle is
    decided in one region, which refuses choices that close one.
    """
    small = reduced(problem)
    small = _with(small, incumbent)
    forced, regions = regions_of(small)
    selection: dict[int, Choice] = dict(forced)
    exact = spent = 0
    slack = 0.0
    decisions = Decisions()
    for region in sorted(regions, key=lambda region: (len(region.choices), region.roots)):
        checkpoint()
        start = region.part_of(incumbent)
        decision = decide_cut(region, start, min(STEPS, max(0, steps - spent)), decisions)
        spent += decision.steps
        exact += decision.is_exact
        slack += decision.cost - decision.bound
        selection.update(decision.selection)
    order = in_order(selection, small.roots)
    chosen = {class_: _original(problem, class_, selection[class_]) for class_ in order}
    cost = cost_of(chosen, order)
    return Extraction(chosen, cost, cost - slack, len(regions), exact, spent)


def _with(problem: Problem, incumbent: Selection) -> Problem:
    """Put the choices of the incumbent back where a better one made them superfluous.

    The selection to start from must be one of those that are searched.
    """
    choices: dict[int, tuple[Choice, ...]] = dict(problem.choices)
    for class_, choice in incumbent.items():
        if choice not in choices[class_]:
            choices[class_] = (*choices[class_], choice)
    return Problem(choices, problem.roots)


def _original(problem: Problem, class_: int, choice: Choice) -> Choice:
    return next(c for c in problem.choices[class_] if c.node == choice.node)
