"""The text of a kernel over blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..program.dag import Node, Program
from .axes import Partition, contracted
from .cells import Reduction, held_dtype, load, reduction, statement
from .launch import HEADER, VIEW
from .loops import IDENTITY, Fold, combine, simd_loop
from .scalar import C_TYPES, SUFFIXES, LoweringError
from .stages import Group, Schedule, width

# Widths up to this are written into the text, so that short loops are unrolled.
_LITERAL = 64
# Rows shorter than this that don't fill vectors: what they are reduced to is added up one by one.
SHORT = 16
# Widths from which a sum along a row is made in tiles.
TILE = 1024
# Elements of the longest vectors.
_LANES = {"64": 8, "32": 16}


@dataclass(frozen=True)
class Operand:
    """What a view of the arguments is: `form` says how the caller must prepare it.

    rows: an array by rows; sparse: a sparse one; result: an output by rows. The same for each row:
    whole: contiguous; turned: its transpose, contiguous.
    """

    node: int
    form: str


@dataclass(frozen=True)
class Part:
    """An aggregate in a chunk's partial results: `size` doubles from `offset` on."""

    node: int
    kind: str
    offset: int
    size: int
    shape: tuple[int, ...]  # as it lies there
    turned: bool  # whether the result is its transpose
    reduction: Reduction | None = None
    used: int | None = None  # so many columns of it; None: all


