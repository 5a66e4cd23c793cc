"""Which axes of a region's nodes run together, and what that makes of each node.

Two axes are one where an element of the one is read for an element of the other: those that
elementwise operators align, those that a product contracts, those that a transposition moves. A
kernel runs over the rows of one such class of axes; what has none of its axes there is the same
for every row, and what sums it away is added up over the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ...codegen.expressions import LoweringError
from ..program.dag import Node, Program, is_elementwise

Axis = tuple[int, int]  # node, axis
State = Literal["cell", "aggregate", "before", "after"]


def kept_axes(node: Node, rank: int) -> list[tuple[int, int]]:
    """Return the pairs (axis of the input, axis of the output) that a reduction keeps."""
    axes = tuple(node.attributes.get("axes", range(rank)))
    rest = [axis for axis in range(rank) if axis not in axes]
    if node.attributes.get("keepdims", 1):
        return [(axis, axis) for axis in rest]
    return [(axis, i) for i, axis in enumerate(rest)]


def contracted(a: Node, b: Node) -> tuple[Axis, Axis]:
    """Return the axes that a MatMul of two nodes sums over."""
    return (a.id, len(a.shape) - 1), (b.id, max(len(b.shape) - 2, 0))


@dataclass
class Classes:
    """The classes of axes of a region, as a forest (union-find)."""

    program: Program
    parent: dict[Axis, Axis] = field(default_factory=dict)

    def find(self, axis: Axis) -> Axis:
        """Return the representative of an axis."""
        root = axis
        while self.parent.get(root, root) != root:
            root = self.parent[root]
        return root

    def join(self, axis: Axis, other: Axis) -> None:
        """Make two axes one."""
        self.parent[self.find(axis)] = self.find(other)

    def add(self, node: Node) -> None:
        """Join the axes that a node connects; raise LoweringError where that isn't known."""
        operands = [self.program.nodes[number] for number in node.inputs]
        rank = len(node.shape)
        if is_elementwise(node) or node.op == "Expand":
            for operand in operands:
                shift = rank - len(operand.shape)
                for axis, extent in enumerate(operand.shape):
                    if extent == node.shape[axis + shift]:
                        self.join((operand.id, axis), (node.id, axis + shift))
        elif node.op == "MatMul":
            a, b = operands
            if len(a.shape) > 2 or len(b.shape) > 2:
                raise LoweringError("MatMul of more than two axes")
            self.join(*contracted(a, b))
            if len(a.shape) == 2:
                self.join((a.id, 0), (node.id, 0))
            if len(b.shape) == 2:
                self.join((b.id, 1), (node.id, rank - 1))
        elif node.op == "Transpose":
            for to, source in enumerate(node.attributes["perm"]):
                self.join((operands[0].id, source), (node.id, to))
        elif node.op.startswith("Reduce") and node.specification is not None:
            for source, to in kept_axes(node, len(operands[0].shape)):
                self.join((operands[0].id, source), (node.id, to))
        elif node.op in ("Squeeze", "Unsqueeze", "Reshape"):
            long = [axis for axis, extent in enumerate(operands[0].shape) if extent != 1]
            new = [axis for axis, extent in enumerate(node.shape) if extent != 1]
            if [operands[0].shape[axis] for axis in long] != [node.shape[axis] for axis in new]:
                raise LoweringError("a Reshape that rearranges")
            for source, to in zip(long, new, strict=True):
                self.join((operands[0].id, source), (node.id, to))
        else:
            raise LoweringError(f"{node.op} is no operator of a kernel")


@dataclass(frozen=True)
class Partition:
    """What each node is to a kernel over the rows of one class; `axis` is where a cell has it.

    cell: one row at a time; aggregate: added up over the rows; before, after: known before the
    first row, computed after the last one.
    """

    rows: int
    axis: dict[int, int]
    state: dict[int, State]


def partition(
    program: Program, nodes: Iterable[int], inputs: Iterable[int], seed: Axis
) -> Partition:
    """Return what the nodes are to a kernel over the rows of `seed`'s class.

    Raises LoweringError where some node needs all rows before the first, or two of them at once.
    """
    covered = list(nodes)
    classes = Classes(program)
    for number in covered:
        if not program.nodes[number].is_leaf:
            classes.add(program.nodes[number])
    root = classes.find(seed)
    axis: dict[int, int] = {}
    for node_id in [*inputs, *covered]:
        shape = program.nodes[node_id].shape
        axes = [a for a in range(len(shape)) if classes.find((node_id, a)) == root]
        if len(axes) > 1:
            raise LoweringError(f"both axes of %{node_id} run together: no row of it comes first")
        if axes:
            axis[node_id] = axes[0]
            if len(shape) > 2:
                raise LoweringError(f"%{node_id} has more than two axes")
    state: dict[int, State] = {number: "cell" if number in axis else "before" for number in inputs}
    for node_id in covered:
        state[node_id] = _state(program, program.nodes[node_id], axis, state)
    return Partition(program.nodes[seed[0]].shape[seed[1]], axis, state)


def _sums_away(program: Program, node: Node, axis: dict[int, int]) -> bool:
    """Whether a node sums over the rows."""
    if node.op == "MatMul":
        factors = contracted(*(program.nodes[number] for number in node.inputs))
        return all(axis.get(number) == summed_axis for number, summed_axis in factors)
    if node.op.startswith("Reduce") and node.inputs[0] in axis:
        rank = len(program.nodes[node.inputs[0]].shape)
        return axis[node.inputs[0]] in node.attributes.get("axes", range(rank))
    return False


def _state(program: Program, node: Node, axis: dict[int, int], state: dict[int, State]) -> State:
    operands = [state[number] for number in node.inputs]
    if any(state in ("aggregate", "after") for state in operands):
        if node.id in axis or "cell" in operands:
            raise LoweringError(f"{node.op} (%{node.id}) needs all rows before it has one")
        return "after"
    if _sums_away(program, node, axis):
        # an axis of one element may join what it is summed to with what is summed
        if node.id in axis:
            raise LoweringError(f"{node.op} (%{node.id}) needs all rows before it has one")
        return "aggregate"
    if node.id in axis:
        return "cell"
    if "cell" not in operands:
        return "before"
    raise LoweringError(f"{node.op} (%{node.id}) of a single row")
