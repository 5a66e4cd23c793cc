"""Views of lazy arrays: their values can wait, and they share memory once somebody writes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import index
from typing import Any

import numpy as np

from ..tracing import eager
from ..tracing.expressions import Attributes, Expression, elementwise, leaf, remembered
from ..tracing.marker_types import is_lazy
from ..tracing.trace import UnsupportedError, View
from .operands import lazy_array, operand

# The parts of an array of no more are made as views that wait.
_SHORT = 8


def _view(lazy: Any, op: str, shape: tuple[int, ...], attributes: Attributes, view: View) -> Any:
    """Return a view that waits; one of memory that others may write is read now."""
    if lazy._trace.closed:
        return view(lazy._value("a view"))
    trace, family = lazy._trace, lazy._joined()
    try:
        trace.step()
    except UnsupportedError:
        return view(lazy._value("a view"))
    if family.exposed:
        lazy_view = trace.kind(trace, leaf(view(lazy._thunk.value), trace.places), False)
    else:
        base = operand(trace, lazy)

        def build() -> Expression:
            return Expression(op, (base,), shape, base.dtype, attributes, base.layout, base.nnz)

        lazy_view = lazy_array(trace, remembered(base, (op, shape, attributes), build))
    lazy_view._join(family, (*lazy._views, view))
    return lazy_view


def transpose(lazy: Any, axes: Sequence[Any] | None = None) -> Any:
    """Return ndarray.transpose."""
    rank = lazy.ndim
    try:
        requested_axes = range(rank)[::-1] if axes is None else [index(axis) for axis in axes]
    except TypeError:
        return eager.method(lazy, "transpose", tuple(axes or ()), {})
    order = tuple(axis % rank for axis in requested_axes if -rank <= axis < rank)
    if sorted(order) != list(range(rank)) or len(requested_axes) != rank:
        return eager.method(lazy, "transpose", tuple(axes or ()), {})
    shape = tuple(lazy.shape[axis] for axis in order)

    def view(array: Any) -> Any:
        return array.transpose(order)

    if rank < 2:
        return _view(lazy, "Identity", shape, (), view)
    return _view(lazy, "Transpose", shape, (("perm", order),), view)


def identity(lazy: Any) -> Any:
    """Return a view of everything."""
    return _view(lazy, "Identity", lazy.shape, (), lambda array: array[...])


def copied(lazy: Any) -> Any:
    """Return a copy."""
    if lazy._trace.closed:
        return eager.method(lazy, "copy", (), {})
    try:
        lazy._trace.step()
        x = operand(lazy._trace, lazy)
    except UnsupportedError:
        return eager.method(lazy, "copy", (), {})
    copy = remembered(x, "copy", lambda: elementwise("Identity", x))
    return lazy_array(lazy._trace, copy, lazy._scalar)


def reshape(lazy: Any, shape: Sequence[Any]) -> Any:
    """Return ndarray.reshape in C order, which is a view only where the memory's order allows it.

    Of an array that is there NumPy knows; what waits will be C-contiguous unless it is a view.
    """
    try:
        wanted = [index(extent) for extent in shape]
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
    return _view(lazy, "Reshape", target, (("shape", target),), lambda array: array.reshape(target))


def _keeps_memory(lazy: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether another shape is a view: that depends on strides, which only memory has."""
    if lazy._family.array is None:
        return False
    array = lazy._seen_in(lazy._family.array)
    return array.flags.c_contiguous or np.may_share_memory(array.reshape(shape), array)


def squeeze(lazy: Any, axis: Any = None) -> Any:
    """Return ndarray.squeeze."""
    rank = lazy.ndim
    requested_axes = (
        tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    )
    axes = tuple(
        sorted(
            a % rank for a in requested_axes if rank and (axis is not None or lazy.shape[a] == 1)
        )
    )
    if any(lazy.shape[a] != 1 for a in axes) or any(not -rank <= a < rank for a in requested_axes):
        return eager.method(lazy, "squeeze", (axis,), {})
    if not axes:
        return eager.method(lazy, "squeeze", (axis,), {}) if lazy._scalar else lazy
    shape = tuple(extent for a, extent in enumerate(lazy.shape) if a not in axes)
    return _view(lazy, "Squeeze", shape, (("axes", axes),), lambda array: array.squeeze(axes))


def item(lazy: Any, key: Any) -> Any:
    """Return lazy[key]: numbers, slices, ... and None give views; else NumPy indexes at once."""
    keys = key if type(key) is tuple else (key,)
    keys_read = tuple([_basic_key(key) for key in keys])
    if None in keys_read or lazy._scalar or lazy._trace.closed:
        return eager.call(lazy._trace, _index, (lazy, key), {}, "an index that isn't slices")
    steps, scalar = _steps(lazy.shape, keys_read)
    item = lazy
    for step in steps:
        item = _view(item, step.op, step.shape, step.attributes, step.view)
        if not is_lazy(item):  # tracing stopped
            return _index(eager.real(lazy), key)
    if scalar:
        try:
            return lazy_array(lazy._trace, operand(lazy._trace, item), True)
        except UnsupportedError:
            return item._value("an index")
    return identity(item) if item is lazy else item