@dataclass
class RowText:
    """Builds the text; then `operands`, `sizes` and `parts` say how the kernel is called."""

    program: Program
    part: Partition
    plan: Schedule
    given: Sequence[int]
    outputs: Sequence[int]
    operands: list[Operand] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [0, 0])  # rows of a block, blocks of a flush
    parts: list[Part] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    scratch: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, count
    block: list[str] = field(default_factory=list)
    flushes: list[str] = field(default_factory=list)
    opens: list[str] = field(default_factory=list)
    closes: list[str] = field(default_factory=list)
    widest: int = 1
    partial: int = 0
    fetched: set[int] = field(default_factory=set)

    # ---- names
    def node(self, node_id: int) -> Node:
        """Return a node of the program."""
        return self.program.nodes[node_id]

    def c_type(self, node_id: int) -> str:
        """Return the type of a node's elements."""
        return C_TYPES[held_dtype(self.node(node_id))]

    def bits(self, node_id: int) -> str:
        """Return the ending of functions over a node's type."""
        return {"float64": "64", "float32": "32", "bool": "8"}[held_dtype(self.node(node_id))]

    def width(self, node_id: int) -> int:
        """Return how many elements a row of a cell has."""
        return width(self.program, self.part, node_id)

    def size(self, value: int) -> str:
        """Return a size in C: a number, or the name of an argument."""
        if value <= _LITERAL:
            return str(value)
        if value not in self.sizes[2:]:
            self.sizes.append(value)
        return f"n{self.sizes.index(value, 2)}"

    def view(self, node_id: int, form: str) -> str:
        """Return the name of the view of an array in a form."""
        operand = Operand(node_id, form)
        if operand not in self.operands:
            self.operands.append(operand)
        return f"in{self.operands.index(operand)}"

    # ---- the parts of the text
    def build(self, name: str) -> str:
        """Return the definition of the kernel."""
        for level in self.plan.levels:
            for group in level.groups.values():
                self._fetch(group.operands(self.plan.alias))
            for node in level.products:
                self._fetch([at for at in self._factors(node) if not self._sparse_factor(node, at)])
        for level in self.plan.levels:
            for group in level.groups.values():
                self._group(group)
            for node in level.products:
                self._product(node)
        return "\n".join(self._frame(name))

    def _frame(self, name: str) -> list[str]:
        views = HEADER + len(self.sizes)
        lines = [f"static void {name}(i64 *a) {{"]
        lines += [f"  const i64 n{at} = a[{HEADER + at}];" for at in range(len(self.sizes))]
        for at in range(len(self.operands)):
            lines.append(f"  const view *in{at} = (const view *)(a + {views + at * VIEW});")
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
        lines += [
            "  for (;;) {",
            "    const i64 chunk = __atomic_fetch_add(a, 1, __ATOMIC_RELAXED);",
            "    if (chunk >= a[1]) break;",
            "    const i64 end = LEAST((chunk + 1) * a[2], a[3]);",
            "    double *const sums = (double *)a[5] + chunk * a[6];",
            *(f"    {line}" for line in self.opens),
            "    i64 filled = 0;",
            "    for (i64 r0 = chunk * a[2]; r0 < end; r0 += n0) {",
            "      const i64 R = LEAST(n0, end - r0);",
            *(f"      {line}" for line in self.block),
        ]
        if self.flushes:
            lines += [
                "      if (++filled < n1 && r0 + n0 < end) continue;",
                "      filled = 0;",
                *(f"      {line}" for line in self.flushes),
            ]
        lines += ["    }", *(f"    {line}" for line in self.closes), "  }", "  free(memory);", "}"]
        return lines

    # ---- operands
    def _sparse_factor(self, node: Node, at: int) -> bool:
        """Whether a product reads a sparse operand's stored entries alone."""
        return node.op == "MatMul" and self._stored(at) and at == self._driver(node)

    def _stored(self, at: int) -> bool:
        """Whether a value is given in sparse form: one computed in here has rows with its zeros."""
        return at in self.given and self.node(at).layout != "dense"

    def _factors(self, node: Node) -> list[int]:
        return [self.plan.alias.get(at, at) for at in node.inputs]

    def _driver(self, node: Node) -> int:
        """Return the operand whose rows a product takes one by one: a sparse one, the widest."""
        cells = [at for at in self._factors(node) if self.part.state[at] == "cell"]
        sparse = [at for at in cells if self._stored(at)]
        return max(sparse or cells, key=self.width)

    def _fetch(self, operands: Sequence[int]) -> None:
        """Make t<id> (where a block begins) and p<id> (its rows' distance) of what is given."""
        for at in operands:
            if at not in self.given or at in self.fetched or self.part.state[at] != "cell":
                continue
            self.fetched.add(at)
            wide, kind, bits = self.size(self.width(at)), self.c_type(at), self.bits(at)
            self.widest = max(self.widest, self.width(at))
            self.scratch.append((f"b{at}", kind, f"n0 * {wide}"))
            sparse = self.node(at).layout != "dense"
            reader = f"rows_of_csr_{bits}" if sparse else f"rows_{bits}"
            view = self.view(at, "sparse" if sparse else "rows")
            which = "r0, R" if sparse else "r0, R, end - r0"
            self.block += [
                f"i64 p{at};",
                f"const {kind} *const t{at} = {reader}({view}, {wide}, {which}, b{at}, &p{at});",
            ]

    def _target(self, node_id: int) -> None:
        """Make t<id> and p<id> where a node's rows are written: the output, or a buffer."""
        kind, wide = self.c_type(node_id), self.size(self.width(node_id))
        self.widest = max(self.widest, self.width(node_id))
        if node_id in self.outputs:
            start = f"({kind} *){self.view(node_id, 'result')}->data + r0 * {wide}"
        else:
            self.scratch.append((f"b{node_id}", kind, f"n0 * {wide}"))
            start = f"b{node_id}"
        self.block += [f"{kind} *const t{node_id} = {start};", f"const i64 p{node_id} = {wide};"]

    def _part(
        self,
        node_id: int,
        kind: str,
        shape: tuple[int, ...],
        turned: bool,
        used: int | None = None,
    ) -> str:
        """Set aside a chunk's partial result; return its place."""
        size = 1
        for extent in shape:
            size *= extent
        one = (
            None
            if kind == "product"
            else reduction(self.program, self.node(node_id), self.plan.alias)
        )
        offset = self.partial
        self.parts.append(Part(node_id, kind, offset, size, shape, turned, one, used))
        self.partial += size
        # offsets are arguments too, so that kernels of other sizes have the same text
        return f"sums + {self.size(offset)}"

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
                one = reduction(self.program, node, self.plan.alias)
                body.append(f"t{node.id}[r] = {one.finish(f'({one.body})')};")
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
            self.block += [f"  {_whole(fold, 'q')}" for fold in rows]
            self._tiles("j", end, body, full, rows)
        else:
            self.block += [f"  {fold.declare()}" for fold in rows]
            self.block += simd_loop("j", "0", end, body, [*full, *rows], "  ")
        for fold in rows:
            whole = _collected(fold, "q") if tiled else fold.result()
            kind = self.c_type(fold.reduction.node)
            value = fold.reduction.finish(f"(({kind}){whole})")
            self.block.append(f"  t{fold.reduction.node}[r] = {value};")
        self.block.append("}")
        self.block += [] if tiled else [_collect(fold, "g") for fold in full]

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
        wide = group.width
        each = f"for (i64 j = 0; j < {wide}; j++)"
        sums = [f"c{node.id}" for node in group.columns]
        for fold in full:
            self.block += fold.declare_lanes(wide)
        for name in sums:
            self.block.append(f"__typeof__(*{name}) k{name}[{wide}];")
            self.block.append(f"{each} k{name}[j] = {name}[j];")
        body = [_renamed(line, sums) for line in body]
        self.block.append("for (i64 r = 0; r < R; r++) {")
        self.block += [f"  {line}" for line in heads]
        for fold in rows:
            name = f"e{fold.reduction.node}"
            self.block.append(f"  {fold.c_type} {name}[{wide}];")
            body.append(f"{name}[j] = {fold.reduction.body};")
        body += [fold.step_lanes() for fold in full]
        self.block += simd_loop("j", "0", str(wide), body, [], "  ")
        for fold in rows:
            node = fold.reduction.node
            one = Fold(replace(fold.reduction, body=f"e{node}[j]"))
            self.block += [f"  {one.declare()}", "  #pragma GCC unroll 16"]
            self.block.append(f"  {each} {{ {one.step()} }}")
            value = one.reduction.finish(f"(({self.c_type(node)}){one.result()})")
            self.block.append(f"  t{node}[r] = {value};")
        self.block.append("}")
        self.block += [f"{each} {name}[j] = k{name}[j];" for name in sums]
        for fold in full:
            self.block += [*fold.gather_lanes(wide), _collect(fold, "g")]

    def _operands(self, group: Group) -> tuple[list[str], list[str]]:
        """Return what stands before the loop over a row, and what reads its elements."""
        heads: list[str] = []
        loads: list[str] = []
        for at in group.operands(self.plan.alias):
            node, kind = self.node(at), self.c_type(at)
            if node.op == "Constant":
                continue
            if self.part.state[at] != "cell":
                view = self.view(at, "whole")
                line = f"const {kind} *const x{at} = (const {kind} *){view}->data;"
                if line not in self.before:
                    self.before.append(line)
                if node.size not in (1, group.width):
                    raise LoweringError(f"%{at} doesn't lie along a row")
                loads.append(load(node, f"x{at}[{'0' if node.size == 1 else 'j'}]"))
            elif group.width == 1:
                loads.append(load(node, f"t{at}[r]"))
            elif self.width(at) == 1:
                heads.append(load(node, f"t{at}[r]"))
            elif self.width(at) == group.width:
                heads.append(f"const {kind} *restrict x{at} = t{at} + r * p{at};")
                loads.append(load(node, f"x{at}[j]"))
            else:
                raise LoweringError(f"%{at} has rows of another width")
        return heads, loads

    def _tiles(
        self, index: str, end: str, body: Sequence[str], full: Sequence[Fold], rows: Sequence[Fold]
    ) -> None:
        """A loop over cells in tiles; what is reduced in one is collected after it."""
        folds = [*full, *rows]
        if not folds:
            self.block += simd_loop(index, "0", end, body, folds, "  ")
            return
        self.block += [
            f"  for (i64 from = 0; from < {end}; from += TILE) {{",
            f"    const i64 to = LEAST(from + TILE, {end});",
            *(f"    {fold.declare()}" for fold in folds),
            *simd_loop(index, "from", "to", body, folds, "    "),
            *(f"    {_collect(fold, 'g')}" for fold in full),
            *(f"    {_collect(fold, 'q')}" for fold in rows),
            "  }",
        ]

    def _full(self, node: Node) -> Fold:
        fold = Fold(reduction(self.program, node, self.plan.alias))
        place = self._part(node.id, fold.reduction.kind, (1,), False)
        self.opens.append(_whole(fold, "g"))
        self.closes.append(f"*({place}) = {_collected(fold, 'g')};")
        return fold

    def _column_sums(self, group: Group) -> list[str]:
        """Return the statements that add a row to what its columns are reduced to."""
        found = []
        for node in group.columns:
            one = reduction(self.program, node, self.plan.alias)
            place = self._part(node.id, one.kind, (group.width,), False)
            if one.kind == "sum":
                self._sums(node, group.width, place)
                found.append(f"c{node.id}[j] += {one.body};")
            else:
                wide = self.size(group.width)
                self.opens.append(f"double *const c{node.id} = {place};")
                fill = f"c{node.id}[j] = {IDENTITY[one.kind]};"
                self.opens.append(f"for (i64 j = 0; j < {wide}; j++) {fill}")
                both = combine(one.kind, "float64", f"c{node.id}[j]", f"(double)({one.body})")
                found.append(f"c{node.id}[j] = {both};")
        return found

    def _sums(self, node: Node, count: int, place: str) -> None:
        """Set up sums that lie side by side: added plainly for some rows, then to what lasts."""
        kind, size, name = self.c_type(node.id), self.size(count), node.id
        self.scratch += [(f"c{name}", kind, size), (f"l{name}", "double", size)]
        self.opens.append(f"memset({place}, 0, (size_t){size} * sizeof(double));")
        self.opens.append(f"memset(l{name}, 0, (size_t){size} * sizeof(double));")
        self.flushes.append(f"flush_{self.bits(name)}(c{name}, {place}, l{name}, {size});")
        self.closes.append(f"settle({place}, l{name}, {size});")

    # ---- products
    def _product(self, node: Node) -> None:
        if node.dtype not in SUFFIXES or any(
            self.node(at).dtype != node.dtype for at in node.inputs
        ):
            raise LoweringError(f"MatMul (%{node.id}) of {node.dtype}")
        if self.part.state[node.id] == "cell":
            self._times(node)
        else:
            self._gather(node)

    def _times(self, node: Node) -> None:
        """Rows times a matrix that is the same for all of them."""
        driver = self._driver(node)
        left = self.part.state[node.inputs[0]] != "cell"
        other = node.inputs[0 if left else 1]
        (_, axis), _ = contracted(self.node(node.inputs[0]), self.node(node.inputs[1]))
        inner = self.node(node.inputs[0]).shape[axis]
        outer = self.width(node.id)
        by_rows, by_columns = ("turned", "whole") if left else ("whole", "turned")
        self._target(node.id)
        bits, k, n = self.bits(node.id), self.size(inner), self.size(outer)
        kind = self.c_type(node.id)
        if self._sparse_factor(node, driver):
            matrix = f"(const {kind} *){self.view(other, by_rows)}->data"
            view = self.view(driver, "sparse")
            self.block.append(
                f"times_csr_{bits}({view}, r0, {matrix}, t{node.id}, R, end - r0, {n});"
            )
            return
        wide = inner < 32 <= outer
        matrix = f"(const {kind} *){self.view(other, by_rows if wide else by_columns)}->data"
        rows = f"t{driver}, p{driver}, {matrix}, t{node.id}"
        if wide:
            self.block.append(f"spread_{bits}({rows}, R, {k}, {n});")
        elif outer == 1:
            self.block.append(f"dots_{bits}({rows}, 1, R, {k});")
        else:
            packed = f"m{node.id}"
            self.scratch.append((packed, kind, f"ALIGNED_{bits}({k}) * {n}"))
            self.before.append(f"pack_{bits}({matrix}, {packed}, {k}, {n});")
            rows = f"t{driver}, p{driver}, {packed}, t{node.id}"
            self.block.append(f"times_{bits}({rows}, R, {k}, {n});")

    def _gather(self, node: Node) -> None:
        """Products of two rows each, added up over the rows."""
        long = self._driver(node)
        left, right = self._factors(node)
        short = right if long == left else left
        wide, narrow = self.width(long), self.width(short)
        sparse = self._sparse_factor(node, long)
        bits, target = self.bits(node.id), f"c{node.id}"
        # stored by the rows of the sparse operand, or with rows as long as the wide one's, which
        # begin where vectors do if there are several
        apart = wide if narrow == 1 else -(-wide // _LANES[bits]) * _LANES[bits]
        shape = (wide, narrow) if sparse else (narrow, apart)
        turned = (left == long) != sparse
        place = self._part(node.id, "product", shape, turned, None if sparse else wide)
        self._sums(node, shape[0] * shape[1], place)
        rows = f"t{short}, p{short}, {target}, R"
        if sparse:
            view = self.view(long, "sparse")
            self.block.append(f"gather_csr_{bits}({view}, r0, {rows}, {self.size(narrow)});")
        elif wide == 1:
            call = f"dots_{bits}(t{long}, 0, t{short}, &d, 1, 1, R);"
            self.block.append(f"{{ {self.c_type(node.id)} d; {call} *{target} += d; }}")
        else:
            sizes = f"{self.size(wide)}, {self.size(narrow)}"
            rows = f"t{short}, p{short}, {target}, {self.size(apart)}, R"
            self.block.append(f"gather_{bits}(t{long}, p{long}, {rows}, {sizes});")


def _renamed(line: str, sums: Sequence[str]) -> str:
    for name in sums:
        line = line.replace(f"{name}[j]", f"k{name}[j]")
    return line


def _whole(fold: Fold, prefix: str) -> str:
    """Declare what tiles are reduced to."""
    one = fold.reduction
    if one.kind == "sum":
        return f"total {prefix}{one.node} = {{0, 0}};"
    return f"double {prefix}{one.node} = {IDENTITY[one.kind]};"


def _collect(fold: Fold, prefix: str) -> str:
    """Reduce a tile's value into what tiles are reduced to."""
    one, name = fold.reduction, f"{prefix}{fold.reduction.node}"
    if one.kind == "sum":
        return f"add(&{name}, {fold.result()});"
    return f"{name} = {combine(one.kind, 'float64', name, fold.result())};"


def _collected(fold: Fold, prefix: str) -> str:
    name = f"{prefix}{fold.reduction.node}"
    return f"value({name})" if fold.reduction.kind == "sum" else name
