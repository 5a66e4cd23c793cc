"""What a kernel over blocks of rows computes when, and what its text is made of.

Elementwise nodes of one width that wait for the same results share one loop (a group); what a row
is reduced to, and products of matrices, are there only when the loop is done, so that their
readers come a level later. A node that another stage reads is kept for the whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...codegen.expressions import C_TYPES, LoweringError, Reduction
from ..program.dag import Node, Program, is_elementwise
from .axes import Partition
from .statements import MOVES, kernel_dtype, reduction


def width(program: Program, part: Partition, node_id: int) -> int:
    """Return how many elements a row of a cell has."""
    shape = program.nodes[node_id].shape
    return 1 if len(shape) < 2 else shape[1 - part.axis[node_id]]


@dataclass
class Group:
    """One loop over the cells of rows of one width: nodes, and reductions of their elements."""

    width: int
    nodes: list[Node] = field(default_factory=list)
    rows: list[Node] = field(default_factory=list)
    columns: list[Node] = field(default_factory=list)
    full: list[Node] = field(default_factory=list)

    def of(self, kind: str) -> list[Node]:
        """Return the nodes of a kind: cell, row, column or full."""
        kinds = {"cell": self.nodes, "row": self.rows, "column": self.columns, "full": self.full}
        return kinds[kind]

    def operands(self, alias: Mapping[int, int]) -> list[int]:
        """Return what the loop reads and doesn't compute, in order of first use."""
        inside = {node.id for node in self.nodes}
        operands: dict[int, None] = {}
        for node in [*self.nodes, *self.rows, *self.columns, *self.full]:
            read = (alias.get(number, number) for number in node.inputs)
            operands |= dict.fromkeys(number for number in read if number not in inside)
        return list(operands)


@dataclass
class Level:
    """Groups, then products of what is there after them."""

    groups: dict[int, Group] = field(default_factory=dict)
    products: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Schedule:
    """Levels in order; `kept` are the elementwise nodes that other stages read.

    `alias` names, for a cell that only shows another in a different shape, that other one.
    """

    levels: tuple[Level, ...]
    kept: frozenset[int]
    alias: Mapping[int, int]


def schedule(
    program: Program, part: Partition, nodes: Sequence[int], outputs: Sequence[int]
) -> Schedule:
    """Return the stages of the covered nodes; raise LoweringError for a node that has none."""
    levels: list[Level] = []
    place: dict[int, int] = {}  # the level that computes a node
    loops: dict[int, tuple[int, int]] = {}  # the loop that computes or reads it: level, width

    def level(number: int) -> Level:
        while len(levels) <= number:
            levels.append(Level())
        return levels[number]

    def group(number: int, wide: int) -> Group:
        return level(number).groups.setdefault(wide, Group(wide))

    alias: dict[int, int] = {}
    kinds: dict[int, str] = {}
    kept: set[int] = set()
    for node_id in nodes:
        node = program.nodes[node_id]
        state = part.state[node_id]
        if node.is_leaf or state in ("before", "after"):
            continue
        cells = [
            alias.get(number, number) for number in node.inputs if part.state[number] == "cell"
        ]
        if (
            node.op in MOVES
            and cells
            and node_id not in outputs
            and width(program, part, node_id) == width(program, part, cells[0])
        ):
            alias[node_id] = cells[0]
            continue
        kind = _kind(program, part, node)
        kinds[node_id] = kind
        # elementwise and reduced nodes live in a loop over rows of this width
        wide = width(program, part, node_id if kind == "cell" else cells[0])
        depth = 0
        for operand in cells:
            if operand not in place:
                continue
            computed = kinds[operand]
            if kind == "product":
                depth = max(depth, place[operand] + (computed == "product"))
            else:
                same = computed == "cell" and width(program, part, operand) == wide
                depth = max(depth, place[operand] + (not same))
        place[node_id] = depth
        if kind == "product":
            level(depth).products.append(node)
            kept |= {operand for operand in cells if kinds.get(operand) == "cell"}
            continue
        loops[node_id] = (depth, wide)
        members = group(depth, wide)
        members.of(kind).append(node)
        kept |= {
            operand
            for operand in cells
            if kinds.get(operand) == "cell" and loops[operand] != loops[node_id]
        }
    return Schedule(tuple(levels), frozenset(kept), alias)


