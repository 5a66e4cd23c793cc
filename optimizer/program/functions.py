"""NumPy's functions that aren't ufuncs: those that are traced; the others run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import contractions, eager, reductions, views
from .expression import TRACED, Expression, cast, common_type, elementwise, reduction, remembered
from .trace import Trace, UnsupportedError, is_lazy
from .ufuncs import apply as apply_ufunc
from .ufuncs import made, number, operand
from .warned import raise_if_errors_are_asked_for

Handler = Callable[..., Any]
Building = Callable[..., Expression]


def apply(trace: Trace, function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Answer NumPy's question about a function with a lazy array among its arguments."""
    try:
        if trace.closed:
            raise UnsupportedError("after the call")
        build = _BUILDING.get(function)
        handler = _HANDLERS.get(function)
        if build is None and handler is None:
            raise UnsupportedError("not traced")
        raise_if_errors_are_asked_for()
        trace.step()
        if handler is not None:
            return handler(trace, *arguments, **options)
        assert build is not None
        found = _built(trace, function, build, arguments, options)
        # of numbers np.where alone gives an array without axes
        return made(trace, found, not found.shape and function is not np.where)
    except UnsupportedError as refusal:
        return eager.call(trace, function, arguments, options, str(refusal))
    except (TypeError, OverflowError):
        # Arguments that the handler doesn't have, or numbers that a type doesn't: NumPy knows.
        return eager.call(trace, function, arguments, options, "its arguments aren't traced")


def _built(
    trace: Trace,
    function: Any,
    build: Building,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
) -> Expression:
    """Return what a function gives, as before where its arguments are."""
    given = [_read(trace, one) for one in arguments]
    named = {name: _read(trace, one) for name, one in options.items()}
    key: list[Any] = [function]
    found: list[Expression] = []
    for name, one in (*enumerate(given), *named.items()):
        kind = type(one)
        if kind is Expression:
            found.append(one)
            key += [name, one]
        elif kind in _TOLD:
            # by its text: 0.0 isn't -0.0, and True isn't 1
            key += [name, kind, repr(one)]
        else:
            return build(trace, *given, **named)
    if not found:
        return build(trace, *given, **named)
    return remembered(found[0], tuple(key), lambda: build(trace, *given, **named), *found[1:])


_TOLD = frozenset([int, float, bool, str, type(None), type(np._NoValue)])


def _read(trace: Trace, value: Any) -> Any:
    traced = is_lazy(value) or type(value) is np.ndarray or isinstance(value, np.generic)
    return operand(trace, value) if traced else value


def _lazy(value: Any) -> Any:
    if not is_lazy(value):
        raise UnsupportedError("an operand that isn't traced")
    return value


def _reducing(name: str) -> Building:
    def build(trace: Trace, a: Any, *arguments: Any, **options: Any) -> Expression:
        names: tuple[str, ...] = ("axis", "out", "keepdims")
        if name in ("sum", "prod", "mean"):
            names = ("axis", "dtype", "out", "keepdims")
        if name in ("var", "std"):
            names = ("axis", "dtype", "out", "ddof", "keepdims")
        given = dict(zip(names, arguments, strict=False)) | options
        if len(arguments) > len(names):
            raise UnsupportedError("arguments beyond keepdims")
        bound = reductions._bound(name, (), given)
        return reductions.expression_of(name, operand(trace, a), bound)

    return build


def _where(trace: Trace, condition: Any, x: Any = None, y: Any = None) -> Expression:
    if x is None or y is None:
        raise UnsupportedError("np.where with one argument")
    types = [_weak_type(trace, one) for one in (x, y)]
    kept = np.result_type(*types).name
    if kept not in TRACED:
        raise UnsupportedError(f"the type {kept}")
    branches = [_as(trace, one, kept) for one in (x, y)]
    chosen = cast(operand(trace, condition), "bool")
    return _fitting("Where", chosen, *branches, dtype=kept)


def _weak_type(trace: Trace, value: Any) -> Any:
    return value if type(value) in (int, float) else np.dtype(operand(trace, value).dtype)


def _as(trace: Trace, value: Any, dtype: str) -> Expression:
    if type(value) in (int, float):
        return number(value, dtype)
    return cast(operand(trace, value), dtype)


def _fitting(op: str, *operands: Expression, dtype: str) -> Expression:
    try:
        return elementwise(op, *operands, dtype=dtype)
    except ValueError as error:
        raise UnsupportedError("shapes that don't fit") from error


