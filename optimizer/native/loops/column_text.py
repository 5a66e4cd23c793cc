"""C text of a kernel that reduces other axes than the last: columns side by side, row after row.

A unit is a piece of the innermost loop, which is kept, at one place of the other kept loops. Its
stages run over the reduced loop, each row of it from left to right, and fold it into accumulators,
one a column. Sums are float32 over a tile of rows, four at a time, and float64 over tiles. A few
rows, known beforehand, are computed in one loop over the columns, in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...codegen.expressions import C_TYPES, declared, expression
from ...codegen.vector_loops import IDENTITY, combine, simd_loop
from ..configurations.loop_configuration import ColumnConfiguration
from .c_function import function_text, known_extent, steps_along, unravelled
from .cells import SLOW_COST, Cells
from .element_types import stored
from .row_text import RowWriter

# Rows that are computed at once where their number is known, and cells of a column then.
FEW_ROWS, FEW_CELLS = 8, 160
# Columns whose number is known and that are never divided: their loops have known ends.
SHORT = 256
# Columns of a unit at most where their rows are few.
MOST_COLUMNS_OF_FEW = 4096
# Rows that are added up in float32.
ROWS_OF_TILE = 64
_ADDED = frozenset({"sum", "prod"})


@dataclass
class ColumnWriter(RowWriter):
    """Writes such a function; `reduced` is the merged loop that is reduced, and not the last."""

    reduced: int = -1
    column_configuration: ColumnConfiguration = field(default_factory=ColumnConfiguration)
    _texts: dict[tuple[int, int], str] = field(default_factory=dict)
    _body: list[str] = field(default_factory=list)
    _stored: list[int] = field(default_factory=list)
    _ready: set[int] = field(default_factory=set)
    _new: list[int] = field(default_factory=list)

    @property
    def cells(self) -> Cells:
        """The cells; a reduction has one part."""
        return self.parts[0]

    @property
    def rows(self) -> int | None:
        """The number of rows where they are few, and known."""
        count = self._known_extent(self.reduced)
        most = min(FEW_ROWS, FEW_CELLS // max(1, len(self.cells.cells)))
        return count if count is not None and 0 < count <= most else None

    @property
    def least_kept(self) -> int:
        """What a cell costs at least that is kept."""
        return self.column_configuration.kept

    @property
    def arranges(self) -> tuple[int, int, int, int, int]:
        """What arrange_columns of operators.h asks: the reduced loop, arrays, kept rows, sizes."""
        if self.rows is not None:
            return self.reduced, 0, 0, MOST_COLUMNS_OF_FEW, int(self._is_short)
        passes = int(self._levels(self.cells) > 1 and bool(self._roots(self.cells, 1)))
        return (
            self.reduced,
            self._arrays,
            len(self.kept),
            self.column_configuration.block * (-1 if passes else 1),
            int(self._is_short),
        )

    def text(self) -> str:
        """Return the definition of the function."""
        few = self.rows is not None
        if not few:
            self.kept = self._kept(self.cells)
            self._stored = self._needed()
        lines = [*self._bases(), *self._room(), *self._unit()]
        lines += self._at_once() if few else self._passes()
        return function_text([*lines, "  }"])

    # ----------------------------------------------------------------------------------- places

    def _known_extent(self, group: int) -> int | None:
        return known_extent(self.extents, self.groups, group)

    @property
    def _is_short(self) -> bool:
        width = self._known_extent(self.groups.count - 1)
        return width is not None and width <= SHORT

    @property
    def _arrays(self) -> int:
        """How many rows of scratch memory accumulators and values of columns take."""
        doubles = sum(self._is_tiled(reduction.kind) for reduction in self.cells.reductions)
        return len(self.cells.reductions) + 2 * doubles + len(self._stored)

    def _room(self) -> list[str]:
        """Declare scratch memory: accumulators, values of columns, rows that are kept."""
        if self.rows is not None:
            return []
        lines = ["  const i64 apart = c->block;", "  float *room = (float *)own->scratch;"]
        for number, reduction in enumerate(self.cells.reductions):
            lines.append(f"  float *restrict s{number} = room; room += apart;")
            if self._is_tiled(reduction.kind):
                lines.append(f"  double *restrict w{number} = (double *)room; room += 2 * apart;")
        for cell in self._stored:
            lines.append(f"  float *restrict y{cell} = room; room += apart;")
        for slot in range(len(self.kept)):
            rows = self._extent(self.reduced)
            lines.append(f"  float *restrict x{slot} = room; room += {rows} * apart;")
        return lines

    def _unit(self) -> list[str]:
        """Open the loop over units, with a pointer to each operand's part."""
        last = self.groups.count - 1
        lines = []
        for number, access in enumerate(self.accesses):
            if self._runs(access.map, self.reduced):
                lines.append(f"  const i64 d{number} = c->stride[{number}][{self.reduced}];")
        lines.append("  for (i64 unit = own->first; unit < own->end; unit++) {")
        if self._is_short:
            lines.append("    const i64 row = unit, from = 0, width = inner;")
        else:
            lines += [
                "    const i64 row = c->blocks > 1 ? unit / c->blocks : unit;",
                "    const i64 from = c->blocks > 1 ? unit % c->blocks * c->block : 0;",
                "    const i64 width = c->blocks > 1 ? LEAST(c->block, inner - from) : inner;",
            ]
        outer = [group for group in range(last) if group != self.reduced]
        lines += unravelled("row", outer, self._extent)
        for number, access in enumerate(self.accesses):
            steps = steps_along(number, (g for g in outer if self._runs(access.map, g)))
            steps += f" + {self.steps[number]} * from" if self.steps[number] else ""
            kind = C_TYPES[access.dtype]
            lines.append(f"    const {kind} *restrict p{number} = a{number}{steps};")
        for k, output in enumerate(self._outputs(self.cells)):
            without = self.reduced if output.row else -1
            steps = "".join(f" + i{g} * {self._behind(g, without)}" for g in outer)
            kind = C_TYPES[self.output_types[k]]
            lines.append(f"    {kind} *restrict q{k} = ({kind} *)c->out[{k}]{steps} + from;")
        return lines

    def _behind(self, group: int, without: int) -> str:
        """Return how far an output's elements along a loop are apart, one of the loops left out."""
        behind = [g for g in range(group + 1, self.groups.count) if g != without]
        return f"({' * '.join(map(self._extent, behind)) or '1'})"

    # ----------------------------------------------------------------------------------- stages

    def _at_once(self) -> list[str]:
        """Return the one loop over columns that computes few rows."""
        cells, rows = self.cells, self.rows or 0
        body = self._begin()
        for k, output in enumerate(self._outputs(cells)):
            if output.row:
                body.append(f"q{k}[j] = {stored(self._column(output.cell), self.output_types[k])};")
                continue
            for copy in range(rows):
                place = f"{copy} * {self._behind(self.reduced, -1)} + j"
                value = stored(self._value(output.cell, copy), self.output_types[k])
                body.append(f"q{k}[{place}] = {value};")
        return self._loop_over_columns(body, "    ")

    def _passes(self) -> list[str]:
        """Return the stages, each a loop over rows, and what columns have between them."""
        lines = []
        for stage in range(self._levels(self.cells)):
            lines += self._between(stage)
            lines += self._stage(stage)
        return lines

    def _between(self, level: int) -> list[str]:
        """Return the loop that computes what columns have before a stage."""
        body = self._begin()
        for number in self._stored:
            if self.cells.cells[number].level == level:
                body.append(f"y{number}[j] = {self._column(number)};")
        for k, output in enumerate(self._outputs(self.cells)):
            if output.row and self.cells.cells[output.cell].level == level:
                body.append(f"q{k}[j] = {stored(self._column(output.cell), self.output_types[k])};")
        self._ready |= {
            number for number in self._stored if self.cells.cells[number].level == level
        }
        return self._loop_over_columns(body, "    ") if body else []

    def _stage(self, stage: int) -> list[str]:
        cells = self.cells
        roots = self._roots(cells, stage)
        folded = [
            n
            for n, reduction in enumerate(cells.reductions)
            if cells.cells[reduction.body].level == stage
        ]
        if not roots:
            return []
        rows = self._extent(self.reduced)
        tiled = [n for n in folded if self._is_tiled(cells.reductions[n].kind)]
        begin = [f"s{n}[j] = {IDENTITY[cells.reductions[n].kind]};" for n in folded]
        begin += [f"w{n}[j] = {IDENTITY[cells.reductions[n].kind]};" for n in tiled]
        lines = self._loop_over_columns(begin, "    ") if begin else []
        quick = max(cells.cells[root].cost for root in roots) < SLOW_COST
        first, end, indent = "0", rows, "    "
        if tiled:
            lines.append(f"    for (i64 tile = 0; tile < {rows}; tile += {ROWS_OF_TILE}) {{")
            first, end, indent = "tile", "stop", "      "
            lines.append(f"      const i64 stop = LEAST(tile + {ROWS_OF_TILE}, {rows});")
        lines.append(f"{indent}i64 r = {first};")
        at_once = self.column_configuration.unroll
        if quick and folded and at_once > 1:
            lines.append(f"{indent}for (; r + {at_once} <= {end}; r += {at_once}) {{")
            body = self._rows_of(stage, roots, folded, at_once)
            lines += [*self._loop_over_columns(body, f"{indent}  "), f"{indent}}}"]
        lines.append(f"{indent}for (; r < {end}; r++) {{")
        body = self._rows_of(stage, roots, folded, 1)
        lines += [*self._loop_over_columns(body, f"{indent}  "), f"{indent}}}"]
        self._ready |= set(self.kept).intersection(self._new)
        self._ready |= {root for root in roots if root in cells.outputs}
        if tiled:
            gather = []
            for n in tiled:
                sign = "+" if cells.reductions[n].kind == "sum" else "*"
                identity = IDENTITY[cells.reductions[n].kind]
                gather.append(f"w{n}[j] {sign}= s{n}[j]; s{n}[j] = {identity};")
            lines += [*self._loop_over_columns(gather, indent), "    }"]
        return ["    {", *lines, "    }"]

    def _rows_of(self, stage: int, roots: list[int], folded: list[int], copies: int) -> list[str]:
        """Return the statements for a column of some rows: cells, what is kept, folds."""
        cells = self.cells
        body = self._begin()
        for copy in range(copies):
            for root in roots:
                self._value(root, copy)
            for number in dict.fromkeys(self._new):
                if number in self.kept:
                    place = f"(r + {copy}) * apart + j"
                    body.append(
                        f"x{self.kept.index(number)}[{place}] = {self._value(number, copy)};"
                    )
            for k, output in enumerate(self._outputs(cells)):
                if not output.row and cells.cells[output.cell].level == stage:
                    place = f"(r + {copy}) * {self._behind(self.reduced, -1)} + j"
                    value = stored(self._value(output.cell, copy), self.output_types[k])
                    body.append(f"q{k}[{place}] = {value};")
        for n in folded:
            kind, of = cells.reductions[n].kind, cells.reductions[n].body
            folded_rows = _tree(kind, [self._value(of, copy) for copy in range(copies)])
            body.append(f"s{n}[j] = {combine(kind, 'float32', folded_rows, f's{n}[j]')};")
        return body

    def _is_tiled(self, kind: str) -> bool:
        count = self._known_extent(self.reduced)
        return kind in _ADDED and (count is None or count > ROWS_OF_TILE)

    def _loop_over_columns(self, body: list[str], indent: str) -> list[str]:
        return simd_loop("j", "0", "width", body, [], indent)

    # ------------------------------------------------------------------------------------ cells

    def _begin(self) -> list[str]:
        """Begin the body of a loop over columns."""
        self._texts, self._body, self._new = {}, [], []
        return self._body

    def _needed(self) -> list[int]:
        """Return what columns have that cells of rows read: it is computed once, between stages."""
        cells = self.cells.cells
        read = {operand for cell in cells if not cell.row for operand in cell.operands}
        return sorted(
            number
            for number in read
            if cells[number].row and (cells[number].reduction >= 0 or cells[number].operands)
        )

    def _value(self, number: int, copy: int) -> str:
        """Write what a cell of a row needs into the loop's body; return how it is read."""
        cell = self.cells.cells[number]
        if cell.row:
            return self._column(number)
        if (number, copy) in self._texts:
            return self._texts[number, copy]
        if number in self._ready:
            slot = f"x{self.kept.index(number)}" if number in self.kept else ""
            place = f"(r + {copy}) * {'apart' if slot else self._behind(self.reduced, -1)} + j"
            text = f"{slot or f'q{self.cells.outputs.index(number)}'}[{place}]"
        elif cell.access >= 0:
            text = self._element(cell.access, copy)
        else:
            operand_texts = {k: self._value(k, copy) for k in cell.operands}
            text = expression(cell.term, "float32", self._reads(cell.operands, operand_texts))
            self._new.append(number)
        self._body.append(declared(f"c{number}_{copy}", cell.dtype, text))
        self._texts[number, copy] = f"c{number}_{copy}"
        return self._texts[number, copy]

    def _column(self, number: int) -> str:
        """The same for what a column has once."""
        if (number, -1) in self._texts:
            return self._texts[number, -1]
        cell = self.cells.cells[number]
        if number in self._ready:
            text = f"y{number}[j]"
        elif cell.access >= 0:
            text = self._element(cell.access, -1)
        elif cell.reduction >= 0:
            text = self._folded(cell.reduction)
        else:
            operand_texts = {k: self._column(k) for k in cell.operands}
            text = expression(cell.term, "float32", self._reads(cell.operands, operand_texts))
        self._body.append(declared(f"c{number}", cell.dtype, text))
        self._texts[number, -1] = f"c{number}"
        return self._texts[number, -1]

    def _folded(self, number: int) -> str:
        reduction = self.cells.reductions[number]
        if self.rows is not None:
            return _tree(
                reduction.kind, [self._value(reduction.body, copy) for copy in range(self.rows)]
            )
        return f"(float)w{number}[j]" if self._is_tiled(reduction.kind) else f"s{number}[j]"

    def _element(self, access: int, copy: int) -> str:
        number = self.accesses.index(self.cells.accesses[access])
        step = self.steps[number]
        places = [f"{step} * j" if step not in (0, 1) else "j"] if step else []
        if copy >= 0 and self._runs(self.accesses[number].map, self.reduced):
            row = f"{copy}" if self.rows is not None else f"(r + {copy})"
            places.insert(0, f"{row} * d{number}")
        return f"p{number}[{' + '.join(places) or '0'}]"


def _tree(kind: str, texts: list[str]) -> str:
    """Return what elements are folded to, in pairs."""
    if len(texts) == 1:
        return texts[0]
    half = (len(texts) + 1) // 2
    left, right = _tree(kind, texts[:half]), _tree(kind, texts[half:])
    return f"({combine(kind, 'float32', left, right)})"
