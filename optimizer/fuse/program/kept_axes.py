"""Which axis of an operator's result is an axis of its operand: the one place that says it.

Kernels run over the rows of axes that go together (codegen/axis_classes.py), and blocks of rows
run along one axis (blocks/block_places.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from .dag import Node

# Functions of NumPy's that reduce, beside ufuncs' methods; others of a Call go by elements.
_REDUCING = frozenset(["numpy.any", "numpy.all", "numpy.argmax", "numpy.argmin"])


def reduces(node: Node) -> bool:
    """Whether an operator, or a function of NumPy's, makes fewer elements along some axes."""
    function = node.attributes.get("function", "")
    return node.op.startswith("Reduce") or function in _REDUCING or function.endswith(".reduce")


def reduced_axes(node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes, of so many, along which a reduction or a running sum goes."""
    axes = node.attributes.get("axis" if node.op == "CumSum" else "axes")
    if node.op == "Call":
        axes = dict(node.attributes.get("options", ())).get("axis")
    if axes is None:
        return tuple(range(rank))
    return tuple(axes) if isinstance(axes, tuple) else (axes,)


def contracted_axes(left: Node, right: Node) -> tuple[int, int]:
    """Return the axes of a MatMul's operands that it sums over."""
    return len(left.shape) - 1, max(len(right.shape) - 2, 0)


def kept_axes(node: Node, operand: Node, position: int = 0) -> dict[int, int]:
    """Return, for the axes of an operand that the result has, which of its axes they are there.

    The element at some place along such an axis is made of what the operand has at that place.
    """
    rank, result_rank = len(operand.shape), len(node.shape)
    function = node.attributes.get("function", "")
    if reduces(node):
        rest = [axis for axis in range(rank) if axis not in reduced_axes(node, rank)]
        return {axis: axis if rank == result_rank else i for i, axis in enumerate(rest)}
    if node.op == "CumSum" or function.endswith(".accumulate"):
        along = reduced_axes(node, rank)
        return {axis: axis for axis in range(rank) if axis not in along}
    if node.is_elementwise or node.op in ("Expand", "Call"):
        shift = result_rank - rank
        return {
            axis: axis + shift
            for axis, extent in enumerate(operand.shape)
            if extent == node.shape[axis + shift]
        }
    match node.op:
        case "MatMul":
            to = result_rank - 1 if position else 0
            return {position: to} if rank == 2 else {}
        case "Transpose":
            return {axis: to for to, axis in enumerate(node.attributes["perm"])}
        case "Unsqueeze":
            added = node.attributes["axes"]
            return dict(enumerate(to for to in range(result_rank) if to not in added))
        case "Squeeze":
            gone = node.attributes["axes"]
            return {axis: to for to, axis in enumerate(a for a in range(rank) if a not in gone)}
        case "Reshape":
            return _of_one_length(operand.shape, node.shape)
        case "Slice":
            return {axis: axis for axis in range(rank) if axis not in node.attributes["axes"]}
        case "Concat":
            return {axis: axis for axis in range(rank) if axis != node.attributes["axis"]}
    return {}


def _of_one_length(before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Return the axes of a shape that another one has, with as many elements outside of them."""
    places: dict[tuple[int, int], int] = {}
    outside = 1
    for axis, extent in enumerate(after):
        if extent != 1:
            places.setdefault((outside, extent), axis)
        outside *= extent
    kept: dict[int, int] = {}
    outside = 1
    for axis, extent in enumerate(before):
        if (outside, extent) in places:
            kept[axis] = places[outside, extent]
        outside *= extent
    return kept