def iterated(lazy: Any) -> Iterator[Any]:
    """Return ndarray.__iter__: numbers, and rows each of which is read as an array of its own.

    So the regions of all iterations are alike. The parts of a short array wait, as they are
    assigned to several names at once.
    """
    count = lazy.shape[0]
    if count <= _SHORT:
        return (lazy[place] for place in range(count))
    memory = lazy._trace.memory(lazy, "a loop over it")
    return iter(memory) if lazy.ndim == 1 else _rows(lazy, memory)


def _rows(lazy: Any, memory: Any) -> Iterator[Any]:
    trace, family, views = lazy._trace, lazy._family, lazy._views
    del lazy  # which the caller may not hold any more
    for place in range(len(memory)):
        if trace.closed:
            yield memory[place]
            continue
        row = trace.kind(trace, leaf(memory[place], trace.places))
        row._join(family, (*views, partial(_index, key=place)))
        yield row


def _basic_key(key: Any) -> tuple[Any, ...] | None:
    """Return a part of an index as a key; None for one that isn't a number, slice, ... or None."""
    kind = type(key)
    if kind is slice:
        bounds = (key.start, key.stop, key.step)
        return bounds if all(bound is None or type(bound) is int for bound in bounds) else None
    if key is None or key is Ellipsis:
        return (key,)
    if kind is int or (isinstance(key, np.integer) and not is_lazy(key)):
        return ("at", int(key))
    return None


def _index(array: Any, key: Any) -> Any:
    return array[key]


@dataclass(frozen=True, slots=True)
class _Step:
    """A view of a view: an operator, the shape of its result, and what NumPy does."""

    op: str
    shape: tuple[int, ...]
    attributes: Attributes
    view: View


@lru_cache(maxsize=4096)
def _steps(
    shape: tuple[int, ...], index: tuple[tuple[Any, ...], ...]
) -> tuple[tuple[_Step, ...], bool]:
    """Return an index as views, Slice, then Squeeze, then Unsqueeze, and whether it gives a number.

    Raises IndexError as NumPy does.
    """
    rank = len(shape)
    ellipses = index.count((Ellipsis,))
    taken = len(index) - ellipses - index.count((None,))
    if taken > rank or ellipses > 1:
        raise IndexError(
            f"too many indices for array: array is {rank}-dimensional, but {taken} were indexed"
            if taken > rank
            else "an index can only have a single ellipsis ('...')"
        )
    keys: list[tuple[Any, ...]] = []
    for key in index if ellipses else (*index, (Ellipsis,)):
        keys += [(None, None, None)] * (rank - taken) if key == (Ellipsis,) else [key]
    bounds: list[tuple[int, int, int, int]] = []  # axis, start, end, step
    dropped: list[int] = []
    added: list[int] = []
    axis = place = 0
    for part in keys:
        if part == (None,):
            added.append(place)
            place += 1
            continue
        extent = shape[axis]
        if part[0] == "at":
            position = part[1]
            if not -extent <= position < extent:
                raise IndexError(
                    f"index {position} is out of bounds for axis {axis} with size {extent}"
                )
            bounds.append((axis, position % extent, position % extent + 1, 1))
            dropped.append(axis)
        else:
            start, stop, step = slice(*part).indices(extent)
            if (start, stop, step) != (0, extent, 1):
                bounds.append((axis, start, stop if stop >= 0 else -1 - extent, step))
            place += 1
        axis += 1
    view_steps: list[_Step] = []
    if bounds:
        axes, starts, ends, steps = (tuple(column) for column in zip(*bounds, strict=True))
        cuts = [slice(None)] * rank
        for sliced_axis, start, end, step in bounds:
            cuts[sliced_axis] = slice(start, None if end < 0 else end, step)
        window = tuple(cuts)
        shape = tuple(len(range(*cut.indices(n))) for cut, n in zip(cuts, shape, strict=True))
        attributes = (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))
        view_steps.append(_Step("Slice", shape, attributes, lambda array: array[window]))
    if dropped:
        gone = tuple(dropped)
        shape = tuple(extent for i, extent in enumerate(shape) if i not in gone)
        view_steps.append(
            _Step("Squeeze", shape, (("axes", gone),), lambda array: array.squeeze(gone))
        )
    if added:
        view_steps.append(unsqueezed(shape, tuple(added)))
    return tuple(view_steps), taken == len(index) == rank and all(key[0] == "at" for key in index)


def unsqueezed(shape: tuple[int, ...], gaps: tuple[int, ...]) -> _Step:
    """Return the view with axes of length 1 where the gaps are."""
    rest = iter(shape)
    wide = tuple(1 if axis in gaps else next(rest) for axis in range(len(shape) + len(gaps)))
    attributes = (("axes", gaps),)
    return _Step("Unsqueeze", wide, attributes, lambda array: np.expand_dims(array, gaps))


def with_axes(x: Expression, gaps: tuple[int, ...]) -> Expression:
    """Return an expression with axes of length 1 where the gaps are."""
    step = unsqueezed(x.shape, gaps)
    return Expression(step.op, (x,), step.shape, x.dtype, step.attributes)


def expand_dims(lazy: Any, axis: Any) -> Any:
    """Return np.expand_dims."""
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    rank = lazy.ndim + len(axes)
    gaps = tuple(sorted(index(a) % rank for a in axes))
    if len(set(gaps)) != len(gaps) or any(not -rank <= a < rank for a in axes):
        raise UnsupportedError("axes that NumPy refuses")
    step = unsqueezed(lazy.shape, gaps)
    return _view(lazy, step.op, step.shape, step.attributes, step.view)
