"""An e-graph whose values may lie in blocks, and the cheapest selection of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...rules import Rule
from ..egraph.egraph import EGraph
from ..egraph.extraction.alternatives import without
from ..egraph.extraction.e_node_costs import Costs, problem_of
from ..egraph.extraction.extract import MOST_STEPS, Extraction, extract
from ..egraph.extraction.problem import Problem, Selection
from .blocked_costs import BlockedCosts
from .blocking import Blocking
from .growing import grow
from .runtime import NCHWC
from .selection import first_selection, narrowed
from .values import BlockedValues

# Extractions after which what is not measured yet counts with its bound.
EXTRACTIONS = 4
# Programs whose layouts are chosen alone before all are searched at once.
ALONE = 2


@dataclass
class Space:
    """Programs with blocked values: an e-graph with a class for each layout of a value.

    `starts` are selections that the search may begin with, `forbidden` rules that it has to do
    without.
    """

    blocking: Blocking
    costs: Costs
    starts: Sequence[Selection] = ()
    forbidden: Collection[str] = ()
    price: BlockedCosts = field(init=False)

    def __post_init__(self) -> None:
        self.price = BlockedCosts(self.costs, self.blocking)

    @property
    def egraph(self) -> EGraph:
        """The e-graph."""
        return self.blocking.egraph

    def problem(self) -> Problem:
        """What has to be computed, and what may compute it, at what is known of costs."""
        problem = problem_of(self.egraph, self.price)
        left_out = self._left_out()
        return without(problem, left_out.__contains__) if left_out else problem

    def _left_out(self) -> set[int]:
        """What forbidden rules made, and what came of that."""
        nodes_out: set[int] = set()
        for node, application in sorted(self.egraph.made_by.items()):
            if application.rule in self.forbidden or not nodes_out.isdisjoint(application.nodes):
                nodes_out.add(node)
        return nodes_out

    def first(self, problem: Problem) -> Selection:
        """A selection to start from."""
        return first_selection(problem, self.blocking, self.starts)

    def cheapest(self) -> Extraction:
        """Take out and measure in turns, as far as the budget goes.

        What nobody measured then counts with its bound if it is in blocks, and is left out if a
        rule made it whose use only costs can tell.
        """
        before: Selection | None = None
        for _ in range(EXTRACTIONS):
            extraction = self._extracted(before)
            before = extraction.selection
            nodes = {choice.node for choice in extraction.selection.values()}
            same = self.blocking.same
            if not self.costs.measure(sorted(same.get(node, node) for node in nodes)):
                break
        if not self.costs.unmeasured(nodes):
            return extraction
        self.costs.end_measuring()
        self.price.is_final = True
        return self._extracted(before)

    def cheapest_by_parts(self, parts: Mapping[int, float], before: Selection) -> Extraction:
        """Take out what is the cheapest where some e-nodes count a part of their cost.

        `before` is what is without that, the search goes on from there.
        """
        self.price.parts = dict(parts)
        try:
            return self._extracted(before)
        finally:
            self.price.parts = {}

    def _extracted(self, before: Selection | None = None) -> Extraction:
        """Take the cheapest selection out, of all programs at once.

        The search goes on from what was taken out before. Where nothing was, from the best that the
        first programs alone lead to: among all, which of them a cheap value belongs to is easily
        mistaken.
        """
        problem = self.problem()
        selections: list[Selection] = [*self.starts, *([] if before is None else [before])]
        for start in self.starts[:ALONE] if before is None else ():
            alone = narrowed(problem, start, self.blocking)
            first = first_selection(alone, self.blocking, (start,))
            selections.append(extract(alone, first, MOST_STEPS).selection)
        return extract(problem, first_selection(problem, self.blocking, selections), MOST_STEPS)

    def is_blocked(self, selection: Selection) -> bool:
        """Whether anything of a selection is computed in blocks."""
        operators, columns = self.egraph.vocabulary.operators, self.egraph.columns
        return any(
            operators[columns.operator(choice.node)].domain == NCHWC
            for choice in selection.values()
        )


def space_of(
    egraph: EGraph,
    costs: Costs,
    block: int | None,
    starts: Callable[[], Sequence[Selection]] = tuple,
    forbidden: Collection[str] = (),
    rules: Sequence[Rule] = (),
) -> Space | None:
    """Let the values of an e-graph lie in blocks of so many channels; None where nothing would.

    `starts` is asked when the e-graph has grown. Of `rules` those are applied that bring more into
    blocks.
    """
    if block is None:
        return None
    blocking = Blocking(egraph, BlockedValues(egraph, block))
    grow(blocking, rules)
    if not blocking.values.blocked:
        return None
    return Space(blocking, costs, starts(), forbidden)
