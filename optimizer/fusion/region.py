"""A partition's plan space: which nodes are stored, and what each operator covers then.

A plan of a region is a set of stored nodes: those that are forced, and any of the candidates, the
producers of interesting points. Each stored node is the root of one operator. It covers what it
reaches along fusible edges down to stored nodes, and each of those it either reads or, where that
is cheaper, computes again: given what is stored, operators don't depend on each other. So a plan's
cost is a sum of least costs, each kept by the stored nodes below its root. (SystemML decides for
edges, for all operators at once; that space lies within this one.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property

from .conditions import Edge
from .graph import Graph
from .join import FEW, groupings
from .masks import mask, members
from .minima import Minima
from .plan import FusedOperator, PlainOperator
from .price import Cover, Prices

Operator = FusedOperator | PlainOperator
Roots = tuple[int, ...]

# So many covers of one operator are tried at most: then a search isn't exact, and says so.
_TRIES = 4000


class Region:
    """Connected nodes with the edges among them; sets of nodes are masks, bit n for node n."""

    def __init__(
        self,
        prices: Prices,
        nodes: Iterable[int],
        edges: Iterable[Edge],
        candidates: Iterable[int],
        forced: Iterable[int],
        joining: bool = True,
    ) -> None:
        self.prices = prices
        self.graph: Graph = prices.graph
        self.nodes = tuple(sorted(nodes))
        self.edges = frozenset(edges)
        self.minima = Minima(prices, self.nodes, self.edges)
        self.forced = mask(forced)
        open_ones = [one for one in candidates if not self.forced >> one & 1]
        self.candidates = tuple(sorted(open_ones, key=self._worth))
        self.joining = joining
        self.complete = True
        self.below: dict[int, list[int]] = {number: [] for number in self.nodes}
        for h, c in sorted(self.edges):
            self.below[h].append(c)
        self._below = {number: mask(below) for number, below in self.below.items()}
        self._operators: dict[tuple[Roots, int], Operator | None] = {}
        self._covers: dict[tuple[Roots, int], Operator | None] = {}
        self._floors: dict[tuple[Roots, int], float] = {}
        self._reached: dict[Roots, int] = {}
        self._closures: dict[tuple[Roots, int], tuple[int, int]] = {}

    def _worth(self, candidate: int) -> tuple[float, int]:
        """Put first what is expensive to compute again: it decides most."""
        minima = self.minima
        reading_s = minima.reading_s(minima.fixed[candidate])
        return -(reading_s + minima.compute_s[candidate]), candidate

    def begin_with(self, candidate: int) -> None:
        """Put a candidate before the others."""
        rest = (one for one in self.candidates if one != candidate)
        self.candidates = (candidate, *rest)

    @cached_property
    def reach(self) -> dict[int, int]:
        """For each node, all that it reaches along edges."""
        found: dict[int, int] = {}
        for number in self.nodes:  # ascending: producers first
            below = 0
            for c in self.below[number]:
                below |= 1 << c | found[c]
            found[number] = below
        return found

    def reached(self, roots: Roots) -> int:
        """Return all that some roots reach along edges."""
        found = self._reached.get(roots)
        if found is None:
            found = 0
            for root in roots:
                found |= self.reach[root]
            self._reached[roots] = found
        return found

    @cached_property
    def unread(self) -> int:
        """Nodes that a view consumes: it may be that nothing reads them."""
        return mask(c for h, c in self.edges if self.graph.is_view(h))

    @cached_property
    def joinable(self) -> tuple[int, ...]:
        """Forced full aggregates that may share a pass with another one."""
        if not self.joining:
            return ()
        joins = self.graph.conditions.joins
        inside = {one for a, b in joins if a in self.below and b in self.below for one in (a, b)}
        return tuple(sorted(inside))

    @cached_property
    def _groupings(self) -> list[list[Roots]]:
        if len(self.joinable) > FEW:
            self.complete = False
        return groupings(self.graph, self.joinable)

    def cost(self, stored: int, limit: float = math.inf) -> float:
        """Return the seconds of a plan; anything from `limit` on where that is exceeded."""
        total = 0.0
        for root in members((stored | self.forced) & ~mask(self.joinable)):
            operator = self.operator((root,), stored)
            total += math.inf if operator is None else operator.cost_s
            if total >= limit:
                return total
        joined = self._joined(stored, limit - total)
        return math.inf if joined is None else total + sum(one.cost_s for one in joined)

    def operators(self, stored: int) -> list[Operator]:
        """Return the operators of a plan of finite cost."""
        found: list[Operator] = []
        for root in members((stored | self.forced) & ~mask(self.joinable)):
            operator = self.operator((root,), stored)
            assert operator is not None
            found.append(operator)
        joined = self._joined(stored)
        assert joined is not None
        return found + joined

    def _joined(self, stored: int, limit: float = math.inf) -> list[Operator] | None:
        """Return the operators of the aggregates that may share passes, in the best grouping.

        None where no grouping takes less than `limit` seconds.
        """
        if not self.joinable:
            return []
        best: list[Operator] | None = None
        least = limit
        stops = stored | self.forced
        alone = {one: self.closure((one,), stops & self.reach[one])[0] for one in self.joinable}
        if self._apart_s(alone) >= limit:
            return best
        floors: dict[Roots, float] = {}
        for grouping in self._groupings:
            cost = 0.0
            for group in grouping:
                floor = floors.get(group)
                if floor is None:
                    floor = floors[group] = self._least_s(group, alone)
                cost += floor
            if cost >= least:
                continue
            found: list[Operator] = []
            cost = 0.0
            for group in grouping:
                operator = self.operator(group, stored)
                cost += math.inf if operator is None else operator.cost_s
                if operator is None or cost >= least:
                    break
                found.append(operator)
            else:
                best, least = found, cost
        return best

    def _apart_s(self, alone: Mapping[int, int]) -> float:
        """Return seconds that no grouping undercuts: one call, and all that they have to do.

        `alone` has for each of the aggregates what it covers for sure.
        """
        held = 0
        for one in alone.values():
            held |= one
        reads, compute_s = self.minima.held(held)
        least_s = max(self.minima.reading_s(reads), compute_s)
        return self.minima.writing_s(self.joinable) + least_s

    def _least_s(self, roots: Roots, alone: Mapping[int, int]) -> float:
        """Return seconds that no operator of these roots undercuts, which covers what each does."""
        held = 0
        for root in roots:
            held |= alone[root]
        found = self._floors.get((roots, held))
        if found is None:
            found = self._floors[roots, held] = self.minima.operator_s(roots, held, 0, 0)
        return found

    def operator(self, roots: Roots, stored: int) -> Operator | None:
        """Return the cheapest operator of these roots that reads stored nodes only, or None."""
        stored = (stored | self.forced) & self.reached(roots)
        key = (roots, stored)
        if key not in self._operators:
            self._operators[key] = self._search(roots, stored)
        return self._operators[key]

    def _search(self, roots: Roots, stored: int) -> Operator | None:
        """Try to read, and to compute again, each stored node that is met."""
        held, met = self.closure(roots, stored)
        # All read, and all computed again: one of them is near the best.
        first = [self.covering(roots, held)]
        if met:
            first.append(self.covering(roots, self.closure(roots, 0)[0]))
        found = [one for one in first if one is not None]
        best = min(found, key=lambda one: one.cost_s, default=None)
        least = math.inf if best is None else best.cost_s
        waiting, tries = [(0, 0)], 0  # stored nodes that are read, and that are computed again
        while waiting and met:
            read, again = waiting.pop()
            held, met_now = self.closure(roots, stored & ~again)
            undecided = met_now & ~read
            if self.minima.operator_s(roots, held, read, undecided) >= least:
                continue
            tries += 1
            if tries > _TRIES:
                self.complete = False
                break
            if undecided:
                one = undecided & -undecided
                waiting.append((read, again | one))
                waiting.append((read | one, again))
                continue
            operator = self.covering(roots, held)
            if operator is not None and operator.cost_s < least:
                best, least = operator, operator.cost_s
        return best

    def closure(self, roots: Roots, stops: int) -> tuple[int, int]:
        """Return what is reached along edges without entering `stops`, and which stops are met."""
        found = self._closures.get((roots, stops))
        if found is not None:
            return found
        held = waiting = mask(roots)
        below, met = self._below, 0
        while waiting:
            node = waiting.bit_length() - 1
            reached = below[node]
            met |= reached & stops
            new = reached & ~(stops | held)
            held |= new
            waiting = (waiting | new) ^ 1 << node
        self._closures[roots, stops] = held, met
        return held, met

    def covering(self, roots: Roots, held: int) -> Operator | None:
        """Return the cheapest operator that covers exactly these nodes; None if there is none."""
        key = (roots, held)
        if key not in self._covers:
            cover = self._cover(roots, held)
            self._covers[key] = None if cover is None else self.prices.best(cover)
        return self._covers[key]

    def _cover(self, roots: Roots, held: int) -> Cover | None:
        """Describe an operator; None if some node would read what another one holds."""
        nodes = tuple(members(held))
        edges, reads = set[Edge](), dict[int, None]()
        for h in nodes:
            for operand in self.graph.operands[h]:
                if not held >> operand.node & 1:
                    reads[operand.node] = None
                elif (h, operand.node) in self.edges:
                    edges.add((h, operand.node))
                else:
                    return None
        return Cover(roots, nodes, frozenset(edges), tuple(reads))
