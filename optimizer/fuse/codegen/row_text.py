"""The text of a kernel over blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...codegen.expressions import LoweringError
from ...codegen.vector_loops import (
    IDENTITY,
    Fold,
    OverTiles,
    combine,
    simd_loop,
    tiles,
)
from ..planning.work import work
from ..program.dag import Node
from .launch import HEADER, VIEW, over_chunks
from .row_products import RowProducts
from .row_state import Group
from .statements import declare, reduction, statement

# Rows shorter than this that don't fill vectors: what they are reduced to is added up one by one.
SHORT = 16
# Operations on each row, by the weights of the model of costs, that need no vectors over rows.
_LITTLE = 8
# Stored entries of a row from which on its products take longer than what is done for each row.
_ENTRIES = 8
# Widths from which a sum along a row is made in tiles.
TILE = 1024


class RowText(RowProducts):
    """Builds the text."""

    # ---- the parts of the text
    def build(self, name: str) -> str:
        """Return the definition of the kernel."""
        self.single = self._goes_row_by_row()
        self.unfetched, self.following = self._fetching(), self._following()
        for level in self.plan.levels:
            for group in level.groups.values():
                self._fetch(group.operands(self.plan.alias))
            for node in level.products:
                self._fetch(
                    [
                        number
                        for number in self._factors(node)
                        if not self._sparse_factor(node, number)
                    ]
                )
        for level in self.plan.levels:
            for group in level.groups.values():
                self._group(group)
            for node in level.products:
                self._product(node)
        return "\n".join(self._frame(name))

    def _goes_row_by_row(self) -> bool:
        """Whether blocks bring nothing: products of a sparse row and a vector, and a little else.

        Then the loads of the next row's product go on beside the sums of this one's.
        """
        levels = self.plan.levels
        products = [node for level in levels for node in level.products]
        groups = [group for level in levels for group in level.groups.values()]
        cells = [node for group in groups for node in group.nodes]
        return (
            len(products) > 1
            and all(self._is_of_a_sparse_row(node) for node in products)
            and all(group.width == 1 for group in groups)
            and not any(group.rows or group.columns or group.full for group in groups)
            and sum(work(node.op, len(node.inputs)) for node in cells) <= _LITTLE
        )

    def _is_of_a_sparse_row(self, node: Node) -> bool:
        driver = self._driver(node)
        if (self.node(driver).nnz or 0) < _ENTRIES * self.partition.rows:
            return False
        others = [number for number in self._factors(node) if number != driver]
        if self.partition.state[node.id] == "cell":
            return self._stored(driver) and self.width(node.id) == 1
        return self._stored(driver) and all(self.width(number) == 1 for number in others)

    def _frame(self, name: str) -> list[str]:
        views = HEADER + len(self.sizes)
        lines = [f"static void {name}(i64 *a) {{"]
        sizes = [f"a[{HEADER + i}]" for i in range(len(self.sizes))]
        if self.single:
            sizes[0] = "1"
        lines += [f"  const i64 n{i} = {value};" for i, value in enumerate(sizes)]
        for i in range(len(self.operands)):
            lines.append(f"  const view *in{i} = (const view *)(a + {views + i * VIEW});")
        lines.append("  i64 need = 64;")
        for buffer, kind, count in self.scratch:
            lines.append(f"  const i64 at_{buffer} = need;")
            lines.append(f"  need += ((i64)({count}) * (i64)sizeof({kind}) + 127) & ~(i64)63;")
        lines += [
            "  char *const memory = calloc(1, (size_t)need);",
            "  if (!memory) { __atomic_store_n(a + 7, 1, __ATOMIC_RELAXED); return; }",
            "  char *const aligned = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);",
        ]
        for buffer, kind, _ in self.scratch:
            lines.append(f"  {kind} *const {buffer} = ({kind} *)(aligned + at_{buffer});")
        lines += [f"  {line}" for line in self.before]
        inside = [
            "double *const sums = (double *)a[5] + chunk * a[6];",
            *self.opens,
            "i64 filled = 0;",
            "for (i64 r0 = chunk * a[2]; r0 < end; r0 += n0) {",
            "  const i64 R = LEAST(n0, end - r0);",
            *(f"  {line}" for line in self.block),
        ]
        if self.flushes:
            inside += [
                "  if (++filled < n1 && r0 + n0 < end) continue;",
                "  filled = 0;",
                *(f"  {line}" for line in self.flushes),
            ]
        inside += ["}", *self.closes]
        return [*lines, *over_chunks("end", inside, "break"), "  free(memory);", "}"]

    # ---- a loop over cells
    def _group(self, group: Group) -> None:
        heads, loads = self._operands(group)
        body = [*loads, *(statement(self.program, node, self.plan.alias) for node in group.nodes)]
        for node in group.nodes:
            if node.id in self.plan.kept or node.id in self.outputs:
                self._target(node.id)
                if group.width == 1:
                    body.append(f"t{node.id}[r] = v{node.id};")
                else:
                    kind = self.c_type(node.id)
                    heads.append(f"{kind} *restrict y{node.id} = t{node.id} + r * p{node.id};")
                    body.append(f"y{node.id}[j] = v{node.id};")
        for node in group.rows:
            self._target(node.id)
        body += self._column_sums(group)
        full = [self._full(node) for node in group.full]
        if group.width == 1:
            for node in group.rows:
                reduced = reduction(self.program, node, self.plan.alias)
                body.append(f"t{node.id}[r] = {reduced.finish(f'({reduced.body})')};")
            self._tiles("r", "R", body, full, [])
            return
        rows = [Fold(reduction(self.program, node, self.plan.alias)) for node in group.rows]
        if 2 < group.width < SHORT and group.width % 8:
            self._short(group, heads, body, full, rows)
            return
        end, tiled = self.size(group.width), group.width > TILE
        # numbers of short rows are reduced over the block, which is no longer than a few tiles
        self.block += [] if tiled else [fold.declare() for fold in full]
        self.block.append("for (i64 r = 0; r < R; r++) {")
        self.block += [f"  {line}" for line in heads]
        if tiled:
            self.block += [f"  {OverTiles(fold, 'q').declare()}" for fold in rows]
            self._tiles("j", end, body, full, rows)
        else:
            self.block += [f"  {fold.declare()}" for fold in rows]
            self.block += simd_loop("j", "0", end, body, [*full, *rows], "  ")
        for fold in rows:
            whole = OverTiles(fold, "q").value if tiled else fold.result()
            kind = self.c_type(fold.reduction.node)
            value = fold.reduction.finish(f"(({kind}){whole})")
            self.block.append(f"  t{fold.reduction.node}[r] = {value};")
        self.block.append("}")
        self.block += [] if tiled else [OverTiles(fold, "g").collect() for fold in full]

    def _short(
        self,
        group: Group,
        heads: Sequence[str],
        body: Sequence[str],
        full: Sequence[Fold],
        rows: Sequence[Fold],
    ) -> None:
        """A loop over rows of a few cells: sums over rows lie side by side, a number for each cell.

        To reduce a part of a vector to one number in each row would cost more than all else.
        """
        wide = str(group.width)
        loop_head = f"for (i64 j = 0; j < {wide}; j++)"
        sums = [f"c{node.id}" for node in group.columns]
        for fold in full:
            self.block += fold.declare_lanes(wide)
        for name in sums:
            self.block.append(f"__typeof__(*{name}) k{name}[{wide}];")
            self.block.append(f"{loop_head} k{name}[j] = {name}[j];")
        body = [_renamed(line, sums) for line in body]
        self.block.append("for (i64 r = 0; r < R; r++) {")
        self.block += [f"  {line}" for line in heads]
        for fold in rows:
            name = f"e{fold.reduction.node}"
            self.block.append(f"  {fold.c_type} {name}[{wide}];")
            body.append(f"{name}[j] = {fold.reduction.body};")
        body += [fold.step_lanes() for fold in full]
        self.block += simd_loop("j", "0", wide, body, [], "  ")
        for fold in rows:
            node = fold.reduction.node
            fold_of_lane = Fold(replace(fold.reduction, body=f"e{node}[j]"))
            self.block += [f"  {fold_of_lane.declare()}", "  #pragma GCC unroll 16"]
            self.block.append(f"  {loop_head} {{ {fold_of_lane.step()} }}")
            value = fold_of_lane.reduction.finish(f"(({self.c_type(node)}){fold_of_lane.result()})")
            self.block.append(f"  t{node}[r] = {value};")
        self.block.append("}")
        self.block += [f"{loop_head} {name}[j] = k{name}[j];" for name in sums]
        for fold in full:
            self.block += [*fold.gather_lanes(wide), OverTiles(fold, "g").collect()]

    def _operands(self, group: Group) -> tuple[list[str], list[str]]:
        """Return what stands before the loop over a row, and what reads its elements."""
        heads: list[str] = []
        loads: list[str] = []
        for number in group.operands(self.plan.alias):
            node, kind = self.node(number), self.c_type(number)
            if node.op == "Constant":
                continue
            if self.partition.state[number] != "cell":
                view = self.view(number, "whole")
                line = f"const {kind} *const x{number} = (const {kind} *){view}->data;"
                if line not in self.before:
                    self.before.append(line)
                if node.size not in (1, group.width):
                    raise LoweringError(f"%{number} doesn't lie along a row")
                loads.append(declare(node, f"x{number}[{'0' if node.size == 1 else 'j'}]"))
            elif group.width == 1:
                loads.append(declare(node, f"t{number}[r]"))
            elif self.width(number) == 1:
                heads.append(declare(node, f"t{number}[r]"))
            elif self.width(number) == group.width:
                heads.append(f"const {kind} *restrict x{number} = t{number} + r * p{number};")
                loads.append(declare(node, f"x{number}[j]"))
            else:
                raise LoweringError(f"%{number} has rows of another width")
        return heads, loads

    def _tiles(
        self, index: str, end: str, body: Sequence[str], full: Sequence[Fold], rows: Sequence[Fold]
    ) -> None:
        """A loop over cells in tiles; what is reduced in one is collected after it."""
        wholes = [
            *(OverTiles(fold, "g") for fold in full),
            *(OverTiles(fold, "q") for fold in rows),
        ]
        if wholes:
            self.block += tiles(index, "0", end, body, wholes, "  ")
        else:
            self.block += simd_loop(index, "0", end, body, [], "  ")

    def _full(self, node: Node) -> Fold:
        fold = Fold(reduction(self.program, node, self.plan.alias))
        whole = OverTiles(fold, "g")
        place = self._place(node.id, fold.reduction.kind, (1,))
        self.opens.append(whole.declare())
        self.closes.append(f"*({place}) = {whole.value};")
        return fold

    def _column_sums(self, group: Group) -> list[str]:
        """Return the statements that add a row to what its columns are reduced to."""
        lines = []
        for node in group.columns:
            reduced = reduction(self.program, node, self.plan.alias)
            place = self._place(node.id, reduced.kind, (group.width,))
            if reduced.kind == "sum":
                self._sums(node, group.width, place)
                lines.append(f"c{node.id}[j] += {reduced.body};")
            else:
                wide = self.size(group.width)
                self.opens.append(f"double *const c{node.id} = {place};")
                fill = f"c{node.id}[j] = {IDENTITY[reduced.kind]};"
                self.opens.append(f"for (i64 j = 0; j < {wide}; j++) {fill}")
                both = combine(
                    reduced.kind, "float64", f"c{node.id}[j]", f"(double)({reduced.body})"
                )
                lines.append(f"c{node.id}[j] = {both};")
        return lines


def _renamed(line: str, sums: Sequence[str]) -> str:
    for name in sums:
        line = line.replace(f"{name}[j]", f"k{name}[j]")
    return line
