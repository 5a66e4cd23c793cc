"""NumPy's functions that aren't ufuncs: those that are traced; the others run at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..program.dag import FLOATS
from ..tracing import eager
from ..tracing.eager import raise_if_errors_are_asked_for
from ..tracing.expressions import (
    TRACED,
    Expression,
    cast,
    common_type,
    constant,
    elementwise,
    remembered,
)
from ..tracing.marker_types import is_lazy
from ..tracing.trace import Trace, UnsupportedError
from . import arrangements, compositions, products, reductions, views
from .operands import as_lazy, axis_of, lazy_array, lazy_result, number, operand, traced_type
from .ufuncs import apply as apply_ufunc

Handler = Callable[..., Any]
Building = Callable[..., Expression]


def is_traced(function: Any) -> bool:
    """Whether a function is one of NumPy's that are traced."""
    try:
        return function in _BUILDING or function in _HANDLERS
    except TypeError:
        return False


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
        expression = _built(trace, function, build, arguments, options)
        return lazy_array(trace, expression, not expression.shape and function not in _ARRAYS)
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
    values = [_read(trace, argument) for argument in arguments]
    named = {name: _read(trace, option) for name, option in options.items()}
    key: list[Any] = [function]
    operands: list[Expression] = []
    for name, argument in (*enumerate(values), *named.items()):
        kind = type(argument)
        if kind is Expression:
            operands.append(argument)
            key += [name, argument]
        elif kind in _KEY_TYPES:
            # by its text: 0.0 isn't -0.0, and True isn't 1
            key += [name, kind, repr(argument)]
        else:
            return build(trace, *values, **named)
    if not operands:
        return build(trace, *values, **named)
    return remembered(
        operands[0], tuple(key), lambda: build(trace, *values, **named), *operands[1:]
    )


_KEY_TYPES = frozenset([int, float, bool, str, type(None), type(np._NoValue)])


# What gives an array where others give a number.
_ARRAYS = frozenset([np.where, np.tensordot])


def _read(trace: Trace, value: Any) -> Any:
    traced = is_lazy(value) or type(value) is np.ndarray or isinstance(value, np.generic)
    return operand(trace, value) if traced else value


def _reducing(name: str) -> Building:
    def build(trace: Trace, a: Any, *arguments: Any, **options: Any) -> Expression:
        bound = reductions.bound_arguments(name, arguments, options)
        return reductions.expression_of(name, operand(trace, a), bound)

    return build


def _where(trace: Trace, condition: Any, x: Any = None, y: Any = None) -> Expression:
    if x is None or y is None:
        raise UnsupportedError("np.where with one argument")
    kept = traced_type(*(_weak_type(trace, operand) for operand in (x, y)))
    branches = [_as(trace, operand, kept) for operand in (x, y)]
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
    clipped = cast(x, kept.name)
    if low is None and high is None:
        clipped = elementwise("Identity", clipped)
    if (
        low is not None
    ):  # the bound comes first: so clip is known from what others write (tracing/prepare.py)
        clipped = _fitting("Max", _as(trace, low, kept.name), clipped, dtype=kept.name)
    if high is not None:
        clipped = _fitting("Min", clipped, _as(trace, high, kept.name), dtype=kept.name)
    return clipped


def _dot(trace: Trace, a: Any, b: Any) -> Expression:
    left, right = operand(trace, a), operand(trace, b)
    if not left.shape or not right.shape:
        kept = common_type(left.dtype, right.dtype)
        if np.dtype(kept).kind != "f":
            raise UnsupportedError("whole numbers")
        return elementwise("Mul", cast(left, kept), cast(right, kept))
    if len(left.shape) > 2 or len(right.shape) > 2:
        last = len(left.shape) - 1
        return products.over_axes(left, right, [last], [max(len(right.shape) - 2, 0)])
    return products.product(left, right)


def _vdot(trace: Trace, a: Any, b: Any) -> Expression:
    left, right = operand(trace, a), operand(trace, b)
    if left.shape != right.shape or not left.shape:
        raise UnsupportedError("np.vdot of different shapes")
    every = range(len(left.shape))
    return products.over_axes(left, right, every, every)


