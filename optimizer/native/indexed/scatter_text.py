"""C text of a scatter of rows: all updates of some columns, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...codegen.expressions import C_TYPES, literal
from ...codegen.vector_loops import simd_loop
from ..loops.affine import Extent
from ..loops.c_function import extent_text, function_text, operand, steps_along, unravelled
from ..loops.cells import Cells
from ..loops.merged_loops import Groups, inner_step
from ..loops.row_text import RowWriter
from .row_operators import Gather, Scatter

# What becomes of an element and one of its updates. As in ONNX Runtime the largest and the smallest
# are the update where the two don't compare: if either is a NaN, or both are zeros.
FOLDS: Mapping[str, str] = {
    "none": "u",
    "add": "o + u",
    "mul": "o * u",
    "max": "(o > u ? o : u)",
    "min": "(o < u ? o : u)",
}


@dataclass
class ScatterText:
    """Writes the function of a scatter.

    `cells` compute the updates. Of the `extents`, the loops of these come first, `updating` being
    the one over updates; then the axes of the target that indices name, `rows`, and those of the
    tables that are `gathered`, `tables`. `gathered_values` stand for these in the cells. `operands`
    says which input each access of the cells reads, then the indices of the scatter and of the
    gathers, of `index_types`. The result begins as the input `target`, or as the number `fill`.
    """

    cells: Cells
    groups: Groups
    extents: tuple[Extent, ...]
    updating: int
    rows: tuple[int, ...]
    scatter: Scatter
    gathered: Sequence[Gather]
    tables: Sequence[int]
    gathered_values: Sequence[int]
    operands: Sequence[int]
    index_types: Sequence[str]
    target: int | None
    fill: float

    def __post_init__(self) -> None:
        """Sort the merged loops: those of tables, the one over updates, those along a row."""
        of = self.groups.of
        self.middle = of[self.updating]
        self.outer = range(self.middle)
        self.along = range(self.middle + 1, of[self.rows[0]])

    @property
    def arranges(self) -> tuple[int, ...]:
        """What arrange_scatter is told: groups before updates, behind them, and rows' loops."""
        return self.middle, len(self.along), len(self.rows)

    def text(self) -> str:
        """Return the definition of the function."""
        last = self._extent(self.along[-1]) if self.along else "(i64)1"
        width = " * ".join(map(self._extent, self.along)) or "(i64)1"
        rows = " * ".join(self._extent(self.groups.of[number]) for number in self.rows)
        lines = [
            f"  const i64 updates = {self._extent(self.middle)}, last = {last}, width = {width};",
            f"  const i64 rows = {rows};",
        ]
        count = len(self.cells.accesses)
        for number, access in enumerate(self.cells.accesses):
            lines.append(self._base(number, C_TYPES[access.dtype]))
        for i, dtype in enumerate(self.index_types):
            lines.append(self._base(count + i, C_TYPES[dtype]))
        lines += [
            "  for (i64 unit = own->first; unit < own->end; unit++) {",
            "    const i64 table = unit / c->blocks, from = unit % c->blocks * c->block;",
            "    const i64 to = LEAST(from + c->block, last);",
            "    float *restrict result = (float *)c->out[0] + table * rows * width;",
        ]
        lines += unravelled("table", self.outer, self._extent)
        lines += self._begin()
        lines.append("    for (i64 e = 0; e < updates; e++) {")
        lines += self._places(count)
        lines += self._rows()
        return function_text([*lines, "    }", "  }"])

    def _begin(self) -> list[str]:
        """Fill the columns of a unit with what they begin with."""
        start = "    for (i64 r = 0; r < rows * width; r += last)"
        if self.target is None:
            number = literal(self.fill)
            return [start, f"      for (i64 j = from; j < to; j++) result[r + j] = {number};"]
        source = f"{operand(self.target)} + table * rows * width"
        size = "sizeof(float) * (size_t)(to - from)"
        copied = f"memcpy(result + r + from, given_rows + r + from, {size});"
        return [f"    const float *given_rows = {source};", start, f"      {copied}"]

    def _places(self, first: int) -> list[str]:
        """Find the rows of an update, and leave where an index names none."""
        lines = []
        index = f"x{first}[{self._offset(first, self.outer)}"
        step = f" + e * c->stride[{first}][{self.middle}]"
        lines.append("      i64 row = 0, worst = 0;")
        for part, number in enumerate(self.rows):
            size = self._extent(self.groups.of[number])
            lines += [
                f"      const i64 at{part} = indexed_row({index}{step} + {part}], {size});",
                f"      worst |= at{part}; row = row * {size} + at{part};",
            ]
        for i, number in enumerate(self.tables):
            access = first + 1 + i
            place = f"x{access}[e * c->stride[{access}][{self.middle}]]"
            size = self._extent(self.groups.of[number])
            lines += [
                f"      const i64 table{i} = indexed_row({place}, {size});",
                f"      worst |= table{i};",
            ]
        lines.append("      if (worst < 0) { indexed_outside(c); return; }")
        return lines

    def _rows(self) -> list[str]:
        """Compute an update and fold it into its row."""
        lines, indent = [], "      "
        place = "0"
        for group in self.along[:-1]:
            extent = self._extent(group)
            lines.append(f"{indent}for (i64 i{group} = 0; i{group} < {extent}; i{group}++) {{")
            place = f"({place} * {extent} + i{group})"
            indent += "  "
        lines.append(f"{indent}float *restrict d = result + row * width + {place} * last;")
        inner = self.groups.loops(self.along[-1]) if self.along else ()
        steps = []
        for number, access in enumerate(self.cells.accesses):
            kind = C_TYPES[access.dtype]
            offset = self._offset(number, (*self.outer, *self.along[:-1]))
            if access.value in self.gathered_values:
                chosen = f"table{self.gathered_values.index(access.value)}"
            else:
                chosen = "e"
            moved = f"{offset} + {chosen} * c->stride[{number}][{self.middle}]"
            lines.append(f"{indent}const {kind} *restrict p{number} = x{number} + {moved};")
            shape = self.cells.meanings.shape(access.value)
            steps.append(inner_step(access.map, shape, inner) if inner else 0)
        writer = RowWriter(
            [self.cells], [(0, None)], self.cells.accesses, [], steps, self.groups, self.extents
        )
        before, body, (text,) = writer.cell_texts(self.cells)
        body += [
            f"const float u = {text}, o = d[j];",
            f"d[j] = {FOLDS[self.scatter.reduction]};",
        ]
        lines += [f"{indent}{line.strip()}" for line in before]
        lines += simd_loop("j", "from", "to", body, [], indent)
        return [
            *lines,
            *("      " + "  " * depth + "}" for depth in reversed(range(len(self.along) - 1))),
        ]

    def _base(self, access: int, kind: str) -> str:
        base = f"{operand(self.operands[access], kind)} + c->offset[{access}]"
        return f"  const {kind} *x{access} = {base};"

    def _offset(self, access: int, groups: Sequence[int]) -> str:
        return f"0{steps_along(access, groups)}"

    def _extent(self, group: int) -> str:
        return extent_text(self.extents, self.groups, group)
