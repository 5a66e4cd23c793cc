"""Where is each value of a program: here, in blocks of rows, or made of all blocks?

A value in blocks has one axis, the blocks' axis, that runs along the rows of the partitioned
operands: axis 0 of those, axis 1 of their transposes. A node in blocks is computed block by block.
An aggregate reduces the blocks' axis: each block gives a part, and the parts are combined in a
tree. All else is here. What needs the blocks' axis in another way (a slice of it, a product of rows
with rows) needs its operands gathered first.

The rounds in which this is computed: 0 needs the operands alone, and a value that needs an
aggregate of round r belongs to round r + 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..program.dag import Node, Program
from ..program.evaluate import REDUCTIONS
from ..program.kept_axes import contracted_axes, kept_axes, reduces

Place = Literal["here", "blocks", "aggregate"]

# How the parts of an aggregate become one, by NumPy's ufuncs.
_COMBINED: Mapping[str, str] = {
    **{op: ufunc.__name__ for op, ufunc in REDUCTIONS.items()},
    "MatMul": "add",
    "numpy.any": "logical_or",
    "numpy.all": "logical_and",
}


@dataclass(frozen=True)
class Placed:
    """Where a value is, along which axis its blocks run, and in which round it is there.

    `split` are the operands that are here and are cut into blocks for it, each with its axis.
    """

    place: Place
    axis: int = 0
    round: int = 0
    split: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Places:
    """Where each node is computed, and where those that read it find it.

    They differ for the nodes in `gathered`, which are computed in blocks and needed as a whole; it
    says what needs them.
    """

    computed: tuple[Placed, ...]
    read: tuple[Placed, ...]
    gathered: Mapping[int, str]


def places(
    program: Program, axes: Mapping[int, int], gathered: Mapping[int, str] | None = None
) -> Places:
    """Return where everything is; `axes` are the inputs in blocks, each with its blocks' axis.

    `gathered` are nodes in blocks that are needed as a whole in any case, and why.
    """
    gathered = dict(gathered or {})
    while True:
        placement = _places(program, axes, gathered)
        if len(placement.gathered) == len(gathered):
            return placement
        gathered = dict(placement.gathered)


def _places(program: Program, axes: Mapping[int, int], gathered: Mapping[int, str]) -> Places:
    computed: list[Placed] = []
    read: list[Placed] = []
    wanted = dict(gathered)
    for node in program.nodes:
        ready = max((read[number].round for number in node.inputs), default=0)
        blocks = [number for number in dict.fromkeys(node.inputs) if read[number].place == "blocks"]
        if node.id in axes:
            placed = Placed("blocks", axes[node.id])
        elif not blocks:
            placed = Placed("here", round=ready)
        else:
            fitting = _in_blocks(program, node, read, ready)
            if fitting is None:
                # The smallest alone at first: the others may then stay where they are.
                smallest = min(blocks, key=lambda number: (program.nodes[number].size, number))
                wanted.setdefault(smallest, node.op)
            placed = fitting or Placed("here", round=ready + 1)
        computed.append(placed)
        if node.id in gathered and placed.place == "blocks":
            # An input is gathered before the first round, all else after the one that computes it.
            later = placed.round if node.id in axes else placed.round + 1
            placed = Placed("here", round=later)
        elif placed.place == "aggregate":
            placed = Placed("here", round=placed.round)
        read.append(placed)
    return Places(tuple(computed), tuple(read), wanted)


def _in_blocks(
    program: Program, node: Node, placements: Sequence[Placed], ready: int
) -> Placed | None:
    """Return the place of a node over blocks; None where it needs them as a whole."""
    operands = [(program.nodes[number], placements[number]) for number in node.inputs]
    if node.op == "MatMul":
        return _product(node, operands, ready)
    moved = {
        kept_axes(node, operand).get(place.axis)
        for operand, place in operands
        if place.place == "blocks"
    }
    axis = moved.pop()
    if reduces(node) and axis is None:
        return None if combined(node) is None else Placed("aggregate", 0, ready + 1)
    if moved or axis is None:
        return None
    split = [
        (operand.id, along)
        for operand, place in operands
        for along, to in kept_axes(node, operand).items()
        if place.place != "blocks" and to == axis and node.shape[axis] != 1
    ]
    return Placed("blocks", axis, ready, tuple(split))


def combined(node: Node) -> str | None:
    """Return the ufunc that makes one value of an aggregate's parts; None where none does."""
    return _COMBINED.get(str(node.attributes["function"]) if node.op == "Call" else node.op)


def _product(node: Node, operands: Sequence[tuple[Node, Placed]], ready: int) -> Placed | None:
    (left, at_left), (right, at_right) = operands
    if len(left.shape) > 2 or len(right.shape) > 2:
        return None
    inner_left, inner_right = contracted_axes(left, right)
    along_left = at_left.place == "blocks" and at_left.axis == inner_left
    along_right = at_right.place == "blocks" and at_right.axis == inner_right
    if along_left or along_right:
        if (at_left.place == "blocks" and not along_left) or (
            at_right.place == "blocks" and not along_right
        ):
            return None
        split = []
        if not along_left:
            split.append((left.id, inner_left))
        if not along_right:
            split.append((right.id, inner_right))
        return Placed("aggregate", 0, ready + 1, tuple(split))
    if at_left.place == "blocks" and at_right.place == "blocks":
        return None
    return Placed("blocks", 0 if at_left.place == "blocks" else len(node.shape) - 1, ready)