def _inner(trace: Trace, a: Any, b: Any) -> Expression:
    left, right = operand(trace, a), operand(trace, b)
    if not left.shape or not right.shape:
        raise UnsupportedError("np.inner of a number")
    return products.over_axes(left, right, [len(left.shape) - 1], [len(right.shape) - 1])


def _tensordot(trace: Trace, a: Any, b: Any, axes: Any = 2) -> Expression:
    left, right = operand(trace, a), operand(trace, b)
    ranks = len(left.shape), len(right.shape)
    if type(axes) is int and 0 <= axes <= min(ranks):
        pair: Any = (range(ranks[0] - axes, ranks[0]), range(axes))
    elif isinstance(axes, tuple | list) and len(axes) == 2:
        pair = [axis if isinstance(axis, tuple | list) else [axis] for axis in axes]
    else:
        raise UnsupportedError("axes that NumPy refuses")
    summed_axes: list[list[int]] = []
    for operand_axes, rank in zip(pair, ranks, strict=True):
        summed_axes.append(
            [axis_of(axis, rank, "axes that NumPy refuses") for axis in operand_axes]
        )
        if len(set(summed_axes[-1])) < len(summed_axes[-1]):
            raise UnsupportedError("axes that NumPy refuses")
    if len(summed_axes[0]) != len(summed_axes[1]):
        raise UnsupportedError("axes that NumPy refuses")
    return products.over_axes(left, right, *summed_axes)


def _multi_dot(trace: Trace, arrays: Any) -> Expression:
    """Products from left to right: their cheapest order is found with the region."""
    if not isinstance(arrays, tuple | list) or len(arrays) < 2:
        raise UnsupportedError("fewer than two arrays")
    product, *others = [operand(trace, array) for array in arrays]
    ends = (len(product.shape), len(others[-1].shape))
    if any(len(factor.shape) != 2 for factor in others[:-1]) or not {1, 2}.issuperset(ends):
        raise UnsupportedError("operands that are no matrices")
    for factor in others:
        product = products.product(product, factor)
    return product


def _einsum(trace: Trace, *arguments: Any, **options: Any) -> Any:
    """Return np.einsum; what only permutes the axes of an array is a view of it."""
    if len(arguments) == 2 and is_lazy(arguments[1]):
        order = products.permutation(arguments[0], arguments[1].ndim)
        if order is not None:
            return views.transpose(arguments[1], order)
    expression = _built(trace, np.einsum, products.einsum, arguments, options)
    return lazy_result(trace, expression)


def _outer(trace: Trace, a: Any, b: Any) -> Any:
    left, right = as_lazy(a), as_lazy(b)
    if left.ndim != 1 or right.ndim != 1:
        raise UnsupportedError("np.outer beyond vectors")
    column = views.expand_dims(left, 1)
    row = views.expand_dims(right, 0)
    return apply_ufunc(trace, np.multiply, "__call__", (column, row), {})


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
    return as_lazy(a).ravel(order)


def _round(trace: Trace, a: Any, decimals: Any = 0, out: Any = None) -> Expression:
    """Return np.round: a whole number of 10 ** -decimals, as NumPy computes it."""
    x = operand(trace, a)
    if out is not None or type(decimals) is not int or x.dtype not in FLOATS:
        raise UnsupportedError("out=, or whole numbers")
    if not decimals:
        return elementwise("Round", x)
    unit = constant(10.0 ** abs(decimals), x.dtype)
    scale, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return elementwise(back, elementwise("Round", elementwise(scale, x, unit)), unit)


def _fix(trace: Trace, x: Any, out: Any = None) -> Expression:
    value = operand(trace, x)
    if out is not None or value.dtype not in FLOATS:
        raise UnsupportedError("out=, or whole numbers")
    return compositions.trunc(value)


