"""A program as the planner reads it: products read through transposes; sizes; memo edges.

Sets of nodes are masks: bit n stands for node n.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..program.dag import Node, Program
from .fusion_candidates import OTHER, Conditions, extent
from .work import work


def mask(nodes: Iterable[int]) -> int:
    """Return a set of nodes as a mask."""
    bits = 0
    for node in nodes:
        bits |= 1 << node
    return bits


def members(nodes: int) -> list[int]:
    """Return the nodes of a mask, ascending."""
    numbers = []
    while nodes:
        low = nodes & -nodes
        numbers.append(low.bit_length() - 1)
        nodes ^= low
    return numbers


# An entry of a sparse matrix holds its column too, and a row where it begins.
INDEX_BYTES = 4
_ITEM = {"float64": 8, "float32": 4, "bool": 1}
# Bytes of the longest vectors.
_VECTOR = 64


@dataclass(frozen=True)
class Operand:
    """What a node reads at a position; `via` is the transpose that a product reads through."""

    node: int
    position: int
    via: int | None = None


class PlanningGraph:
    """A program with its conditions; everything about a node that costs ask for, once."""

    def __init__(self, program: Program, conditions: Conditions) -> None:
        self.program = program
        self.nodes = program.nodes
        self.conditions = conditions
        self.live = program.live
        self.operands: dict[int, tuple[Operand, ...]] = {
            number: tuple(
                self._operand(self.nodes[number], i) for i in range(len(self.nodes[number].inputs))
            )
            for number in self.live
        }
        self.kinds = {number: self.nodes[number].kind for number in self.live}
        self.bytes = {number: stored_bytes(self.nodes[number]) for number in self.live}
        self.extents = {number: extent(self.nodes[number]) for number in self.live}
        self._unfilled: dict[int, float] = {}
        self._by_rows: dict[int, bool] = {}

    def _operand(self, node: Node, position: int) -> Operand:
        read = self.nodes[node.inputs[position]]
        if node.op == "MatMul" and self.is_turn(read):
            return Operand(read.inputs[0], position, read.id)
        return Operand(read.id, position)

    def is_turn(self, node: Node) -> bool:
        """Whether a node is a transpose that a product reads through."""
        return node.op == "Transpose" and len(node.shape) == 2

    @cached_property
    def forced(self) -> frozenset[int]:
        """Nodes that every plan materializes: outputs, and what is read other than by an edge."""
        materialized = set(self.program.outputs)
        for h in self.live:
            if self.is_turn(self.nodes[h]) and h not in materialized and not self._read_alone(h):
                continue  # only looked through
            for operand in self.operands[h]:
                if (h, operand.node) not in self.conditions.fuses:
                    materialized.add(operand.node)
        return frozenset(number for number in materialized if not self.nodes[number].is_leaf)

    def _read_alone(self, turn: int) -> bool:
        return any(self.nodes[h].op != "MatMul" for h in self.program.consumers[turn])

    @cached_property
    def ancestors(self) -> dict[int, int]:
        """For each node, the nodes that it depends on, as a mask."""
        masks: dict[int, int] = {}
        for number in self.live:
            mask = 0
            for operand in self.nodes[number].inputs:
                mask |= 1 << operand | masks[operand]
            masks[number] = mask
        return masks

    @cached_property
    def least_entries(self) -> int | None:
        """The fewest entries of a sparse matrix: what a sparse operator visits at least."""
        counts = [node.nnz for node in self.nodes if node.nnz is not None]
        return min(counts) if counts else None

    def is_view(self, number: int) -> bool:
        """Whether NumPy copies nothing for the node."""
        node = self.nodes[number]
        return self.kinds[number] == "movement" and (node.nnz is None or self.is_turn(node))

    def is_square(self, number: int) -> bool:
        """Whether a product multiplies two matrices, neither of which is a vector."""
        ends = [self.extents[operand] for operand in self.nodes[number].inputs]
        return all(min(end) > 1 for end in ends)

    def unfilled(self, number: int) -> float:
        """Return how many times longer a dense node takes as its rows don't fill vectors."""
        factor = self._unfilled.get(number)
        if factor is None:
            node = self.nodes[number]
            around = [number, *(operand.node for operand in self.operands[number])]
            lengths = [self.nodes[number].shape[1] for number in around if self._is_matrix(number)]
            wide = max(lengths, default=0)
            lanes = _VECTOR // _ITEM.get(node.dtype, 8)
            factor = -(-wide // lanes) * lanes / wide if wide and self._is_dense(around) else 1.0
            self._unfilled[number] = factor
        return factor

    def goes_by_rows(self, number: int) -> bool:
        """Whether a loop over a node's cells begins anew in each row, as extents differ."""
        by_rows = self._by_rows.get(number)
        if by_rows is None:
            by_rows = self._by_rows[number] = self._begins_anew(number)
        return by_rows

    def _begins_anew(self, number: int) -> bool:
        if self.kinds[number] not in ("elementwise", "reduction"):
            return False
        around = [number, *(operand.node for operand in self.operands[number])]
        if not any(map(self._is_matrix, around)) or not self._is_dense(around):
            return False
        met = {self.extents[number] for number in around}
        if self.kinds[number] == "reduction":
            return self.nodes[number].size > 1
        return len(met - {(1, 1)}) > 1

    def _is_matrix(self, number: int) -> bool:
        shape = self.nodes[number].shape
        return len(shape) == 2 and min(shape) > 1

    def _is_dense(self, numbers: list[int]) -> bool:
        return all(self.nodes[number].nnz is None for number in numbers)

    def flops(self, number: int, cells: float | None = None, density: float = 1.0) -> float:
        """Return the weighted operations of a node, those of float32 as half of them.

        `cells` replaces the cells that it is computed at (of a reduction: that it reads);
        `density` is the share of the cells of a product's first operand that are read.
        """
        return self._flops(number, cells, density) * self._width(number)

    def _width(self, number: int) -> float:
        """Return the share of float64's vectors that a node's elements fill: half, of float32."""
        node = self.nodes[number]
        single = node.dtype == "float32" or (
            node.dtype == "bool"
            and any(self.nodes[operand].dtype == "float32" for operand in node.inputs)
        )
        return 0.5 if single else 1.0

    def _flops(self, number: int, cells: float | None, density: float) -> float:
        node = self.nodes[number]
        match self.kinds[number]:
            case "movement":
                return 0.0
            case "reduction":
                count = self.nodes[node.inputs[0]].size if cells is None else cells
                return count * (1.0 if node.op in OTHER else work(node.op, 1))
            case "contraction" if node.op == "MatMul":
                inner = self.nodes[node.inputs[0]].shape[-1]
                return 2.0 * inner * (node.size if cells is None else cells) * density
            case _:
                return (node.size if cells is None else cells) * work(node.op, len(node.inputs))

    def in_bytes(self, number: int, cells: int | None = None) -> float:
        """Return the bytes read of a node, or of `cells` of its cells if it is dense."""
        node = self.nodes[number]
        if node.op == "Constant":
            return 0.0
        if cells is None or node.nnz is not None or node.size <= cells:
            return self.bytes[number]
        return float(cells * _ITEM.get(node.dtype, 8))


def stored_bytes(node: Node) -> float:
    """Return the bytes of a node's value, as it is held."""
    item = _ITEM.get(node.dtype, 8)
    if node.nnz is None:
        return float(node.size * item)
    rows = extent(node)[0]
    return float(node.nnz * (item + INDEX_BYTES) + rows * INDEX_BYTES)
