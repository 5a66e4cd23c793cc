"""The text of a kernel over the stored entries of a sparse matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...codegen.expressions import SUFFIXES, LoweringError
from ...codegen.vector_loops import Fold, OverTiles, tile
from ..program.dag import Node
from .cell_kernel import fold_lanes
from .launch import HEADER, VIEW, over_chunks
from .region_kernel import KernelText
from .statements import MOVES, declare, reduction, statement

# Doubles of sums that lie in the nearest caches: scattered among more, they are looked ahead for.
_NEAR = 1 << 15

# Find the rows of a tile's entries and of those that follow; keep these for the next tile.
_FIND = (
    "const i64 before = known;",
    "known = LEAST(TILE + FURTHER, stop - k);",
    "row = rows_of_entries(rows, row, k, before, known, rr);",
)
_KEEP = ("known -= n;", "memcpy(rr, rr + n, (size_t)known * sizeof(int32_t));")

Axes = tuple[int | None, int | None]  # where the driver's rows and columns are, of a node


@dataclass
class EntryText(KernelText):
    """Builds the text.

    The form of an operand: cells (an array of the driver's shape), sparse (its values at the
    driver's entries), row, column, number (contiguous vectors along the driver's axes, a number),
    factor (contiguous, a row for each row or column of the driver); and of results entries
    (values at the entries), rows (a number a row), matrix_rows.
    """

    axes: Mapping[int, Axes]
    states: Mapping[int, str]
    driver: int
    outputs: Sequence[int]
    widths: dict[int, int] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    gathers: list[str] = field(default_factory=list)
    loads: dict[int, str] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    literal: ClassVar[int] = 128

    def turned(self, node_id: int) -> bool:
        """Whether a node has the driver's rows as its last axis."""
        return self.axes[node_id][0] == 1

    def by_rows(self, node_id: int, value: Any) -> Any:
        """Return a factor with the driver's rows or columns as its rows."""
        if value.ndim == 1:
            return value.reshape(-1, 1)
        rows, columns = self.axes[node_id]
        return value.T if 1 in (rows, columns) else value

    def build(self, name: str, nodes: Sequence[Node]) -> str:
        """Return the definition of the kernel for the nodes at entries and their aggregates."""
        computed = {node.id for node in nodes}
        for node in nodes:
            if self.states[node.id] == "cell" and node.op == "MatMul":
                self._dots(node)
                continue
            if self.states[node.id] == "aggregate":
                for number in node.inputs:
                    if self.states[number] == "cell" and number not in computed:
                        self._operand(number)
                self._aggregate(node)
                continue
            for node_id in node.inputs:
                if node_id not in computed:
                    self._operand(node_id)
            if node.op in MOVES and self.states[node.inputs[0]] != "cell":
                raise LoweringError(f"{node.op} (%{node.id}) makes entries of none")
            self.body.append(statement(self.program, node))
        for node in nodes:
            if self.states[node.id] == "cell" and node.id in self.outputs:
                view = self.view(node.id, "entries")
                kind = self.c_type(node.id)
                self.heads.append(f"{kind} *const y{node.id} = ({kind} *){view}->data;")
                self.stores.append(f"y{node.id}[k + j] = v{node.id};")
        states = self.states
        cells = [n for n in nodes if states[n.id] == "cell" and n.op not in MOVES]
        return "\n".join(self._frame(name, cells))

    def _frame(self, name: str, cells: Sequence[Node]) -> list[str]:
        views = HEADER + len(self.sizes)
        kind = self.c_type(self.driver)
        # the rows of single entries are found for those who ask, in the tile and further on
        asked = any("rr" in line for line in (*self.gathers, *self.tails))
        lanes = ""
        if not (self.gathers or self.tails):
            lanes = fold_lanes(cells, self.folds, self.stores)
        step = "4 * TILE" if lanes else "TILE"
        body = [*self.loads.values(), *self.body, *self.stores]
        lines = [f"static void {name}(i64 *a) {{"]
        lines += [f"  const i64 n{i} = a[{HEADER + i}];" for i in range(len(self.sizes))]
        lines += [
            f"  const view *driver = (const view *)(a + {views});",
            f"  const {kind} *const values = (const {kind} *)driver->data;",
            "  const begins rows = begins_of(driver);",
            "  const int32_t *const columns = (const int32_t *)driver->column;",
        ]
        for i in range(len(self.operands)):
            lines.append(f"  const view *in{i} = (const view *)(a + {views + (1 + i) * VIEW});")
        lines += ["  int32_t rr[TILE + FURTHER];"] if asked else []
        lines += [f"  {line}" for line in self.heads]
        wholes = [OverTiles(fold, "g") for fold in self.folds]
        inside = [
            "double *const sums = (double *)a[5] + chunk * a[6];",
            *(whole.declare() for whole in wholes),
            "const i64 stop = begin(rows, last);",
            "i64 row = chunk * a[2], known = 0;",
            "i64 summed = row;",
            f"for (i64 k = begin(rows, row); k < stop; k += {step}) {{",
            f"  const i64 n = LEAST({step}, stop - k);",
            "  const int32_t *const cc = columns + k;",
            *(f"  {line}" for line in (_FIND if asked else ())),
            *(f"  {line}" for line in self.gathers),
            *tile("j", "0", "n", body, wholes, "  ", lanes),
            *(f"  {line}" for line in self.tails),
            *(f"  {line}" for line in self.passed),
            *(f"  {line}" for line in (_KEEP if asked else ())),
            "}",
        ]
        for whole in wholes:
            offset = next(p.offset for p in self.parts if p.node == whole.fold.reduction.node)
            inside.append(f"sums[{offset}] = {whole.value};")
        return [*lines, *over_chunks("last", inside), "}"]

    # ---- operands
    def _operand(self, number: int) -> None:
        """Make v<id> of what is given: gathered before the loop, read in it."""
        node, kind = self.program.nodes[number], self.c_type(number)
        if node.op == "Constant" or number in self.loads:
            return
        if number == self.driver:
            self.loads[number] = declare(node, "values[k + j]")
            return
        rows, columns = self.axes[number]
        if rows is not None and columns is not None and node.layout != "dense":
            self.heads.append(
                f"const {kind} *const x{number} = "
                f"(const {kind} *){self.view(number, 'sparse')}->data;"
            )
            self.loads[number] = declare(node, f"x{number}[k + j]")
            return
        if node.layout != "dense":
            raise LoweringError("a sparse vector beside a sparse driver")
        if rows is not None and columns is not None:
            view = self.view(number, "cells")
            call = f"entries_{self.bits(number)}({view}, rr, cc, n, known, b{number});"
            self.heads.append(f"{kind} b{number}[TILE];")
            self.gathers.append(call)
            self.loads[number] = declare(node, f"b{number}[j]")
            return
        if rows is not None or columns is not None:
            if node.size != node.shape[rows if rows is not None else columns or 0]:
                raise LoweringError(f"%{number} is no vector along the driver")
            view = self.view(number, "row" if rows is not None else "column")
            index = "rr[j]" if rows is not None else "cc[j]"
            element = f"((const {kind} *){view}->data)[{index}]"
        elif node.size == 1:
            self.heads.append(
                f"const {kind} x{number} = *(const {kind} *){self.view(number, 'number')}->data;"
            )
            self.loads[number] = declare(node, f"x{number}")
            return
        else:
            raise LoweringError(f"%{number} has neither the driver's rows nor its columns")
        self.heads.append(f"{kind} b{number}[TILE];")
        self.gathers.append(f"for (i64 j = 0; j < n; j++) b{number}[j] = {element};")
        self.loads[number] = declare(node, f"b{number}[j]")

    def _factors(self, node: Node) -> tuple[int, int]:
        """Return the factors of a product at entries: along the driver's rows, and columns."""
        left, right = node.inputs
        return (right, left) if self.turned(node.id) else (left, right)

    def _check_floating(self, node: Node) -> None:
        types = {node.dtype, *(self.program.nodes[number].dtype for number in node.inputs)}
        if node.dtype not in SUFFIXES or len(types) > 1:
            raise LoweringError(f"{node.op} (%{node.id}) of {node.dtype}")

    def _dots(self, node: Node) -> None:
        self._check_floating(node)
        kind, bits = self.c_type(node.id), SUFFIXES[node.dtype]
        along, across = self._factors(node)
        if any(self.program.nodes[number].layout != "dense" for number in (along, across)) or any(
            self.states[number] != "before" for number in (along, across)
        ):
            raise LoweringError(f"MatMul (%{node.id}) of what isn't given dense")
        shape = self.program.nodes[along].shape
        rank = 1 if len(shape) == 1 else shape[1 - (self.axes[along][0] or 0)]
        wide = self.size(rank)
        for number in (along, across):
            self.heads.append(
                f"const {kind} *const f{number} = "
                f"(const {kind} *){self.view(number, 'factor')}->data;"
            )
        self.heads.append(f"{kind} b{node.id}[TILE];")
        self.gathers.append(f"dots_at_{bits}(f{along}, rr, f{across}, cc, b{node.id}, n, {wide});")
        self.loads[node.id] = declare(node, f"b{node.id}[j]")

    # ---- aggregates
    def _aggregate(self, node: Node) -> None:
        self._check_floating(node)
        if node.op == "MatMul":
            self._product(node)
            return
        reduced = reduction(self.program, node)
        if reduced.kind != "sum":
            raise LoweringError(f"{node.op} (%{node.id}) sees the zeros that aren't stored")
        if node.size == 1 and self.axes[node.id] == (None, None):
            self.part(node.id, "sum", (1,), reduced=reduced)
            self.folds.append(Fold(reduced))
            return
        kind = self.c_type(node.id)
        self.heads.append(f"{kind} s{node.id}[TILE];")
        self.body.append(f"s{node.id}[j] = {reduced.body};")
        if self.axes[node.id][0] is not None:
            view = self.view(node.id, "rows")
            self.heads.append(f"{kind} *const o{node.id} = ({kind} *){view}->data;")
            if reduced.finish("x") != "x":
                raise LoweringError(f"{node.op} (%{node.id}) of rows")
            bits = SUFFIXES[node.dtype]
            call = f"add_up_rows_{bits}(s{node.id}, rows, summed, k, n, o{node.id});"
            # the last of them tells where the next tile begins
            self.tails.append(f"const i64 r{node.id} = {call}")
            self.passed = [f"summed = r{node.id};"]
            return
        count = self.program.nodes[self.driver].shape[1]
        offset = self.size(self.part(node.id, "sum", (count,), reduced=reduced))
        self.tails.append(f"for (i64 j = 0; j < n; j++) sums[{offset} + cc[j]] += s{node.id}[j];")

    def _product(self, node: Node) -> None:
        """The entries as a matrix times a factor: rows of it are added up, weighted."""
        cells = [number for number in node.inputs if self.states[number] == "cell"]
        if len(cells) != 1:
            raise LoweringError(f"MatMul (%{node.id}) of two values at entries")
        cell, kind, bits = cells[0], self.c_type(node.id), SUFFIXES[node.dtype]
        other = node.inputs[1] if node.inputs[0] == cell else node.inputs[0]
        if self.program.nodes[other].layout != "dense":
            raise LoweringError("a sparse factor beside a sparse driver")
        width = self.program.nodes[other].size // max(
            self.program.nodes[other].shape[
                next(axis for axis in self.axes[other] if axis is not None)
            ],
            1,
        )
        wide = self.size(width)
        self.widths[node.id] = width
        factor = f"((const {kind} *){self.view(other, 'factor')}->data)"
        self.heads.append(f"{kind} s{node.id}[TILE];")
        self.body.append(f"s{node.id}[j] = v{cell};")
        if self.axes[node.id][0] is not None:
            view = self.view(node.id, "matrix_rows")
            target = f"({kind} *){view}->data"
            call = f"add_to_rows_{bits}(s{node.id}, rr, cc, n, {factor}, {target}, {wide});"
            self.tails.append(call)
            return
        count = self.program.nodes[self.driver].shape[1]
        turned = self.axes[node.id][1] == 1
        offset = self.size(self.part(node.id, "product", (count, width), turned))
        row = f"{factor} + (i64)rr[j] * {wide}"
        soon = f"sums + {offset} + (i64)cc[LEAST(j + 16, n - 1)] * {wide}"
        self.tails += [
            "for (i64 j = 0; j < n; j++) {",
            *([f"  __builtin_prefetch({soon}, 1);"] if count * width > _NEAR else []),
            f"  double *const c = sums + {offset} + (i64)cc[j] * {wide};",
            f"  const {kind} *const f = {row};",
            f"  add_few_64(c, f, s{node.id}[j], {wide});"
            if bits == "64"
            else f"  for (i64 q = 0; q < {wide}; q++) c[q] += (double)s{node.id}[j] * f[q];",
            "}",
        ]