def _nan_to_num(
    trace: Trace, x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Expression:
    value = operand(trace, x)
    replacements = [number for number in (nan, posinf, neginf) if number is not None]
    if copy is not True or any(type(number) not in (int, float) for number in replacements):
        raise UnsupportedError("copy=, or what is no number")
    if value.dtype not in FLOATS:
        return elementwise("Identity", value)
    return compositions.nan_to_num(value, nan, posinf, neginf)


def _full_like(trace: Trace, a: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    if type(fill_value) not in (bool, int, float):
        raise UnsupportedError("no number to fill it with")
    return _filled(fill_value)(trace, a, dtype, **options)


def _count_nonzero(trace: Trace, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    lazy = as_lazy(a)
    if axis is None and not keepdims:
        # a number at once, and found quickly in what is there
        raise UnsupportedError("a number")
    which = lazy if lazy.dtype == np.dtype(bool) else lazy.astype(bool)
    return which.sum(axis=axis, dtype=np.intp, keepdims=keepdims)


def _average(trace: Trace, a: Any, axis: Any = None, weights: Any = None, **options: Any) -> Any:
    """Return np.average without weights, or with one for each place along an axis.

    Whether the weights add up to 0 is asked at once, as NumPy does, which raises an exception then.
    """
    lazy = as_lazy(a)
    keepdims = {name: option for name, option in options.items() if name == "keepdims"}
    if options.get("returned") or keepdims.keys() | {"returned"} != options.keys() | {"returned"}:
        raise UnsupportedError("returned=")
    if keepdims.get("keepdims") is np._NoValue:
        keepdims = {}
    if not lazy.size:
        raise UnsupportedError("an average of nothing")
    if weights is None:
        return lazy.mean(axis, **keepdims)
    if not is_lazy(weights) and type(weights) is not np.ndarray:
        raise UnsupportedError("weights that are no array")
    kept = np.result_type(lazy.dtype, weights.dtype, *["f8"] * (lazy.dtype.kind in "biu"))
    if weights.shape != lazy.shape:
        if type(axis) is not int or weights.shape != lazy.shape[axis:][:1]:
            raise UnsupportedError("weights of another shape")
        spread: list[slice | None] = [None] * lazy.ndim
        spread[axis] = slice(None)
        weights = weights[tuple(spread)]
    total = weights.sum(axis=axis, dtype=kept, **keepdims)
    if np.any(total == 0.0):
        raise UnsupportedError("weights that add up to 0")
    return np.multiply(lazy, weights, dtype=kept).sum(axis, **keepdims) / total


# Those that depend on what they are given alone.
_BUILDING: Mapping[Any, Building] = {
    **{getattr(np, name): _reducing(name) for name in reductions.FUNCTIONS},
    np.amax: _reducing("max"),
    np.amin: _reducing("min"),
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.tensordot: _tensordot,
    np.linalg.multi_dot: _multi_dot,
    np.linalg.norm: reductions.norm,
    np.round: _round,
    np.fix: _fix,
    np.nan_to_num: _nan_to_num,
    **arrangements.BUILDING,
}

# Views, which share memory, and what doesn't wait.
_HANDLERS: Mapping[Any, Handler] = {
    np.outer: _outer,
    np.transpose: lambda trace, a, axes=None: as_lazy(a).transpose(axes),
    np.reshape: lambda trace, a, shape, order="C": as_lazy(a).reshape(shape, order=order),
    np.ravel: _ravel,
    np.squeeze: lambda trace, a, axis=None: views.squeeze(as_lazy(a), axis),
    np.expand_dims: lambda trace, a, axis: views.expand_dims(as_lazy(a), axis),
    np.copy: lambda trace, a, order="K", subok=False: views.copied(as_lazy(a)),
    np.einsum: _einsum,
    np.average: _average,
    np.count_nonzero: _count_nonzero,
    np.full_like: _full_like,
    np.zeros_like: _filled(0),
    np.ones_like: _filled(1),
    np.empty_like: _filled(0),
    **arrangements.HANDLERS,
    np.shape: lambda trace, a: a.shape,
    np.ndim: lambda trace, a: a.ndim,
    np.size: lambda trace, a, axis=None: a.size if axis is None else a.shape[axis],
}
