"""A partition's plan space: which edges are decisions, and what a choice of them costs.

A plan of a region is a set of edges that are materialized. The nodes that must be stored follow:
those that are forced, and the producers of materialized edges. Each becomes the root of one
operator, which covers all that it reaches along the other edges, and is run in the cheapest
template that can hold it. So a plan's cost is a sum over roots, each depending only on the
decisions below it; these parts are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

from .conditions import Edge
from .graph import Graph
from .join import join
from .plan import FusedOperator, PlainOperator
from .price import Cover, Prices

Operator = FusedOperator | PlainOperator


class Region:
    """Connected nodes with the edges among them; `points` are those edges that are decisions."""

    def __init__(
        self,
        prices: Prices,
        nodes: Iterable[int],
        edges: Iterable[Edge],
        points: Sequence[Edge],
        roots: Iterable[int],
        joining: bool = True,
    ) -> None:
        self.prices = prices
        self.graph: Graph = prices.graph
        self.nodes = tuple(sorted(nodes))
        self.edges = frozenset(edges)
        self.points = tuple(points)
        self.roots = frozenset(roots)
        self.joining = joining
        self.bit = {point: 1 << at for at, point in enumerate(reversed(self.points))}
        self.below: dict[int, list[Edge]] = {number: [] for number in self.nodes}
        for h, c in sorted(self.edges):
            self.below[h].append((h, c))
        self._covers: dict[tuple[int, int], Operator | None] = {}
        self.priced = 0

    @cached_property
    def relevant(self) -> dict[int, int]:
        """For each node, the points that it reaches."""
        found: dict[int, int] = {}
        for number in self.nodes:  # ascending: producers first
            mask = 0
            for edge in self.below[number]:
                mask |= self.bit.get(edge, 0) | found[edge[1]]
            found[number] = mask
        return found

    @cached_property
    def producers(self) -> dict[int, int]:
        """For each node that a point may materialize, its points."""
        found: dict[int, int] = {}
        for (_, c), bit in self.bit.items():
            found[c] = found.get(c, 0) | bit
        return found

    def stored(self, chosen: int) -> list[int]:
        """Return the nodes that are roots where the points of the mask are materialized."""
        found = set(self.roots)
        found.update(c for c, mask in self.producers.items() if mask & chosen)
        return sorted(found)

    def operator(self, root: int, chosen: int) -> Operator | None:
        """Return the cheapest operator for a root; None where no template can hold its cover."""
        key = (root, chosen & self.relevant[root])
        if key not in self._covers:
            self.priced += 1
            cover = self.cover(root, chosen)
            self._covers[key] = None if cover is None else self.prices.best(cover)
        return self._covers[key]

    def cover(self, root: int, chosen: int) -> Cover | None:
        """Return what a root's operator covers; None if it would also read what it holds."""
        held, edges = {root}, set[Edge]()
        waiting = [root]
        while waiting:
            for edge in self.below[waiting.pop()]:
                if chosen & self.bit.get(edge, 0):
                    continue
                edges.add(edge)
                if edge[1] not in held:
                    held.add(edge[1])
                    waiting.append(edge[1])
        reads: dict[int, None] = {}
        nodes = tuple(sorted(held))
        for h in nodes:
            for operand in self.graph.operands[h]:
                if (h, operand.node) not in edges:
                    if operand.node in held:
                        return None
                    reads[operand.node] = None
        return Cover(root, nodes, frozenset(edges), tuple(reads))

    def cost(self, chosen: int, limit: float = math.inf) -> float:
        """Return the seconds of a plan; anything from `limit` on where that is exceeded."""
        total, summaries = 0.0, []
        for root in self.stored(chosen):
            operator = self.operator(root, chosen)
            if operator is None:
                return math.inf
            total += operator.cost_s
            if self.joining and joinable(operator):
                summaries.append(operator)
            elif total >= limit and not self.may_join:
                return total
        if len(summaries) > 1:
            total -= sum(one.cost_s for one in summaries)
            total += sum(one.cost_s for one in join(self.prices, summaries))
        return total

    @cached_property
    def may_join(self) -> bool:
        """Whether aggregates of this region may share a pass."""
        joins = self.graph.conditions.joins
        return self.joining and any(a in self.below and b in self.below for a, b in joins)

    def operators(self, chosen: int) -> list[Operator]:
        """Return the operators of a plan that has a finite cost."""
        found: list[Operator] = []
        for root in self.stored(chosen):
            operator = self.operator(root, chosen)
            assert operator is not None
            found.append(operator)
        if not self.joining:
            return found
        summaries = [one for one in found if joinable(one)]
        rest: list[Operator] = [one for one in found if not joinable(one)]
        return [*rest, *join(self.prices, summaries)]

    def mask(self, materialized: Iterable[Edge]) -> int:
        """Return the mask of some points."""
        return sum(self.bit[edge] for edge in set(materialized))


def joinable(operator: Operator) -> bool:
    """Whether an operator is a full aggregate of cells, which may share a pass with others."""
    return (
        isinstance(operator, FusedOperator)
        and operator.template in ("Cell", "MultiAgg")
        and operator.variant == "full"
    )
