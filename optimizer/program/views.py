"""Views of lazy arrays: their values can wait, and they share memory once somebody writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import eager
from .expression import Attributes, Expression, elementwise, remembered
from .held import leaf
from .trace import UnsupportedError, View, is_lazy
from .ufuncs import made, operand


def _view(
    lazy: Any, op: str, shape: tuple[int, ...], attributes: Attributes, view: View, scalar: bool
) -> Any:
    """Return a view that waits; a number, or one of memory others may write, is read now."""
    if lazy._trace.closed:
        return view(lazy._value("a view"))
    trace, family = lazy._trace, lazy._joined()
    trace.step()
    if family.exposed:
        found = trace.kind(trace, leaf(view(lazy._held.value), trace.places), scalar)
    else:
        base = operand(trace, lazy)

        def build() -> Expression:
            return Expression(op, (base,), shape, base.dtype, attributes, base.layout, base.nnz)

        found = made(trace, remembered(base, (op, shape, attributes), build), scalar)
    if not scalar:
        found._join(family, (*lazy._views, view))
    return found


def transpose(lazy: Any, axes: Sequence[Any] | None = None) -> Any:
    """Return ndarray.transpose."""
    rank = lazy.ndim
    try:
        order = tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)
    except (TypeError, ZeroDivisionError):
        return eager.method(lazy, "transpose", tuple(axes or ()), {})
    if sorted(order) != list(range(rank)):
        raise ValueError("axes don't match array")
    shape = tuple(lazy.shape[axis] for axis in order)

    def view(array: Any) -> Any:
        return array.transpose(order)

    if rank < 2:
        return _view(lazy, "Identity", shape, (), view, False)
    return _view(lazy, "Transpose", shape, (("perm", order),), view, False)


def identity(lazy: Any) -> Any:
    """Return a view of everything."""
    return _view(lazy, "Identity", lazy.shape, (), lambda array: array[...], False)


def copied(lazy: Any) -> Any:
    """Return a copy."""
    lazy._trace.step()
    try:
        x = operand(lazy._trace, lazy)
    except UnsupportedError:
        return eager.method(lazy, "copy", (), {})
    found = remembered(x, "copy", lambda: elementwise("Identity", x))
    return made(lazy._trace, found, lazy._scalar)


def reshape(lazy: Any, shape: Sequence[Any]) -> Any:
    """Return ndarray.reshape in C order, which is a view only where the memory's order allows it.

    Of an array that is there NumPy knows; what waits will be C-contiguous unless it is a view.
    """
    try:
        wanted = [int(extent) for extent in shape]
    except TypeError:
        return eager.method(lazy, "reshape", tuple(shape), {})
    if wanted.count(-1) == 1:
        rest = math.prod(extent for extent in wanted if extent != -1)
        if rest and lazy.size % rest == 0:
            wanted[wanted.index(-1)] = lazy.size // rest
    target = tuple(wanted)
    if math.prod(target) != lazy.size or any(extent < 0 for extent in target):
        return eager.method(lazy, "reshape", tuple(shape), {})
    if lazy._family is not None and not _keeps_memory(lazy, target):
        return eager.method(lazy, "reshape", tuple(shape), {})
    return _view(
        lazy, "Reshape", target, (("shape", target),), lambda array: array.reshape(target), False
    )


def _keeps_memory(lazy: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether another shape is a view: that depends on strides, which only memory has."""
    if lazy._family.array is None:
        return False
    array = lazy._seen_in(lazy._family.array)
    return array.flags.c_contiguous or np.may_share_memory(array.reshape(shape), array)


def squeeze(lazy: Any, axis: Any = None) -> Any:
    """Return ndarray.squeeze."""
    rank = lazy.ndim
    given = tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(
        sorted(a % rank for a in given if rank and (axis is not None or lazy.shape[a] == 1))
    )
    if any(lazy.shape[a] != 1 for a in axes) or any(not -rank <= a < rank for a in given):
        return eager.method(lazy, "squeeze", (axis,), {})
    if not axes:
        return identity(lazy)
    shape = tuple(extent for a, extent in enumerate(lazy.shape) if a not in axes)
    return _view(
        lazy, "Squeeze", shape, (("axes", axes),), lambda array: array.squeeze(axes), False
    )


