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
from ..program.numpy_operators import FUNCTIONS

Place = Literal["here", "blocks", "aggregate"]

# How the parts of an aggregate become one, by NumPy's ufuncs.
_COMBINED: Mapping[str, str] = {
    "ReduceSum": "add",
    "ReduceMean": "add",
    "ReduceSumSquare": "add",
    "MatMul": "add",
    "ReduceProd": "multiply",
    "ReduceMax": "maximum",
    "ReduceMin": "minimum",
    "numpy.any": "logical_or",
    "numpy.all": "logical_and",
}

# Functions of NumPy's that reduce, beside ufuncs' methods; others of a Call go by elements.
_REDUCING = frozenset(["numpy.any", "numpy.all", "numpy.argmax", "numpy.argmin"])

_ELEMENTWISE = frozenset(
    [
        *("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Reciprocal"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh"),
        *("Atanh", "IsNaN", "IsInf", "Sigmoid", "Erf", "Not", "Identity", "Cast"),
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Where", "And", "Or", "Xor"),
        *("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
        *FUNCTIONS,
    ]
)


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
    function = str(node.attributes.get("function", ""))
    if node.op.startswith("Reduce") or function in _REDUCING or function.endswith(".reduce"):
        return _reduction(node, *operands[0], ready)
    if function.endswith(".accumulate"):
        along = operands[0][1].axis
        return None if along in _reduced(node, len(node.shape)) else Placed("blocks", along, ready)
    if node.op in _ELEMENTWISE or node.op == "Call":
        return _elementwise(node, operands, ready)
    if node.op == "Concat":
        return _concatenation(node, operands, ready)
    operand, place = operands[0]
    axis = _moved(node, operand, place.axis)
    return None if axis is None else Placed("blocks", axis, ready)


def _elementwise(node: Node, operands: Sequence[tuple[Node, Placed]], ready: int) -> Placed | None:
    rank = len(node.shape)
    axes = {
        rank - len(operand.shape) + place.axis
        for operand, place in operands
        if place.place == "blocks"
    }
    if len(axes) != 1:
        return None
    axis = axes.pop()
    split = []
    for operand, place in operands:
        operand_axis = axis - (rank - len(operand.shape))
        if (
            place.place != "blocks"
            and operand_axis >= 0
            and operand.shape[operand_axis] == node.shape[axis] != 1
        ):
            split.append((operand.id, operand_axis))
        elif place.place == "blocks" and operand.shape[place.axis] != node.shape[axis]:
            return None  # one row that is spread over others
    return Placed("blocks", axis, ready, tuple(split))


def _reduction(node: Node, operand: Node, place: Placed, ready: int) -> Placed | None:
    axes = _reduced(node, len(operand.shape))
    if place.axis not in axes:
        if len(node.shape) == len(operand.shape):
            return Placed("blocks", place.axis, ready)
        return Placed("blocks", place.axis - sum(a < place.axis for a in axes), ready)
    if combined(node) is None:
        return None
    return Placed("aggregate", 0, ready + 1)


def _reduced(node: Node, rank: int) -> tuple[int, ...]:
    given = node.attributes.get("axes")
    if node.op == "Call":
        given = dict(node.attributes.get("options", ())).get("axis")
    if given is None:
        return tuple(range(rank))
    return tuple(given) if isinstance(given, tuple) else (given,)


def combined(node: Node) -> str | None:
    """Return the ufunc that makes one value of an aggregate's parts; None where none does."""
    return _COMBINED.get(str(node.attributes["function"]) if node.op == "Call" else node.op)


def _product(node: Node, operands: Sequence[tuple[Node, Placed]], ready: int) -> Placed | None:
    (left, at_left), (right, at_right) = operands
    if len(left.shape) > 2 or len(right.shape) > 2:
        return None
    inner_left, inner_right = len(left.shape) - 1, max(0, len(right.shape) - 2)
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


def _concatenation(
    node: Node, operands: Sequence[tuple[Node, Placed]], ready: int
) -> Placed | None:
    axes = {place.axis for _, place in operands if place.place == "blocks"}
    if len(axes) != 1 or node.attributes["axis"] in axes:
        return None
    (axis,) = axes
    split = tuple((operand.id, axis) for operand, place in operands if place.place != "blocks")
    return Placed("blocks", axis, ready, split)


def _moved(node: Node, operand: Node, axis: int) -> int | None:
    """Return where an axis goes in an operator that moves axes; None where it is changed."""
    match node.op:
        case "Transpose":
            return int(node.attributes["perm"].index(axis))
        case "Unsqueeze":
            places = [a for a in range(len(node.shape)) if a not in node.attributes["axes"]]
            return places[axis]
        case "Squeeze":
            axes = node.attributes["axes"]
            return None if axis in axes else axis - sum(a < axis for a in axes)
        case "Slice":
            return None if axis in node.attributes["axes"] else axis
        case "CumSum":
            return None if axis == node.attributes["axis"] else axis
        case "Expand":
            result_axis = axis + len(node.shape) - len(operand.shape)
            return result_axis if operand.shape[axis] == node.shape[result_axis] else None
        case "Reshape":
            return _kept(operand.shape, node.shape, axis)
    return None


def _kept(before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """Return the axis of another shape that has an axis's length and as many elements outside."""
    outside = 1
    for extent in before[:axis]:
        outside *= extent
    product = 1
    for place, extent in enumerate(after):
        if product == outside and extent == before[axis] and extent != 1:
            return place
        product *= extent
    return None