def _kind(program: Program, part: Partition, node: Node) -> str:
    """Return cell, row, column, full or product."""
    if is_elementwise(node) or node.op in MOVES:
        return "cell"
    if node.op == "MatMul":
        return "product"
    if not node.op.startswith("Reduce"):
        raise LoweringError(f"{node.op} is no operator of a kernel over rows")
    operand = program.nodes[node.inputs[0]]
    axes = tuple(node.attributes.get("axes", range(len(operand.shape))))
    if not axes:
        raise LoweringError("a reduction of nothing")
    if part.state[node.id] == "cell":
        return "row"
    wide = width(program, part, operand.id)
    return "full" if wide == 1 or len(axes) == len(operand.shape) else "column"


# Widths up to this are written into the text, so that short loops are unrolled.
_LITERAL = 64


@dataclass(frozen=True)
class Operand:
    """What a view of the arguments is: `form` says how the caller must prepare it.

    rows: an array by rows; sparse: a sparse one; result: an output by rows. The same for each row:
    whole: contiguous; turned: its transpose, contiguous; strided: a matrix as it lies.
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
class RowState:
    """What the text is made of; `operands`, `sizes` and `parts` say how the kernel is called."""

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
    single: bool = False  # a block is one row
    unfetched: set[int] = field(default_factory=set)  # whose readers look ahead themselves
    following: dict[int, int] = field(default_factory=dict)  # and after them the sum that does, too
    fetched: set[int] = field(default_factory=set)

    # ---- names
    def node(self, node_id: int) -> Node:
        """Return a node of the program."""
        return self.program.nodes[node_id]

    def c_type(self, node_id: int) -> str:
        """Return the type of a node's elements."""
        return C_TYPES[kernel_dtype(self.node(node_id))]

    def bits(self, node_id: int) -> str:
        """Return the ending of functions over a node's type."""
        return {"float64": "64", "float32": "32", "bool": "8"}[kernel_dtype(self.node(node_id))]

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

    def _fetch(self, operands: Sequence[int]) -> None:
        """Make t<id> (where a block begins) and p<id> (its rows' distance) of what is given."""
        for number in operands:
            if (
                number not in self.given
                or number in self.fetched
                or self.part.state[number] != "cell"
            ):
                continue
            self.fetched.add(number)
            wide, kind, bits = self.size(self.width(number)), self.c_type(number), self.bits(number)
            self.widest = max(self.widest, self.width(number))
            self.scratch.append((f"b{number}", kind, f"n0 * {wide}"))
            sparse = self.node(number).layout != "dense"
            reader = f"rows_of_csr_{bits}" if sparse else f"rows_{bits}"
            view = self.view(number, "sparse" if sparse else "rows")
            rows_left = "0" if number in self.unfetched else "end - r0"
            which = "r0, R" if sparse else f"r0, R, {rows_left}"
            self.block += [
                f"i64 p{number};",
                f"const {kind} *const t{number} = "
                f"{reader}({view}, {wide}, {which}, b{number}, &p{number});",
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
        reduced = (
            None
            if kind == "product"
            else reduction(self.program, self.node(node_id), self.plan.alias)
        )
        offset = self.partial
        self.parts.append(Part(node_id, kind, offset, size, shape, turned, reduced, used))
        self.partial += size
        # offsets are arguments too, so that kernels of other sizes have the same text
        return f"sums + {self.size(offset)}"

    def _sums(self, node: Node, count: int, place: str) -> None:
        """Set up sums that lie side by side: added plainly for some rows, then to what lasts."""
        kind, size, name = self.c_type(node.id), self.size(count), node.id
        self.scratch += [(f"c{name}", kind, size), (f"l{name}", "double", size)]
        self.opens.append(f"memset({place}, 0, (size_t){size} * sizeof(double));")
        self.opens.append(f"memset(l{name}, 0, (size_t){size} * sizeof(double));")
        self.flushes.append(f"flush_{self.bits(name)}(c{name}, {place}, l{name}, {size});")
        self.closes.append(f"settle({place}, l{name}, {size});")
