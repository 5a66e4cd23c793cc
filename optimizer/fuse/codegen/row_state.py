"""What a kernel over blocks of rows computes when, and what its text is made of.

Elementwise nodes of one width that wait for the same results share one loop (a group); what a row
is reduced to, and products of matrices, are there only when the loop is done, so that their
readers come a level later. A node that another stage reads is kept for the whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ...codegen.expressions import LoweringError
from ..program.dag import Node, Program
from ..program.kept_axes import reduced_axes
from .axis_classes import RowPartition
from .region_kernel import KernelText
from .statements import MOVES, reduction


def width(program: Program, part: RowPartition, node_id: int) -> int:
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
    program: Program, part: RowPartition, nodes: Sequence[int], outputs: Sequence[int]
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


def _kind(program: Program, part: RowPartition, node: Node) -> str:
    """Return cell, row, column, full or product."""
    if node.is_elementwise or node.op in MOVES:
        return "cell"
    if node.op == "MatMul":
        return "product"
    if not node.op.startswith("Reduce"):
        raise LoweringError(f"{node.op} is no operator of a kernel over rows")
    operand = program.nodes[node.inputs[0]]
    axes = reduced_axes(node, len(operand.shape))
    if not axes:
        raise LoweringError("a reduction of nothing")
    if part.state[node.id] == "cell":
        return "row"
    wide = width(program, part, operand.id)
    return "full" if wide == 1 or len(axes) == len(operand.shape) else "column"


@dataclass
class RowState(KernelText):
    """What the text is made of.

    The form of an operand: rows (an array by rows), sparse (a sparse one), result (an output by
    rows); and of what is the same for each row: whole (contiguous), turned (its transpose,
    contiguous), strided (a matrix as it lies). The first two sizes are the rows of a block, and the
    blocks of a flush.
    """

    partition: RowPartition
    plan: Schedule
    inputs: Sequence[int]
    outputs: Sequence[int]
    sizes: list[int] = field(default_factory=lambda: [0, 0], init=False)
    before: list[str] = field(default_factory=list)
    scratch: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, count
    block: list[str] = field(default_factory=list)
    flushes: list[str] = field(default_factory=list)
    opens: list[str] = field(default_factory=list)
    closes: list[str] = field(default_factory=list)
    widest: int = 1
    single: bool = False  # a block is one row
    unfetched: set[int] = field(default_factory=set)  # whose readers look ahead themselves
    following: dict[int, int] = field(default_factory=dict)  # and after them the sum that does, too
    fetched: set[int] = field(default_factory=set)
    reserved: ClassVar[int] = 2

    def width(self, node_id: int) -> int:
        """Return how many elements a row of a cell has."""
        return width(self.program, self.partition, node_id)

    def _fetch(self, operands: Sequence[int]) -> None:
        """Make t<id> (where a block begins) and p<id> (its rows' distance) of what is given."""
        for number in operands:
            if (
                number not in self.inputs
                or number in self.fetched
                or self.partition.state[number] != "cell"
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

    def _place(
        self,
        node_id: int,
        kind: str,
        shape: tuple[int, ...],
        turned: bool = False,
        used: int | None = None,
    ) -> str:
        """Set aside a chunk's partial result; return its place.

        Offsets are arguments too, so that kernels of other sizes have the same text.
        """
        node = self.node(node_id)
        reduced = None if kind == "product" else reduction(self.program, node, self.plan.alias)
        return f"sums + {self.size(self.part(node_id, kind, shape, turned, reduced, used))}"

    def _sums(self, node: Node, count: int, place: str) -> None:
        """Set up sums that lie side by side: added plainly for some rows, then to what lasts."""
        kind, size, name = self.c_type(node.id), self.size(count), node.id
        self.scratch += [(f"c{name}", kind, size), (f"l{name}", "double", size)]
        self.opens.append(f"memset({place}, 0, (size_t){size} * sizeof(double));")
        self.opens.append(f"memset(l{name}, 0, (size_t){size} * sizeof(double));")
        self.flushes.append(f"flush_{self.bits(name)}(c{name}, {place}, l{name}, {size});")
        self.closes.append(f"settle({place}, l{name}, {size});")
