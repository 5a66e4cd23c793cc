"""What follows the rows of a product element by element, where these are made."""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.expressions import LoweringError
from .affine import Affine, Extent, Map, Ranges, axis_by_long_axis
from .cells import Access, Cells
from .kernel_region import Meanings, Region
from .merged_loops import Groups, inner_step
from .row_text import RowWriter


def by_loops(place: Map, shape: tuple[Extent, ...], loops: tuple[int, ...]) -> Map:
    """Say by a kernel's loops, one for each axis, what is said by a tensor's own longer axes."""
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    return tuple(
        Affine(tuple(sorted((loops[axes[n]], c) for n, c in index.terms)), index.offset)
        for index in place
    )


def cells_of(
    meanings: Meanings, nodes: tuple[int, ...], output: int, shape: tuple[Extent, ...]
) -> Cells:
    """Return the cells of nodes that give one output, by the loops of that output's longer axes."""
    axes = tuple(axis for axis, size in enumerate(shape) if size != 1)
    region = Region(nodes, (), (output,), shape)
    return Cells(meanings, region, axes, Ranges(tuple(shape[axis] for axis in axes)))


class ElementwiseChain:
    """Nodes that compute a `result` of `rows`, of other tensors and of numbers: its cells.

    `loads` are the places of the other tensors that are read, by the axes of its shape;
    `rows_access` is the access of the rows among those of `cells`.
    """

    def __init__(
        self,
        meanings: Meanings,
        nodes: tuple[int, ...],
        rows: int,
        result: int,
        shape: tuple[Extent, ...],
        rows_shape: tuple[Extent, ...],
    ) -> None:
        """`shape` is that of the loops, `rows_shape` that by which the rows lie.

        Raises LoweringError where an element needs others of the rows than that in its place.
        """
        self.cells = cells_of(meanings, nodes, result, shape)
        if not self.cells.axes or self.cells.axes[-1] != len(shape) - 1:
            raise LoweringError("rows of one element")
        self.rows_access = next(
            (i for i, access in enumerate(self.cells.accesses) if access.value == rows), -1
        )
        at_rows = axis_by_long_axis(rows_shape)
        if self.rows_access < 0 or self.cells.accesses[self.rows_access].map != at_rows:
            raise LoweringError("rows that are moved")
        self._others = [access for access in self.cells.accesses if access.value != rows]
        if len(self._others) != len(self.cells.accesses) - 1:
            raise LoweringError("rows that are read in several places")
        loops = tuple(range(len(shape)))
        self.loads = [Access(o.value, by_loops(o.map, shape, loops), o.dtype) for o in self._others]
        self._meanings, self._last = meanings, len(shape) - 1

    def steps(self) -> list[int]:
        """Return how far elements are apart along a row of each load."""
        return [
            inner_step(load.map, self._meanings.shape(load.value), (self._last,))
            for load in self.loads
        ]

    def load(self, access: int) -> int:
        """Return which of the loads an access of the cells is."""
        return self._others.index(self.cells.accesses[access])

    def texts(self, names: Sequence[str], steps: Sequence[int]) -> tuple[list[str], list[str], str]:
        """Return statements of a row, statements of an element, and the element's text.

        `names` are pointers to a row's first element: of the rows, then of each load, which are
        `steps` apart.
        """
        count, extents = len(self.cells.accesses), self.cells.ranges.extents
        loads = [0 if n == self.rows_access else 1 + self.load(n) for n in range(count)]
        writer = RowWriter(
            [self.cells],
            [(0, None)],
            self.cells.accesses,
            [],
            [(1, *steps)[load] for load in loads],
            Groups(tuple(range(len(extents)))),
            extents,
            pointers=[names[load] for load in loads],
        )
        rows, body, (text,) = writer.cell_texts(self.cells)
        return rows, body, text
