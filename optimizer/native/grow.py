"""Regions of cells that become kernels: chosen among the candidates that regions.dl derives.

From what is read last on, each node that no region has yet becomes the sink of one: of its
candidates the first of which a kernel can be made, without what others have taken, and without
nodes that C text can't say together with the rest. A value that is read outside as well becomes one
more output. Nothing is decided about cost here but this: no cell is computed more often than
before, but for cheap ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ..codegen.expressions import LoweringError
from .kernel import RegionKernel
from .loops.kernel_region import Meanings, Region, needed_outside, read_by
from .loops.lower import lower_region
from .regions.region_candidates import Candidate, candidates
from .regions.region_facts import MOVES

# Nodes of a region at most; longer chains are cut there.
MOST_NODES = 48


class Grower:
    """Chooses the regions of one graph."""

    def __init__(self, meanings: Meanings, allowed: Collection[int]) -> None:
        """`allowed` are the nodes that may be fused."""
        self.meanings = meanings
        self.graph = meanings.graph
        self.candidates = candidates(meanings)
        self.gone = set(self.graph.nodes).difference(allowed)

    def regions(self) -> list[RegionKernel]:
        """Return disjoint regions with their kernels, in order of the graph."""
        chosen = []
        for sink in self._latest_first(self.candidates.worth):
            if sink in self.gone:
                continue
            grown = self._grow(sink)
            if grown is not None and self._is_worth(grown.region.nodes, grown.region.reduced):
                self.gone |= set(grown.region.nodes)
                chosen.append(grown)
        return chosen[::-1]

    def singles(self) -> list[RegionKernel]:
        """Return what no region has, each node a region by itself whatever it gains."""
        kernels = []
        for number in self._latest_first(self.candidates.begins - self.gone)[::-1]:
            if self.graph.nodes[number].op_type not in MOVES:
                attempts = (
                    self._attempt([number], candidate) for candidate in self.candidates.of(number)
                )
                kernels += [next(filter(None, attempts), None)]
        return [kernel for kernel in kernels if kernel is not None]

    def _grow(self, sink: int) -> RegionKernel | None:
        """Return the region of a sink: over what is reduced last, if it can be, or over cells."""
        for candidate in sorted(self.candidates.of(sink), key=self._latest_reduction, reverse=True):
            grown = self._lowered(candidate)
            if grown is not None:
                return grown
        return None

    def _latest_reduction(self, candidate: Candidate) -> int:
        """Return where in the graph a candidate first has its frame, seen from the sink."""
        if not candidate.reduced:
            return -1
        reducing = candidate.nodes & self.candidates.reducing
        return max((self.meanings.position[number] for number in reducing), default=-1)

    def _lowered(self, candidate: Candidate) -> RegionKernel | None:
        """Return what is left of a candidate, with its kernel; None where there is none."""
        refused: set[int] = set()
        while True:
            nodes = self._remaining(candidate, refused)[:MOST_NODES]
            if candidate.reduced and self.candidates.reducing.isdisjoint(nodes):
                return None
            if not self._is_worth(nodes, candidate.reduced.reduced):
                return None
            whole = self._attempt(nodes, candidate)
            if whole is not None or len(nodes) == 1:
                return whole
            count = len(nodes) - 1
            while count and self._attempt(nodes[:count], candidate) is None:
                count -= 1
            if not count:
                return None
            refused.add(nodes[count])

    def _remaining(self, candidate: Candidate, refused: Collection[int]) -> list[int]:
        """Return a candidate's nodes without those that are taken or refused, latest first.

        A node goes where one goes that reads it: that one would be computed in between, outside.
        """
        remaining: dict[int, None] = {}
        for number in self._latest_first(candidate.nodes):
            users = self._users(number) & candidate.nodes
            if number not in self.gone and number not in refused and users <= remaining.keys():
                remaining[number] = None
        return list(remaining)

    def _users(self, number: int) -> set[int]:
        users = (self.graph.users.get(value, ()) for value in self.graph.nodes[number].outputs)
        return {user for several in users for user in several}

    def _attempt(self, nodes: Sequence[int], candidate: Candidate) -> RegionKernel | None:
        ordered = tuple(nodes[::-1])
        outputs = tuple(needed_outside(self.graph, ordered))
        reduced, read = candidate.reduced, read_by(self.graph, ordered)
        region = Region(ordered, read, outputs, candidate.space, reduced.reduced, reduced.behind)
        try:
            return RegionKernel(region, lower_region(self.meanings, region))
        except LoweringError:
            return None

    def _latest_first(self, nodes: Collection[int]) -> list[int]:
        return sorted(nodes, key=self.meanings.position.__getitem__, reverse=True)

    def _is_worth(self, nodes: Collection[int], reduced: int) -> bool:
        """Tell whether a kernel could gain: it saves a pass over memory, or a slow operator.

        Where it can't, one of some of the nodes can't either.
        """
        computing = [n for n in nodes if self.graph.nodes[n].op_type not in MOVES]
        if len(computing) > 1 or reduced:
            return True
        slow = self.candidates.slow
        return bool(computing) and (len(nodes) > 2 or computing[0] in slow)


def with_makers(
    meanings: Meanings,
    nodes: Collection[int],
    read: Callable[[Collection[int]], Iterable[int]],
    allowed: Collection[int],
    lower: Callable[[tuple[int, ...]], RegionKernel],
) -> RegionKernel:
    """Return a region of `nodes` and of all that make what it alone reads, as far as there can be.

    With some `taken`, the last one last, it reads the values `read(taken)` and is lowered by
    `lower(taken)`, which raises LoweringError where that can't be. Those that may be taken are
    among `allowed` nodes.
    """
    graph = meanings.graph
    taken, refused = tuple[int, ...](), set[int]()
    best = lower(taken)
    while len(taken) < MOST_NODES:
        inside = {*nodes, *taken}
        makers = {graph.producer[value] for value in read(taken) if value in graph.producer}
        remaining = (makers & set(allowed)) - inside - refused
        if not remaining:
            break
        number = max(remaining)
        try:
            outputs = graph.nodes[number].outputs
            if any(graph.is_pinned(v) or graph.users.get(v, set()) - inside for v in outputs):
                raise LoweringError("what others read")
            best = lower((*taken, number))
        except LoweringError:
            refused.add(number)
            continue
        taken = (*taken, number)
        refused.clear()
    return best
