"""Regions of a graph that one kernel can compute, grown from what is read last.

From each node that no region has yet, in reverse order, a region grows towards the inputs by the
producers that run over the same rows, by what only moves elements, and by what has one element a
row. A value that is read outside as well becomes one more output. Nothing is decided about cost
here but this: no cell is computed more often than before, but for cheap ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...catalog.operators.terms import Apply, Term
from ..fuse.codegen.statements import LoweringError, expression
from .loops.affine import Extent
from .loops.cells import SLOW
from .loops.kernel_region import Meanings, Region, read_by
from .loops.lower import Kernel, lower_region
from .loops.reduced_axes import NO_ROWS, Rows, folded_axes, is_row, long_axes, ones_in, parts_of

# Nodes of a region at most; longer chains are cut there.
MOST_NODES = 48
MOVES = frozenset(
    {"Transpose", "Reshape", "Slice", "Concat", "Split", "Unsqueeze", "Squeeze", "Expand"}
    | {"Identity", "Flatten"}
)
# A move that a region may end with: others are views, which cost nothing.
LAST_MOVES = frozenset({"Transpose", "Concat"})
ROWS = frozenset({"normalization", "reduction"})


@dataclass(frozen=True)
class Found:
    """A region and its kernel."""

    region: Region
    kernel: Kernel


class Grower:
    """Grows the regions of one graph."""

    def __init__(self, meanings: Meanings, allowed: Collection[int]) -> None:
        """`allowed` are the nodes that may be fused."""
        self.meanings = meanings
        self.graph = meanings.graph
        self.allowed = frozenset(number for number in allowed if self._is_fusible(number))
        self.position = {number: at for at, number in enumerate(self.graph.order())}
        self.taken: set[int] = set()

    def regions(self) -> list[Found]:
        """Return disjoint regions with their kernels, in order of the graph."""
        found = []
        for number in sorted(self.position, key=self.position.__getitem__, reverse=True):
            if number in self.taken or number not in self.allowed:
                continue
            if self.graph.nodes[number].op_type in MOVES - LAST_MOVES:
                continue
            grown = self._grow(number)
            if grown is not None and self._is_worth(grown.region):
                self.taken |= set(grown.region.nodes)
                found.append(grown)
        return found[::-1]

    # ------------------------------------------------------------------------------- growth

    def _grow(self, sink: int) -> Found | None:
        node = self.graph.nodes[sink]
        try:
            reduced, space = self._rows(sink), self._space(sink)
        except LoweringError:
            return None
        inside = {sink}
        best = self._attempt(inside, space, reduced)
        if best is None and node.op_type not in MOVES:
            return None
        refused: set[int] = set()
        while len(inside) < MOST_NODES:
            producer = self._next(inside, refused)
            if producer is None:
                break
            wider = self._wider(producer, inside, reduced)
            if wider is not None:
                inside, space, reduced, best = inside | {producer}, *wider
                refused.clear()
                continue
            joining, rows = self._bundle(producer, space, reduced)
            fits = bool(joining) and not (rows and reduced and rows != reduced)
            if fits and all(self._may_join(n, inside | joining, space, rows) for n in joining):
                grown = self._attempt(inside | joining, space, rows or reduced)
                if grown is not None:
                    inside, reduced, best = inside | joining, rows or reduced, grown
                    refused.clear()
                    continue
            turned = None if reduced else self._turned(producer, inside, space)
            if turned is not None:
                reduced, best = turned
                inside = set(best.region.nodes)
                refused.clear()
                continue
            refused.add(producer)
        return best

    def _wider(
        self, producer: int, inside: set[int], reduced: Rows
    ) -> tuple[tuple[Extent, ...], Rows, Found] | None:
        """Return the space of what is reduced, and the region over it; None where it isn't that.

        So far the region computes of rows what is the same all along each.
        """
        try:
            rows = NO_ROWS if reduced else self._rows(producer)
            if not rows or self._reaches(self._users_outside(producer, inside), inside):
                return None
            space = self._space(producer)
        except LoweringError:
            return None
        result = self.meanings.shape(self.graph.nodes[producer].outputs[0])
        if long_axes(result) == long_axes(space):
            return None  # a normalization: it runs over the region's own space, if at all
        grown = self._attempt(inside | {producer}, space, rows)
        return None if grown is None else (space, rows, grown)

    def _next(self, inside: set[int], refused: set[int]) -> int | None:
        """Return the last producer of what the region reads that may still join."""
        found = {
            self.graph.producer[value]
            for number in inside
            for value in self.graph.nodes[number].inputs
            if value in self.graph.producer
        }
        open_ = (found - inside - refused - self.taken) & self.allowed
        return max(open_, key=self.position.__getitem__, default=None)

    def _turned(
        self, number: int, inside: set[int], space: tuple[Extent, ...]
    ) -> tuple[Rows, Found] | None:
        """Return the region with what reduces axes that one Transpose moves there, another back.

        It runs where values lie in memory before the one and after the other.
        """
        producer = self.graph.producer.get(self.graph.nodes[number].inputs[0])
        if producer not in self.allowed or producer in self.taken | inside:
            return None
        if self.graph.nodes[producer].op_type != "Transpose":
            return None
        try:
            rows, own = self._rows(number), self._space(number)
        except LoweringError:
            return None
        grown = inside | {number, producer}
        if not rows or not all(self._may_join(n, grown, space, rows) for n in (number, producer)):
            return None
        sizes = long_axes(own[len(own) - rows.behind - rows.reduced : len(own) - rows.behind])
        for behind in range(len(space) - len(sizes) + 1):
            end = len(space) - behind
            if space[end - len(sizes) : end] == sizes:
                way = Rows(len(sizes), behind)
                found = self._attempt(grown, space, way)
                if found is not None:
                    return way, found
        return None

    def _bundle(
        self, number: int, space: tuple[Extent, ...], reduced: Rows
    ) -> tuple[set[int], Rows]:
        """Return a producer, with what only makes sense together with it, and the axes reduced.

        What has one element a row comes with the reductions that it is made of.
        """
        try:
            rows = self._rows(number)
            shape = self._space(number)
        except LoweringError:
            return set(), NO_ROWS
        if rows or reduced or self.graph.nodes[number].op_type in MOVES or shape == space:
            return {number}, rows or reduced
        missing = ones_in(shape, space)
        if not missing:
            return {number}, NO_ROWS
        joining, waiting = set(), [number]
        reduces = False
        while waiting:
            one = waiting.pop()
            joining.add(one)
            try:
                own = self._rows(one)
            except LoweringError:
                return {number}, NO_ROWS
            if own:
                reduces = reduces or own == missing
                continue
            for value in self.graph.nodes[one].inputs:
                producer = self.graph.producer.get(value)
                if producer in self.allowed and producer not in self.taken | joining:
                    own_row = is_row(self.meanings.shape(value), space, missing)
                    if producer is not None and own_row:
                        waiting.append(producer)
        return (joining, missing) if reduces else ({number}, NO_ROWS)

    def _may_join(
        self, number: int, inside: set[int], space: tuple[Extent, ...], reduced: Rows
    ) -> bool:
        node = self.graph.nodes[number]
        outside = self._users_outside(number, inside)
        if outside and (node.op_type in MOVES or self._reaches(outside, inside)):
            return False
        if node.op_type in MOVES:
            return True
        shape = self._space(number) if not reduced or not self._rows(number) else space
        if shape == space or (reduced and is_row(shape, space, reduced)):
            return True
        if outside or self._is_slow(number):
            return False
        consumers = {
            user
            for value in node.outputs
            for user in self.graph.users.get(value, ())
            if user in inside
        }
        return all(
            self.graph.nodes[user].op_type in MOVES or self._space(user) == shape
            for user in consumers
        )

    def _users_outside(self, number: int, inside: set[int]) -> set[int]:
        node = self.graph.nodes[number]
        found = set()
        for value in node.outputs:
            if self.graph.is_pinned(value):
                found.add(-1)
            found |= self.graph.users.get(value, set()) - inside - {number}
        return found

    def _reaches(self, starts: set[int], inside: set[int]) -> bool:
        """Tell whether a region would read what is computed from it outside."""
        last = max(self.position[number] for number in inside)
        stack = [number for number in starts if number >= 0]
        seen = set(stack)
        while stack:
            number = stack.pop()
            if number in inside:
                return True
            if self.position[number] > last:
                continue
            for value in self.graph.nodes[number].outputs:
                for user in self.graph.users.get(value, ()):
                    if user not in seen:
                        seen.add(user)
                        stack.append(user)
        return False

    def _attempt(self, inside: set[int], space: tuple[Extent, ...], reduced: Rows) -> Found | None:
        region = self._region(inside, space, reduced)
        try:
            return Found(region, lower_region(self.meanings, region))
        except LoweringError:
            return None

    def _region(self, inside: set[int], space: tuple[Extent, ...], reduced: Rows) -> Region:
        nodes = tuple(sorted(inside, key=self.position.__getitem__))
        outputs = tuple(
            value
            for number in nodes
            for value in self.graph.nodes[number].outputs
            if self.graph.is_pinned(value) or self.graph.users.get(value, set()) - inside
        )
        return Region(
            nodes, read_by(self.graph, nodes), outputs, space, reduced.reduced, reduced.behind
        )

    # ---------------------------------------------------------------------------- properties

    def _is_fusible(self, number: int) -> bool:
        node = self.graph.nodes[number]
        kind = self.meanings.kind(number)
        if node.op_type not in MOVES and kind != "elementwise" and kind not in ROWS:
            return False
        if not self.meanings.has(number):
            return False
        if kind != "elementwise":
            return True
        definition = self.meanings.of(number).outputs[0]
        try:
            expression(definition.value, "float32", _AnyText())
        except LoweringError:
            return False
        return True

    def _space(self, number: int) -> tuple[Extent, ...]:
        """Return the shape that a node runs over: of what it reduces, or of its output."""
        node = self.graph.nodes[number]
        value = node.inputs[0] if self._rows(number) else node.outputs[0]
        return self.meanings.shape(value)

    def _rows(self, number: int) -> Rows:
        """Return which axes a node reduces over; raise LoweringError where they lie apart."""
        if self.meanings.kind(number) not in ROWS:
            return NO_ROWS
        shape = self.meanings.shape(self.graph.nodes[number].inputs[0])
        axes = {axis for axis in folded_axes(self.meanings.of(number)) if shape[axis] != 1}
        if not axes:
            raise LoweringError("a reduction over one element")
        first, last = min(axes), max(axes)
        if any(shape[axis] != 1 for axis in range(first, last) if axis not in axes):
            raise LoweringError("a reduction over axes that lie apart")
        if all(size == 1 for size in shape[last + 1 :]):
            last = len(shape) - 1
        return Rows(last + 1 - first, len(shape) - 1 - last)

    def _is_slow(self, number: int) -> bool:
        return any(_has_slow(one.value) for one in self.meanings.of(number).outputs)

    def _is_worth(self, region: Region) -> bool:
        """Tell whether a kernel could gain: it saves a pass over memory, or a slow operator."""
        computing = [n for n in region.nodes if self.graph.nodes[n].op_type not in MOVES]
        if len(computing) > 1 or region.reduced:
            return True
        return bool(computing) and (len(region.nodes) > 2 or self._is_slow(computing[0]))


class _AnyText(dict[str, "str | float | bool"]):
    def __missing__(self, key: str) -> str:
        return key


def _has_slow(term: Term) -> bool:
    return any(isinstance(one, Apply) and one.function in SLOW for one in parts_of(term))