def item(lazy: Any, key: Any) -> Any:
    """Return lazy[key]: numbers, slices, ... and None give views; else NumPy indexes at once."""
    keys = key if type(key) is tuple else (key,)
    basic = all(
        one is None or one is Ellipsis or type(one) is slice or isinstance(one, int | np.integer)
        for one in keys
        if not is_lazy(one)
    ) and not any(is_lazy(one) or isinstance(one, bool | np.bool_) for one in keys)
    if not basic or lazy._scalar or lazy._trace.closed:
        return eager.call(lazy._trace, _index, (lazy, key), {}, "an index that isn't slices")
    rank = lazy.ndim
    taken = sum(1 for one in keys if one is not None and one is not Ellipsis)
    if keys.count(None) + taken + sum(one is Ellipsis for one in keys) != len(keys):
        return eager.call(lazy._trace, _index, (lazy, key), {}, "an index that isn't slices")
    ellipses = sum(one is Ellipsis for one in keys)
    if taken > rank or ellipses > 1:
        raise IndexError(
            f"too many indices for array: array is {rank}-dimensional, but {taken} were indexed"
            if taken > rank
            else "an index can only have a single ellipsis ('...')"
        )
    full: list[Any] = []
    for one in keys if ellipses else (*keys, Ellipsis):
        full += [slice(None)] * (rank - taken) if one is Ellipsis else [one]
    return _sliced(lazy, full, scalar=taken == rank and not ellipses and _all_numbers(keys))


def _all_numbers(keys: Sequence[Any]) -> bool:
    return all(isinstance(one, int | np.integer) for one in keys)


def _index(array: Any, key: Any) -> Any:
    return array[key]


def _sliced(lazy: Any, keys: Sequence[Any], scalar: bool) -> Any:
    """Apply one number, slice or None for each axis: Slice, then Squeeze, then Unsqueeze."""
    bounds: list[tuple[int, int, int, int]] = []  # axis, start, end, step
    dropped: list[int] = []
    added: list[int] = []
    axis = place = 0
    for one in keys:
        if one is None:
            added.append(place)
            place += 1
            continue
        extent = lazy.shape[axis]
        if type(one) is slice:
            start, stop, step = one.indices(extent)
            if (start, stop, step) != (0, extent, 1):
                bounds.append((axis, start, stop if stop >= 0 else -1 - extent, step))
            place += 1
        else:
            position = int(one)
            if not -extent <= position < extent:
                raise IndexError(
                    f"index {position} is out of bounds for axis {axis} with size {extent}"
                )
            bounds.append((axis, position % extent, position % extent + 1, 1))
            dropped.append(axis)
        axis += 1
    found = lazy
    if bounds:
        axes, starts, ends, steps = (tuple(column) for column in zip(*bounds, strict=True))
        cuts = [slice(None)] * lazy.ndim
        for a, start, end, step in bounds:
            cuts[a] = slice(start, None if end < 0 else end, step)
        window = tuple(cuts)
        shape = tuple(len(range(*cut.indices(n))) for cut, n in zip(cuts, lazy.shape, strict=True))
        attributes = (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))
        found = _view(found, "Slice", shape, attributes, lambda array: array[window], False)
    if dropped:
        found = squeeze(found, tuple(dropped))
    if added:
        rank = found.ndim + len(added)
        rest = iter(found.shape)
        shape = tuple(1 if a in added else next(rest) for a in range(rank))
        gaps = tuple(added)
        found = _view(
            found,
            "Unsqueeze",
            shape,
            (("axes", gaps),),
            lambda array: np.expand_dims(array, gaps),
            False,
        )
    if scalar:
        try:
            return made(lazy._trace, operand(lazy._trace, found), True)
        except UnsupportedError:
            return found._value("an index")
    return identity(found) if found is lazy else found


def expand_dims(lazy: Any, axis: Any) -> Any:
    """Return np.expand_dims."""
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    rank = lazy.ndim + len(axes)
    gaps = tuple(sorted(int(a) % rank for a in axes))
    if len(set(gaps)) != len(gaps) or any(not -rank <= a < rank for a in axes):
        raise UnsupportedError("axes that NumPy refuses")
    rest = iter(lazy.shape)
    shape = tuple(1 if a in gaps else next(rest) for a in range(rank))
    return _view(
        lazy,
        "Unsqueeze",
        shape,
        (("axes", gaps),),
        lambda array: np.expand_dims(array, gaps),
        False,
    )
