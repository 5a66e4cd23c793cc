"""Assignments of layouts to a model's operators: which compute in blocks, which as they are.

The cheapest plan is one of these (plans.py takes it out). Here each can be had, so that what ranks
them can be judged by what all of them take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, product

import numpy as np

from ..egraph.build import build
from ..egraph.egraph import EGraph
from ..egraph.extraction.alternatives import without
from ..egraph.extraction.e_node_costs import Costs, problem_of
from ..egraph.extraction.extract import extract
from ..egraph.extraction.problem import CycleError, Problem, Selection, cost_of, in_order
from ..egraph.search import roots_of
from ..graph.fold import FOLD_LIMIT
from ..graph.graph import Graph
from ..match.rewrite import clean
from ..price import Prices
from .operators.concatenations import JOIN
from .operators.convolutions import CONVOLUTIONS
from .operators.pools import RULES as POOLS
from .operators.transposed_convolutions import RULE as TILE
from .plans import finished
from .runtime import block_size
from .selection import cheapest_choices
from .space import Space, space_of

# What puts an operator in blocks that is not element by element: those are where it costs least.
CONFIGURED = frozenset({*CONVOLUTIONS, *POOLS, JOIN, TILE})
# Assignments of a model that are measured.
MOST = 64
# What the search within one assignment may take: its layouts are given, little is left to choose.
_STEPS = 2_000


def assignments_of(graph: Graph, prices: Prices) -> Assignments | None:
    """Return the assignments of layouts to a model of known shapes; None where none lies in blocks.

    Constants are folded in the graph first. Prices have to be those of a configuration in which
    the runtime chooses no layout itself.
    """
    clean(graph, FOLD_LIMIT)
    egraph = EGraph(graph, {}, FOLD_LIMIT)
    space = space_of(egraph, Costs(egraph, prices), block_size())
    assignments = None if space is None else Assignments(space)
    return assignments if assignments is not None and assignments.operators else None


@dataclass(frozen=True)
class Assignment:
    """Operators in blocks, as the model's e-nodes, and the cheapest selection with just these.

    `cost_ns` is the sum of what its e-nodes cost.
    """

    blocked: frozenset[int]
    selection: Selection
    cost_ns: float


class Assignments:
    """The assignments of layouts to the operators of one model that some plan has.

    Operators that have a form in blocks and don't act element by element are configured. What does
    so is where it costs least, given the others, and ends convolutions in blocks where it can.
    """

    def __init__(self, space: Space) -> None:
        """Costs are those of the space's kernels, each by itself."""
        self.space = space
        egraph = space.egraph
        # e-node in blocks -> the operators that it computes, one of them, with what ends it
        self._operators_of: dict[int, set[int]] = {}
        for application in space.blocking.values.applications:
            if application.rule in CONFIGURED:
                for node in application.target_nodes:
                    self._operators_of.setdefault(node, set()).update(application.nodes[:1])
        named = {node for nodes in self._operators_of.values() for node in nodes}
        self.operators = tuple(sorted(named & set(egraph.origin)))
        """The configured operators, as e-nodes of the model."""

    def computed_by(self, node: int) -> set[int]:
        """Return the model's operators that an e-node in blocks computes, none of others."""
        return self._operators_of.get(node, set())

    @cached_property
    def forms(self) -> dict[int, set[int]]:
        """Operator -> the e-nodes in blocks that compute it."""
        forms: dict[int, set[int]] = {node: set() for node in self.operators}
        for node, computed in self._operators_of.items():
            for operator in computed & forms.keys():
                forms[operator].add(node)
        return forms

    @cached_property
    def blocked_classes(self) -> set[int]:
        """The classes of what lies in blocks."""
        return {value for _, _, value in self.space.blocking.values.every()}

    @cached_property
    def problem(self) -> Problem:
        """All that may be computed, each e-node by what its kernel costs."""
        return problem_of(self.space.egraph, self.space.costs)

    def measure(self) -> int:
        """Measure the kernels of all assignments as far as there is time; return what lacks it."""
        costs = self.space.costs
        nodes = {choice.node for offered in self.problem.choices.values() for choice in offered}
        costs.measure(sorted(nodes))
        del self.problem  # its costs are those of before
        return len(costs.unmeasured(nodes))

    def sample(self, most: int, seed: int) -> list[Assignment]:
        """Return all assignments where there are at most `most`, else so many, drawn.

        Among the drawn ones are the one without blocks and the one with all that can lie there;
        others have each operator in blocks with a probability of their own, and some differ from
        the cheapest by a few operators.
        """
        operators = self.operators
        if 2 ** len(operators) <= most:
            masks = [np.array(mask, bool) for mask in product((False, True), repeat=len(operators))]
        else:
            masks = list(self._masks(8 * most, np.random.default_rng(seed)))
        assignments: dict[frozenset[int], Assignment] = {}
        for mask in masks:
            blocked = frozenset(compress(operators, mask))
            if len(assignments) < most and blocked not in assignments:
                assignment = self.of(blocked)
                if assignment is not None:
                    assignments[blocked] = assignment
        return list(assignments.values())

    def _masks(self, count: int, random: np.random.Generator) -> Iterator[np.ndarray]:
        operators = self.operators
        yield np.zeros(len(operators), bool)
        yield np.ones(len(operators), bool)
        cheapest = self.cheapest()
        best = np.array([node in cheapest.blocked for node in operators])
        yield best
        for number in range(count):
            if number % 4:
                yield random.random(len(operators)) < random.random()
            else:
                yield best ^ (random.random(len(operators)) < 2 / len(operators))

    def cheapest(self) -> Assignment:
        """Return the assignment that costs least, as sums of kernels have it."""
        selection = self._extracted(self.problem)
        assert selection is not None  # the model itself is a selection
        return self._assignment(selection)

    def of(self, blocked: frozenset[int]) -> Assignment | None:
        """Return the cheapest plan with just these operators in blocks; None without one."""
        plain = frozenset(self.operators) - blocked

        def is_forbidden(node: int) -> bool:
            computed = self._operators_of.get(node)
            return node in blocked if computed is None else computed <= plain

        selection = self._extracted(without(self.problem, is_forbidden))
        if selection is None:
            return None
        assignment = self._assignment(selection)
        return assignment if assignment.blocked == blocked else None

    def _extracted(self, problem: Problem) -> Selection | None:
        """Return the cheapest selection that the search comes to; None where there is none."""
        way = cheapest_choices(problem, self.space.blocking)
        try:
            first = {class_: way[class_] for class_ in in_order(way, problem.roots)}
        except (CycleError, KeyError):
            return None
        return extract(problem, first, _STEPS).selection

    def _assignment(self, selection: Selection) -> Assignment:
        nodes = {choice.node for choice in selection.values()}
        blocked = {
            operator
            for node in nodes & set(self._operators_of)
            for operator in self._operators_of[node]
        }
        plain = nodes & set(self.operators)
        cost_ns = cost_of(selection, selection)
        return Assignment(frozenset(blocked & set(self.operators)) - plain, selection, cost_ns)

    def graph(self, assignment: Assignment) -> Graph:
        """Write an assignment out as a graph that the runtime executes as it is."""
        egraph, selection = self.space.egraph, assignment.selection
        laid = build(egraph, selection, roots_of(egraph, selection))
        if assignment.blocked and finished(
            laid, egraph.fold_limit, self.space.blocking.values.block
        ):
            return laid
        clean(laid, egraph.fold_limit)
        return laid
