"""C text of a region's kernel: a loop over rows, and for each row its stages.

A stage runs along the row once: it computes the reductions whose operands are known by then, and
writes the outputs that are. Cells that a later stage needs again are computed anew where that costs
little more than a load, and kept otherwise: where an output will be written later, else in a row of
scratch memory. So the output's memory is fetched while something is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...codegen.expressions import C_TYPES, LoweringError, Reduction, declared, expression
from ...codegen.vector_loops import Fold, OverTiles, simd_loop, tiles
from ..configurations.loop_configuration import CellConfiguration, RowConfiguration
from .affine import Extent, Map, loops_of
from .c_function import access_pointers, extent_text, function_text, steps_along, unravelled
from .cells import SLOW_COST, Access, Cells, Pick
from .element_types import HALVES, stored
from .merged_loops import Groups

# Cells of a row that are computed at a time where they are converted before and after, and lie in
# the first cache meanwhile.
CONVERTED_BLOCK = 1024


@dataclass(frozen=True)
class Output:
    """Where a cell goes: `row` where there is one of it for a whole row."""

    cell: int
    row: bool


@dataclass
class RowWriter:
    """Writes the function of a kernel; `parts` are the cells of each part of the innermost loop.

    `output_types` are the outputs' element types, `picks` the indices that are read for each row.
    """

    parts: Sequence[Cells]
    bounds: Sequence[tuple[int, int | None]]
    accesses: Sequence[Access]
    inputs: Sequence[int]
    steps: Sequence[int]
    groups: Groups
    extents: tuple[Extent, ...]
    output_types: Sequence[str] = ()
    row_configuration: RowConfiguration = field(default_factory=RowConfiguration)
    cell_configuration: CellConfiguration = field(default_factory=CellConfiguration)
    picks: Sequence[Pick] = ()
    # what points to a row of each access, p and its number unless given
    pointers: Sequence[str] = ()
    kept: list[int] = field(default_factory=list)
    # the outputs that kept cells lie in until these are written
    lent: dict[int, int] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """How many rows of scratch memory it needs."""
        return len(self.kept) - len(self.lent) + (len(self._converted) if self.reduces else 0)

    @property
    def room(self) -> int:
        """How many bytes of it beside these."""
        return 0 if self.reduces else len(self._converted) * CONVERTED_BLOCK * 4

    @property
    def block(self) -> int:
        """How many cells of a row are computed at a time, 0 where it is needed as a whole."""
        if self.reduces:
            return 0
        return CONVERTED_BLOCK if self._converted else self.cell_configuration.block

    @property
    def _converted(self) -> list[str]:
        """The pointers whose elements are converted before or after, along a row."""
        first = self.parts[0]
        read = [f"p{n}" for n in range(len(self.accesses)) if self._is_widened(n)]
        rows = [output.row for output in self._outputs(first)]
        return read + [
            f"q{number}"
            for number, row in enumerate(rows)
            if not row and self.output_types[number] in HALVES
        ]

    def _is_widened(self, number: int) -> bool:
        """Tell whether an access reads numbers along a row that are converted first."""
        return self.accesses[number].dtype in HALVES and self.steps[number] != 0

    @property
    def least_kept(self) -> int:
        """What a cell costs at least that is kept."""
        return self.row_configuration.kept

    @property
    def reduces(self) -> bool:
        """Whether a row is needed as a whole."""
        return bool(self.parts[0].reductions)

    def text(self) -> str:
        """Return the definition of the function."""
        first = self.parts[0]
        self.kept = self._kept(first) if self.reduces else []
        lines = [*self._bases(), *self._scratch()]
        lines.append("  for (i64 unit = own->first; unit < own->end; unit++) {")
        if self.reduces:
            lines.append("    const i64 row = unit, from = 0, to = inner;")
        elif self._converted:
            lines += [
                f"    const i64 row = unit / c->blocks, base = unit % c->blocks * {self.block};",
                f"    const i64 from = 0, to = LEAST({self.block}, inner - base);",
            ]
        else:
            lines += [
                f"    const i64 row = unit / c->blocks, from = unit % c->blocks * {self.block};",
                f"    const i64 to = c->blocks > 1 ? LEAST(from + {self.block}, inner) : inner;",
            ]
        lines += unravelled("row", range(self.groups.count - 1), self._extent)
        lines += [*self._picked(), *self._pointers()]
        if len(self.parts) == 1:
            lines += self._widened(range(len(self.accesses)), "from", "to")
            lines += self._stages(first)
        else:
            for part, (start, end) in zip(self.parts, self.bounds, strict=True):
                lines += self._part(part, start, end)
        for number, dtype in enumerate(self.output_types):
            if f"q{number}" in self._converted:
                lines.append(
                    f"    narrow_to_{dtype}(q{number} + from, m{number} + from, to - from);"
                )
        return function_text([*lines, "  }"])

    def _scratch(self) -> list[str]:
        """Declare the rows of scratch memory: kept cells, and converted elements."""
        rows = [f"x{number}" for number in self.kept if number not in self.lent]
        slot_floats = "((inner + 15) / 16 * 16)" if self.reduces else CONVERTED_BLOCK
        return [
            f"  float *restrict {name} = (float *)own->scratch + {slot} * {slot_floats};"
            for slot, name in enumerate((*rows, *self._converted))
        ]

    def _picked(self) -> list[str]:
        """Read the indices of a unit; leave it where one names nothing."""
        lines = []
        for position, pick in enumerate(self.picks):
            number = len(self.accesses) + position
            place = self._along(number, pick.map)
            size = (
                pick.size if isinstance(pick.size, int) else f"c->extent[{self._group(position)}]"
            )
            lines += [
                f"    const i64 t{position} = indexed_row(*(a{number}{place}), {size});",
                f"    if (t{position} < 0) {{ indexed_outside(c); continue; }}",
            ]
        return lines

    def _along(self, number: int, place: Map) -> str:
        """Return the steps of an access along the outer loops, and along what is picked."""
        outer = [group for group in range(self.groups.count - 1) if self._runs(place, group)]
        return steps_along(number, outer) + "".join(
            f" + t{position} * c->stride[{number}][{self._group(position)}]"
            for position in range(len(self.picks))
            if len(self.extents) + position in loops_of(place)
        )

    def _runs(self, place: Map, group: int) -> bool:
        """Tell whether a place depends on a merged loop."""
        return not loops_of(place).isdisjoint(self.groups.loops(group))

    def _group(self, pick: int) -> int:
        """Return where the tables have what they know of an index that is read."""
        return self.groups.count + pick

    def _pointers(self) -> list[str]:
        """Point to a unit's part of each operand: p and q to numbers, n and m to halves of them."""
        lines = []
        shifted = bool(self._converted) and not self.reduces
        for number, access in enumerate(self.accesses):
            kind = C_TYPES[access.dtype]
            steps = self._along(number, access.map)
            if shifted and self.steps[number]:
                steps += f" + {self.steps[number]} * base"
            if access.dtype not in HALVES:
                lines.append(f"    const {kind} *restrict p{number} = a{number}{steps};")
            elif self._is_widened(number):
                lines.append(f"    const {kind} *n{number} = a{number}{steps};")
            else:
                lines.append(
                    f"    const float p{number}[] = {{wide_{access.dtype}(*(a{number}{steps}))}};"
                )
        for k, output in enumerate(self._outputs(self.parts[0])):
            place = "row" if output.row else "row * inner" + " + base" * shifted
            kind = C_TYPES[self.output_types[k]]
            name = f"{'m' if self.output_types[k] in HALVES else 'q'}{k}"
            lines.append(f"    {kind} *restrict {name} = ({kind} *)c->out[{k}] + {place};")
        return lines

    def _widened(self, accesses: Iterable[int], start: str, stop: str) -> list[str]:
        """Convert what is read along a row, from one cell to another."""
        lines = []
        for number in accesses:
            if self._is_widened(number):
                step, dtype = self.steps[number], self.accesses[number].dtype
                read = f"n{number} + {step} * {start}"
                to = f"p{number} + {start}"
                lines.append(f"    widen_{dtype}({read}, {step}, {to}, {stop} - {start});")
        return lines

    def _bases(self) -> list[str]:
        """Declare how long the innermost loop is, and where each operand begins."""
        picks = [Access(pick.value, pick.map, pick.dtype) for pick in self.picks]
        return [
            f"  const i64 inner = {self._extent(self.groups.count - 1)};",
            *access_pointers([*self.accesses, *picks], self.inputs),
        ]

    # --------------------------------------------------------------------------------- stages

    def _outputs(self, cells: Cells) -> list[Output]:
        return [Output(output, cells.cells[output].row) for output in cells.outputs]

    def _levels(self, cells: Cells) -> int:
        bodies = [cells.cells[reduction.body].level for reduction in cells.reductions]
        return 1 + max([*bodies, *(cells.cells[output].level for output in cells.outputs)])

    def _roots(self, cells: Cells, stage: int) -> list[int]:
        """Return the cells that a stage needs in each place, in order."""
        bodies = [
            reduction.body
            for reduction in cells.reductions
            if cells.cells[reduction.body].level == stage
        ]
        outputs = [
            output
            for output in cells.outputs
            if cells.cells[output].level == stage and not cells.cells[output].row
        ]
        return [*bodies, *outputs]

    def _kept(self, cells: Cells) -> list[int]:
        """Choose the cells that are kept for a later stage; outputs are read where they lie."""
        done: set[int] = set()
        kept: list[int] = []
        last: dict[int, int] = {}

        def visit(number: int, earlier: frozenset[int]) -> None:
            cell = cells.cells[number]
            if cell.row:
                return
            if number in earlier and (cell.cost >= self.least_kept or number in cells.outputs):
                if number not in kept and not (number in cells.outputs and cell.level < stage):
                    kept.append(number)
                last[number] = stage
                return
            done.add(number)
            for operand in cell.operands:
                visit(operand, earlier)

        for stage in range(self._levels(cells)):
            earlier = frozenset(done)
            for root in self._roots(cells, stage):
                visit(root, earlier)
        self.lent = self._lent(cells, {number: last[number] for number in kept})
        return kept

    def _lent(self, cells: Cells, last: Mapping[int, int]) -> dict[int, int]:
        """Choose outputs in which kept cells, last read in some stage, can lie until then."""
        free = [
            number
            for number, output in enumerate(cells.outputs)
            if not cells.cells[output].row and self.output_types[number] in ("float32", *HALVES)
        ]
        slots: dict[int, int] = {}
        for number, stage in last.items():
            for k in free:
                if cells.cells[cells.outputs[k]].level >= stage:
                    slots[number] = k
                    free.remove(k)
                    break
        return slots

    def _slot(self, number: int) -> str:
        """Return the row that a kept cell lies in."""
        return f"q{self.lent[number]}" if number in self.lent else f"x{number}"

    def _stages(self, cells: Cells) -> list[str]:
        lines: list[str] = []
        named: set[int] = set()
        written: set[int] = set()
        assigned: set[int] = set()
        for stage in range(self._levels(cells)):
            roots = self._roots(cells, stage)
            body: list[str] = []
            texts: dict[int, str] = {}
            new: list[int] = []
            for root in roots:
                self._cell(cells, root, texts, body, lines, named, written | assigned, new)
            folds = []
            for number, reduction in enumerate(cells.reductions):
                if cells.cells[reduction.body].level == stage:
                    body_text = texts[reduction.body]
                    folds.append(Fold(Reduction(number, reduction.kind, body_text, "float32")))
            for kept_cell in self.kept:
                if kept_cell in new and kept_cell not in assigned:
                    body.append(f"{self._slot(kept_cell)}[j] = {texts[kept_cell]};")
                    assigned.add(kept_cell)
            for k, output in enumerate(self._outputs(cells)):
                if not output.row and cells.cells[output.cell].level == stage:
                    body.append(f"q{k}[j] = {stored(texts[output.cell], self.output_types[k])};")
                    written.add(output.cell)
            cost = max((cells.cells[root].cost for root in roots), default=0.0)
            lines += self._loop(body, folds, cost)
        for k, output in enumerate(self._outputs(cells)):
            if output.row:
                text = self._row(cells, output.cell, lines, named)
                dtype = self.output_types[k]
                if dtype in HALVES:
                    lines.append(f"    m{k}[0] = narrow_{dtype}({text});")
                else:
                    lines.append(f"    q{k}[0] = {stored(text, dtype)};")
        return lines

    def _loop(self, body: Sequence[str], folds: Sequence[Fold], cost: float) -> list[str]:
        if not body and not folds:
            return []
        if not folds:
            return self._over_cells("from", "to", body)
        wholes = [OverTiles(fold, "w", compensated=False) for fold in folds]
        vectors = 1 if cost >= SLOW_COST else self.row_configuration.streams
        return [
            *(f"    {whole.declare()}" for whole in wholes),
            *tiles("j", "from", "to", body, wholes, "    ", _lanes(vectors)),
        ]

    def _over_cells(self, first: str, end: str, body: Sequence[str]) -> list[str]:
        """Return a loop over cells that nothing is reduced of."""
        vectors = 1 if self.reduces else self.cell_configuration.unroll
        return simd_loop("j", first, end, body, [], "    ", _lanes(vectors))

    def _part(self, cells: Cells, start: int, end: int | None) -> list[str]:
        """Return the loop over one part of the row; nothing is reduced along it."""
        rows, body, texts = self.cell_texts(cells)
        for number, (text, dtype) in enumerate(zip(texts, self.output_types, strict=True)):
            body.append(f"q{number}[j] = {stored(text, dtype)};")
        back = " - base" if self._converted else ""
        stop = "to" if end is None else f"LEAST(to, {end}{back})"
        lines = ["    {", *rows, f"    const i64 begin = {start}{back};"]
        lines += ["    const i64 start = from > begin ? from : begin;"]
        lines += [f"    const i64 stop = {stop};"]
        used = [self.accesses.index(access) for access in cells.accesses]
        lines += self._widened(used, "start", "stop")
        return [*lines, *self._over_cells("start", "stop", body), "    }"]

    # ---------------------------------------------------------------------------------- cells

    def cell_texts(self, cells: Cells) -> tuple[list[str], list[str], list[str]]:
        """Return statements of a row, statements of an element, and how each output is read.

        Nothing is reduced along the row.
        """
        rows: list[str] = []
        body: list[str] = []
        texts: dict[int, str] = {}
        named: set[int] = set()
        outputs = [
            self._cell(cells, output, texts, body, rows, named, set(), [])
            for output in cells.outputs
        ]
        return rows, body, outputs

    def _pointer(self, number: int) -> str:
        return self.pointers[number] if self.pointers else f"p{number}"

    def _cell(
        self,
        cells: Cells,
        index: int,
        texts: dict[int, str],
        body: list[str],
        rows: list[str],
        named: set[int],
        ready: set[int],
        new: list[int],
    ) -> str:
        """Write what a cell needs into the loop's body, or before it; return how it is read."""
        cell = cells.cells[index]
        if cell.row:
            texts[index] = self._row(cells, index, rows, named)
        if index in texts:
            return texts[index]
        if index in ready:
            source = self._slot(index) if index in self.kept else f"q{cells.outputs.index(index)}"
            body.append(declared(f"c{index}", "float32", f"{source}[j]"))
        elif cell.access >= 0:
            number = self.accesses.index(cells.accesses[cell.access])
            step = self.steps[number]
            element = "j" if step == 1 or self._is_widened(number) else f"{step} * j"
            source = self._pointer(number)
            body.append(declared(f"c{index}", cell.dtype, f"{source}[{element}]"))
        else:
            for operand in cell.operands:
                self._cell(cells, operand, texts, body, rows, named, ready, new)
            text = expression(cell.term, "float32", self._reads(cell.operands, texts))
            body.append(declared(f"c{index}", cell.dtype, text))
            new.append(index)
        texts[index] = f"c{index}"
        return texts[index]

    def _row(self, cells: Cells, index: int, rows: list[str], named: set[int]) -> str:
        """Write a row's cell before the loop, once."""
        if index in named:
            return f"c{index}"
        cell, dtype = cells.cells[index], cells.cells[index].dtype
        if cell.access >= 0:
            number = self.accesses.index(cells.accesses[cell.access])
            text = f"*{self._pointer(number)}"
        elif cell.reduction >= 0 and _stays_wide(cells, index):
            dtype, text = "float64", f"w{cell.reduction}"
        elif cell.reduction >= 0:
            text = f"(float)w{cell.reduction}"
        else:
            texts = {k: self._row(cells, k, rows, named) for k in cell.operands}
            text = expression(cell.term, "float32", self._reads(cell.operands, texts))
        rows.append(f"    {declared(f'c{index}', dtype, text)}")
        named.add(index)
        return f"c{index}"

    def _reads(
        self, operands: Sequence[int], texts: Mapping[int, str]
    ) -> Mapping[str, str | float | bool]:
        values: dict[str, str | float | bool] = {
            f"c{operand}": texts[operand] for operand in operands
        }
        for number, extent in enumerate(self.extents):
            group = self.groups.of[number]
            if isinstance(extent, str) and len(self.groups.loops(group)) == 1:
                values[f"size {extent}"] = f"(float)c->extent[{group}]"
        return _Sizes(values)

    def _extent(self, group: int) -> str:
        return extent_text(self.extents, self.groups, group)


def _stays_wide(cells: Cells, number: int) -> bool:
    """Tell whether only a row's own cells read a sum, as a mean does: it is rounded once, by these.

    Of a mean of large numbers that a row is centred by, each rounding shifts the whole row.
    """
    users = [cell for cell in cells.cells if number in cell.operands]
    return number not in cells.outputs and all(cell.row for cell in users)


def _lanes(vectors: int) -> str:
    """Return how many cells are computed at a time; of one vector, as the compiler does."""
    return f"{vectors} * LANES_32" if vectors > 1 else ""


class _Sizes(dict[str, str | float | bool]):
    """What terms read; a dimension that is no loop's own has no text."""

    def __missing__(self, key: str) -> str:
        raise LoweringError(f"the {key} is no loop's extent")
