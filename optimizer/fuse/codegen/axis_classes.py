"""Which axes of a region's nodes run together, and what that makes of each node.

Two axes are one where an element of the one is read for an element of the other: those that
elementwise operators align, those that a product contracts, those that a transposition moves. A
kernel runs over the rows of one such class of axes; what has none of its axes there is the same
for every row, and what sums it away is added up over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from ...codegen.expressions import LoweringError
from ..program.dag import Node, Program
from ..program.kept_axes import contracted_axes, kept_axes, reduced_axes
from .statements import MOVES

_VIEWS = frozenset(["Squeeze", "Unsqueeze", "Reshape"])
Axis = tuple[int, int]  # node, axis
State = Literal["cell", "aggregate", "before", "after"]


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
        reduction = node.op.startswith("Reduce") and node.specification is not None
        if not (node.is_elementwise or node.op in MOVES or node.op == "MatMul" or reduction):
            raise LoweringError(f"{node.op} is no operator of a kernel")
        if node.op == "MatMul":
            if any(len(operand.shape) > 2 for operand in operands):
                raise LoweringError("MatMul of more than two axes")
            summed = contracted_axes(*operands)
            self.join((operands[0].id, summed[0]), (operands[1].id, summed[1]))
        for position, operand in enumerate(operands):
            kept = kept_axes(node, operand, position)
            if node.op in _VIEWS:
                # axes of length 1 come and go
                kept = {axis: to for axis, to in kept.items() if operand.shape[axis] != 1}
                if len(kept) < sum(extent != 1 for extent in operand.shape):
                    raise LoweringError("a Reshape that rearranges")
            for axis, to in kept.items():
                self.join((operand.id, axis), (node.id, to))


@dataclass(frozen=True)
class RowPartition:
    """What each node is to a kernel over the rows of one class; `axis` is where a cell has it."""

    rows: int
    axis: dict[int, int]
    state: dict[int, State]


def partition_by_rows(
    program: Program, nodes: Iterable[int], inputs: Iterable[int], seed: Axis
) -> RowPartition:
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
    sums = partial(_sums_away, program, axis)
    state = node_states(program, inputs, covered, axis, sums, ("rows", "a single row"))
    return RowPartition(program.nodes[seed[0]].shape[seed[1]], axis, state)


def _sums_away(program: Program, axis: dict[int, int], node: Node) -> bool:
    """Whether a node sums over the rows."""
    if node.op == "MatMul":
        summed = contracted_axes(*(program.nodes[number] for number in node.inputs))
        return all(axis.get(n) == along for n, along in zip(node.inputs, summed, strict=True))
    if node.op.startswith("Reduce") and node.inputs[0] in axis:
        rank = len(program.nodes[node.inputs[0]].shape)
        return axis[node.inputs[0]] in reduced_axes(node, rank)
    return False


def node_states(
    program: Program,
    inputs: Iterable[int],
    nodes: Iterable[int],
    cells: Container[int],
    sums: Callable[[Node], bool],
    words: tuple[str, str],
) -> dict[int, State]:
    """Return what each node is to a kernel that goes over rows, or over entries.

    cell: a value for each, as `cells` has it; aggregate: added up over all, as `sums` says; before,
    after: known before the first one, computed after the last one. Raises LoweringError for what is
    none of these, in `words` for all of them and for one.
    """
    states: dict[int, State] = {
        number: "cell" if number in cells else "before" for number in inputs
    }
    for node in (program.nodes[number] for number in nodes):
        operands = [states[number] for number in node.inputs]
        waits = any(state in ("aggregate", "after") for state in operands)
        is_sum = not waits and sums(node)
        # an axis of one element may join what it is summed to with what is summed
        if (waits and "cell" in operands) or ((waits or is_sum) and node.id in cells):
            raise LoweringError(f"{node.op} (%{node.id}) needs all {words[0]} before it has one")
        if waits or is_sum:
            states[node.id] = "after" if waits else "aggregate"
        elif node.id in cells:
            states[node.id] = "cell"
        elif "cell" not in operands:
            states[node.id] = "before"
        else:
            raise LoweringError(f"{node.op} (%{node.id}) of {words[1]}")
    return states
