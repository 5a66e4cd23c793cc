"""np.linalg.norm, of vectors along an axis and of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from . import reductions
from .einsum import over_axes
from .expression import Expression, cast, constant, elementwise, reduction
from .trace import Trace, UnsupportedError
from .ufuncs import operand

# Of the sums of a matrix's columns, or of its rows: the axis that is summed first, then the other.
_OF_MATRICES: Mapping[float, tuple[str, int]] = {
    1.0: ("ReduceMax", 0),
    -1.0: ("ReduceMin", 0),
    math.inf: ("ReduceMax", 1),
    -math.inf: ("ReduceMin", 1),
}


def norm(
    trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False
) -> Expression:
    """Return np.linalg.norm; UnsupportedError for those that need singular values."""
    value = operand(trace, x)
    if value.dtype not in ("float32", "float64"):
        value = cast(value, "float64")
    if type(keepdims) is not bool or type(ord) not in (type(None), int, float, str):
        raise UnsupportedError("a norm that NumPy refuses")
    axes = reductions.axes_of(axis, len(value.shape))
    if not value.shape or (len(axes) > 2 and ord is not None):
        raise UnsupportedError("a norm that NumPy refuses")
    if axis is None and ord is None and not keepdims:
        # of all elements: one product of a vector with itself
        return elementwise("Sqrt", over_axes(value, value, axes, axes))
    if ord is None or (ord == 2 and len(axes) == 1) or (ord == "fro" and len(axes) == 2):
        squares = elementwise("Mul", value, value)
        return elementwise("Sqrt", reduction("ReduceSum", squares, axes, keepdims))
    sizes = elementwise("Abs", value)
    if len(axes) == 1 and type(ord) is not str:
        return _of_vectors(value, sizes, float(ord), axes, keepdims)
    if type(ord) is str or float(ord) not in _OF_MATRICES or keepdims:
        raise UnsupportedError(f"the norm {ord}")
    # which axis holds the rows depends on their order, where they are given
    rows, columns = axes if axis is None else (one % len(value.shape) for one in axis)
    op, first = _OF_MATRICES[float(ord)]
    along, rest = (rows, columns) if first == 0 else (columns, rows)
    sums = reduction("ReduceSum", sizes, (along,), False)
    return _extreme(op, sums, rest - (along < rest))


def _extreme(op: str, x: Expression, axis: int, keepdims: bool = False) -> Expression:
    if not x.shape[axis]:
        raise UnsupportedError("the largest of nothing")
    return reduction(op, x, (axis,), keepdims)


def _of_vectors(
    value: Expression, sizes: Expression, order: float, axes: tuple[int, ...], keepdims: bool
) -> Expression:
    if order in (math.inf, -math.inf):
        return _extreme("ReduceMax" if order > 0 else "ReduceMin", sizes, axes[0], keepdims)
    if order == 0:
        zero = elementwise("Equal", value, constant(0, value.dtype), dtype="bool")
        counted = cast(elementwise("Not", zero, dtype="bool"), value.dtype)
        return reduction("ReduceSum", counted, axes, keepdims)
    if order == 1:
        return reduction("ReduceSum", sizes, axes, keepdims)
    powers = elementwise("Pow", sizes, constant(order, value.dtype))
    total = reduction("ReduceSum", powers, axes, keepdims)
    return elementwise("Pow", total, constant(1 / order, value.dtype))