def _clip(
    trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Expression:
    low = a_min if min is None else min
    high = a_max if max is None else max
    if low is np._NoValue:
        low = None
    if high is np._NoValue:
        high = None
    x = operand(trace, a)
    kept = np.dtype(x.dtype)
    for bound in (low, high):
        if bound is not None:
            kept = np.result_type(kept, _weak_type(trace, bound))
    if kept.name not in TRACED or kept.kind == "b":
        raise UnsupportedError(f"the type {kept}")
    found = cast(x, kept.name)
    if low is None and high is None:
        found = elementwise("Identity", found)
    if low is not None:
        found = _fitting("Max", found, _as(trace, low, kept.name), dtype=kept.name)
    if high is not None:
        found = _fitting("Min", found, _as(trace, high, kept.name), dtype=kept.name)
    return found


def _dot(trace: Trace, a: Any, b: Any) -> Expression:
    left, right = operand(trace, a), operand(trace, b)
    if not left.shape or not right.shape:
        kept = common_type(left.dtype, right.dtype)
        if np.dtype(kept).kind != "f":
            raise UnsupportedError("whole numbers")
        return elementwise("Mul", cast(left, kept), cast(right, kept))
    if len(left.shape) > 2 or len(right.shape) > 2:
        raise UnsupportedError("np.dot beyond matrices")
    return contractions.product(left, right)


def _vdot(trace: Trace, a: Any, b: Any) -> Expression:
    if len(operand(trace, a).shape) != 1 or len(operand(trace, b).shape) != 1:
        raise UnsupportedError("np.vdot beyond vectors")
    return _dot(trace, a, b)


def _inner(trace: Trace, a: Any, b: Any) -> Expression:
    if len(operand(trace, a).shape) != 1 or len(operand(trace, b).shape) != 1:
        raise UnsupportedError("np.inner beyond vectors")
    return _dot(trace, a, b)


def _outer(trace: Trace, a: Any, b: Any) -> Any:
    left, right = _lazy(a), _lazy(b)
    if left.ndim != 1 or right.ndim != 1:
        raise UnsupportedError("np.outer beyond vectors")
    column = views.expand_dims(left, 1)
    row = views.expand_dims(right, 0)
    return apply_ufunc(trace, np.multiply, "__call__", (column, row), {})


def _norm(
    trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Expression:
    value = operand(trace, x)
    if value.dtype not in ("float32", "float64"):
        value = cast(value, "float64")
    rank = len(value.shape)
    if (
        ord is not None
        and not (ord == 2 and rank == 1)
        and not (ord == 2 and isinstance(axis, int))
    ):
        raise UnsupportedError(f"the norm {ord}")
    if axis is not None and not isinstance(axis, int):
        raise UnsupportedError("a norm over several axes")
    axes = reductions.axes_of(axis, rank)
    squares = reduction("ReduceSum", elementwise("Mul", value, value), axes, keepdims)
    return elementwise("Sqrt", squares)


def _concatenate(trace: Trace, arrays: Any, axis: Any = 0) -> Expression:
    if not isinstance(arrays, tuple | list) or not arrays or not isinstance(axis, int):
        raise UnsupportedError("np.concatenate of this")
    parts = [operand(trace, one) for one in arrays]
    rank = len(parts[0].shape)
    if any(len(one.shape) != rank for one in parts) or not -rank <= axis < rank:
        raise UnsupportedError("arrays that don't fit")
    along = axis % rank
    kept = np.result_type(*(np.dtype(one.dtype) for one in parts)).name
    if kept not in TRACED:
        raise UnsupportedError(f"the type {kept}")
    rest = {one.shape[:along] + one.shape[along + 1 :] for one in parts}
    if len(rest) != 1:
        raise UnsupportedError("arrays that don't fit")
    total = sum(one.shape[along] for one in parts)
    shape = (*parts[0].shape[:along], total, *parts[0].shape[along + 1 :])
    joined = tuple(cast(one, kept) for one in parts)
    return Expression("Concat", joined, shape, kept, (("axis", along),))


def _filled(value: float) -> Handler:
    def handler(trace: Trace, a: Any, dtype: Any = None, **options: Any) -> Any:
        if options and set(options) != {"shape"}:
            raise UnsupportedError("arguments beyond dtype and shape")
        like = operand(trace, a)
        shape = options.get("shape")
        shape = like.shape if shape is None else shape
        array = np.full(shape, value, dtype=like.dtype if dtype is None else dtype)
        return eager.adopt(trace, array, ())

    return handler


def _ravel(trace: Trace, a: Any, order: str = "C") -> Any:
    return _lazy(a).ravel(order)


def _round(trace: Trace, a: Any, decimals: Any = 0, out: Any = None) -> Expression:
    x = operand(trace, a)
    if decimals != 0 or out is not None or x.dtype not in ("float32", "float64"):
        raise UnsupportedError("decimals")
    return elementwise("Round", x)


# Those that depend on what they are given alone.
_BUILDING: Mapping[Any, Building] = {
    **{getattr(np, name): _reducing(name) for name in reductions._SIGNATURES},
    np.amax: _reducing("max"),
    np.amin: _reducing("min"),
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.linalg.norm: _norm,
    np.concatenate: _concatenate,
    np.round: _round,
}

# Views, which share memory, and what doesn't wait.
_HANDLERS: Mapping[Any, Handler] = {
    np.outer: _outer,
    np.transpose: lambda trace, a, axes=None: _lazy(a).transpose(axes),
    np.reshape: lambda trace, a, shape, order="C": _lazy(a).reshape(shape, order=order),
    np.ravel: _ravel,
    np.squeeze: lambda trace, a, axis=None: views.squeeze(_lazy(a), axis),
    np.expand_dims: lambda trace, a, axis: views.expand_dims(_lazy(a), axis),
    np.copy: lambda trace, a, order="K", subok=False: views.copied(_lazy(a)),
    np.zeros_like: _filled(0),
    np.ones_like: _filled(1),
    np.empty_like: _filled(0),
    np.shape: lambda trace, a: a.shape,
    np.ndim: lambda trace, a: a.ndim,
    np.size: lambda trace, a, axis=None: a.size if axis is None else a.shape[axis],
}
