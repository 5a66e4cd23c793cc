"""The order in which a kernel over rows computes its nodes, a block of rows at a time.

Elementwise nodes of one width that wait for the same results share one loop (a group); what a row
is reduced to, and products of matrices, are there only when the loop is done, so that their
readers come a level later. A node that another stage reads is kept for the whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..program.dag import Node, Program, is_elementwise
from .axes import Partition
from .cells import MOVES
from .scalar import LoweringError


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
        own = {node.id for node in self.nodes}
        found: dict[int, None] = {}
        for node in [*self.nodes, *self.rows, *self.columns, *self.full]:
            read = (alias.get(at, at) for at in node.inputs)
            found |= dict.fromkeys(at for at in read if at not in own)
        return list(found)


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

    def level(at: int) -> Level:
        while len(levels) <= at:
            levels.append(Level())
        return levels[at]

    def group(at: int, wide: int) -> Group:
        return level(at).groups.setdefault(wide, Group(wide))

    alias: dict[int, int] = {}
    kinds: dict[int, str] = {}
    kept: set[int] = set()
    for node_id in nodes:
        node = program.nodes[node_id]
        state = part.state[node_id]
        if node.is_leaf or state in ("before", "after"):
            continue
        cells = [alias.get(at, at) for at in node.inputs if part.state[at] == "cell"]
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
        at = 0
        for operand in cells:
            if operand not in place:
                continue
            computed = kinds[operand]
            if kind == "product":
                at = max(at, place[operand] + (computed == "product"))
            else:
                same = computed == "cell" and width(program, part, operand) == wide
                at = max(at, place[operand] + (not same))
        place[node_id] = at
        if kind == "product":
            level(at).products.append(node)
            kept |= {operand for operand in cells if kinds.get(operand) == "cell"}
            continue
        loops[node_id] = (at, wide)
        members = group(at, wide)
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
