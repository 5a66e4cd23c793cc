"""NumPy's functions that put arrays beside each other, or their parts in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from ..tracing.expressions import Expression, cast, elementwise
from ..tracing.trace import Trace, UnsupportedError
from . import views
from .operands import as_lazy, axis_of, operand, traced_type

_REFUSED = "axes that NumPy refuses"


# -- joined: expressions ---------------------------------------------------------------------------


def concatenate(trace: Trace, arrays: Any, axis: Any = 0) -> Expression:
    """Return np.concatenate."""
    return _joined(_parts(trace, arrays), axis)


def hstack(trace: Trace, tup: Any) -> Expression:
    """Return np.hstack: vectors one after the other, or columns beside each other."""
    parts = [_widened(part, 1) for part in _parts(trace, tup)]
    return _joined(parts, 0 if len(parts[0].shape) == 1 else 1)


def vstack(trace: Trace, tup: Any) -> Expression:
    """Return np.vstack: vectors are rows."""
    return _joined([_widened(part, 2) for part in _parts(trace, tup)], 0)


def column_stack(trace: Trace, tup: Any) -> Expression:
    """Return np.column_stack: vectors are columns."""
    parts = _parts(trace, tup)
    if any(not 1 <= len(part.shape) <= 2 for part in parts):
        raise UnsupportedError("columns of numbers, or of more than two axes")
    return _joined(
        [part if len(part.shape) == 2 else views.with_axes(part, (1,)) for part in parts], 1
    )


def stack(trace: Trace, arrays: Any, axis: Any = 0) -> Expression:
    """Return np.stack: along a new axis."""
    parts = _parts(trace, arrays)
    along = axis_of(axis, len(parts[0].shape) + 1)
    if any(part.shape != parts[0].shape for part in parts):
        raise UnsupportedError("arrays that don't fit")
    return _joined([views.with_axes(part, (along,)) for part in parts], along)


def _parts(trace: Trace, arrays: Any) -> list[Expression]:
    if not isinstance(arrays, tuple | list) or not arrays:
        raise UnsupportedError("no tuple or list of arrays")
    return [operand(trace, array) for array in arrays]


def _joined(parts: Sequence[Expression], axis: Any) -> Expression:
    rank = len(parts[0].shape)
    along = axis_of(axis, rank)
    if any(len(part.shape) != rank for part in parts):
        raise UnsupportedError("arrays that don't fit")
    kept = traced_type(*(np.dtype(part.dtype) for part in parts))
    rest = {part.shape[:along] + part.shape[along + 1 :] for part in parts}
    if len(rest) != 1:
        raise UnsupportedError("arrays that don't fit")
    total = sum(part.shape[along] for part in parts)
    shape = (*parts[0].shape[:along], total, *parts[0].shape[along + 1 :])
    joined = tuple(cast(part, kept) for part in parts)
    return Expression("Concat", joined, shape, kept, (("axis", along),))


def _widened(x: Expression, rank: int) -> Expression:
    """Return an array of at least so many axes: new ones come first."""
    missing = rank - len(x.shape)
    return x if missing <= 0 else views.with_axes(x, tuple(range(missing)))


def roll(trace: Trace, a: Any, shift: Any, axis: Any = None) -> Expression:
    """Return np.roll along one axis: what leaves at one end comes in at the other."""
    x = operand(trace, a)
    rank = len(x.shape)
    if axis is None and rank == 1:
        axis = 0
    along = axis_of(axis, rank, "np.roll over several axes")
    if type(shift) is not int:
        raise UnsupportedError("np.roll over several axes")
    extent = x.shape[along]
    offset = shift % extent if extent else 0
    if not offset:
        return elementwise("Identity", x)
    return _joined(
        [_part(x, along, extent - offset, extent), _part(x, along, 0, extent - offset)], along
    )


def _part(x: Expression, axis: int, start: int, end: int) -> Expression:
    shape = (*x.shape[:axis], end - start, *x.shape[axis + 1 :])
    bounds = (("starts", (start,)), ("ends", (end,)), ("axes", (axis,)), ("steps", (1,)))
    return Expression("Slice", (x,), shape, x.dtype, bounds)


# -- views and what is made of them ----------------------------------------------------------------


def flip(trace: Trace, m: Any, axis: Any = None) -> Any:
    """Return np.flip, a view."""
    lazy = as_lazy(m)
    rank = lazy.ndim
    requested_axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [index(axis) for axis in requested_axes]
    if any(not -rank <= axis < rank for axis in axes) or len({a % rank for a in axes}) < len(axes):
        raise UnsupportedError(_REFUSED)
    turned = {axis % rank for axis in axes}
    return lazy[
        tuple(slice(None, None, -1) if axis in turned else slice(None) for axis in range(rank))
    ]


def flipud(trace: Trace, m: Any) -> Any:
    """Return np.flipud."""
    if as_lazy(m).ndim < 1:
        raise UnsupportedError(_REFUSED)
    return flip(trace, m, 0)


def fliplr(trace: Trace, m: Any) -> Any:
    """Return np.fliplr."""
    if as_lazy(m).ndim < 2:
        raise UnsupportedError(_REFUSED)
    return flip(trace, m, 1)


def swapaxes(trace: Trace, a: Any, axis1: Any, axis2: Any) -> Any:
    """Return np.swapaxes, a view."""
    lazy = as_lazy(a)
    order = list(range(lazy.ndim))
    first, other = axis_of(axis1, lazy.ndim, _REFUSED), axis_of(axis2, lazy.ndim, _REFUSED)
    order[first], order[other] = other, first
    return views.transpose(lazy, order)


def moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> Any:
    """Return np.moveaxis of one axis, a view."""
    lazy = as_lazy(a)
    refusal = f"{_REFUSED}, or several"
    moved, to = axis_of(source, lazy.ndim, refusal), axis_of(destination, lazy.ndim, refusal)
    order = [axis for axis in range(lazy.ndim) if axis != moved]
    order.insert(to, moved)
    return views.transpose(lazy, order)


def matrix_transpose(trace: Trace, x: Any) -> Any:
    """Return np.matrix_transpose, a view."""
    if as_lazy(x).ndim < 2:
        raise UnsupportedError(_REFUSED)
    return swapaxes(trace, x, -1, -2)


def atleast(rank: int) -> Callable[..., Any]:
    """Return np.atleast_1d or np.atleast_2d, of one array."""

    def handler(trace: Trace, *arrays: Any) -> Any:
        if len(arrays) != 1:
            raise UnsupportedError("several arrays")
        lazy = as_lazy(arrays[0])
        missing = rank - lazy.ndim
        return lazy if missing <= 0 else views.expand_dims(lazy, tuple(range(missing)))

    return handler


def diff(trace: Trace, a: Any, n: Any = 1, axis: Any = -1) -> Any:
    """Return np.diff: each element less the one before it, n times."""
    lazy = as_lazy(a)
    along = axis_of(axis, lazy.ndim, "differences that NumPy refuses")
    if type(n) is not int or n < 1:
        raise UnsupportedError("differences that NumPy refuses")
    if lazy.dtype == np.dtype(bool):
        raise UnsupportedError("differences of bools")
    before = (slice(None),) * along
    for _ in range(n):
        lazy = lazy[(*before, slice(1, None))] - lazy[(*before, slice(None, -1))]
    return lazy


# Expressions of what they are given alone.
BUILDING: Mapping[Any, Callable[..., Expression]] = {
    np.concatenate: concatenate,
    np.hstack: hstack,
    np.vstack: vstack,
    np.column_stack: column_stack,
    np.stack: stack,
    np.roll: roll,
}

# Views, and what NumPy itself makes of views.
HANDLERS: dict[Any, Callable[..., Any]] = {
    np.flip: flip,
    np.flipud: flipud,
    np.fliplr: fliplr,
    np.swapaxes: swapaxes,
    np.moveaxis: moveaxis,
    np.atleast_1d: atleast(1),
    np.atleast_2d: atleast(2),
    np.diff: diff,
}
if hasattr(np, "matrix_transpose"):  # since NumPy 2
    HANDLERS[np.matrix_transpose] = matrix_transpose
