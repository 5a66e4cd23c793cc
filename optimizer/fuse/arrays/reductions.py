"""Reductions of lazy arrays, as methods, as functions, as ufunc.reduce, and as norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..program.dag import FLOATS
from ..tracing import eager
from ..tracing.eager import raise_if_errors_are_asked_for
from ..tracing.expressions import (
    TRACED,
    Expression,
    cast,
    constant,
    elementwise,
    reduction,
    remembered,
)
from ..tracing.trace import Trace, UnsupportedError
from .operands import lazy_result, operand
from .products import over_axes, reshaped

# The arguments of ndarray's methods, in order.
METHODS: Mapping[str, tuple[str, ...]] = {
    "sum": ("axis", "dtype", "out", "keepdims"),
    "prod": ("axis", "dtype", "out", "keepdims"),
    "mean": ("axis", "dtype", "out", "keepdims"),
    "max": ("axis", "out", "keepdims"),
    "min": ("axis", "out", "keepdims"),
    "any": ("axis", "out", "keepdims"),
    "all": ("axis", "out", "keepdims"),
    "var": ("axis", "dtype", "out", "ddof", "keepdims"),
    "std": ("axis", "dtype", "out", "ddof", "keepdims"),
    "argmax": ("axis", "out", "keepdims"),
    "argmin": ("axis", "out", "keepdims"),
    "cumsum": ("axis", "dtype", "out"),
}

_REDUCING: Mapping[np.ufunc, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_or: "any",
    np.logical_and: "all",
}

# Beside ndarray's methods; NumPy's functions of these names are traced, too.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    **METHODS,
    "ptp": ("axis", "out", "keepdims"),
    "nansum": ("axis", "dtype", "out", "keepdims"),
    "nanmean": ("axis", "dtype", "out", "keepdims"),
}

_OPERATORS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}

# NumPy looks through rows of more bools than these, and at all of an array, as vectors.
_SHORT = 256


def method(lazy: Any, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return a reduction as ndarray's method of that name."""
    trace = lazy._trace
    try:
        key = (name, argument_key(arguments, options))
        return _reduced(trace, key, name, lazy, lambda: bound_arguments(name, arguments, options))
    except UnsupportedError as refusal:
        return eager.call(trace, getattr(np, name), (lazy, *arguments), options, str(refusal))


def reduce(trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return ufunc.reduce, which reduces axis 0 unless told otherwise."""
    method_options = _of_method(inputs, options)
    name = _REDUCING.get(ufunc)
    if name is None:
        _check_binary(ufunc)
        key = (ufunc, "reduce", argument_key((), method_options))
        return _traced_method(
            trace,
            key,
            inputs[0],
            lambda x: _reduced_by(ufunc, x, bound_arguments("reduce", (), method_options)),
        )
    return _reduced(
        trace,
        (name, argument_key((), method_options)),
        name,
        inputs[0],
        lambda: bound_arguments("reduce", (), method_options),
    )


def accumulate(
    trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return ufunc.accumulate, along axis 0 unless told otherwise: a node that NumPy computes."""
    method_options = _of_method(inputs, options)
    _check_binary(ufunc)
    key = (ufunc, "accumulate", argument_key((), method_options))
    return _traced_method(
        trace,
        key,
        inputs[0],
        lambda x: _accumulated(ufunc, x, bound_arguments("reduce", (), method_options)),
    )


def _of_method(inputs: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a ufunc's method over one array."""
    method_options = {"axis": 0, **options}
    out = method_options.pop("out", None)
    if len(inputs) != 1 or (out is not None and out != (None,)):
        raise UnsupportedError("out=" if len(inputs) == 1 else "more than one array")
    return method_options


def _check_binary(ufunc: np.ufunc) -> None:
    """Raise UnsupportedError for a ufunc that isn't NumPy's, or doesn't make one number of two."""
    if getattr(np, ufunc.__name__, None) is not ufunc:
        raise UnsupportedError(f"{ufunc.__name__} is no function of NumPy's")
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature is not None:
        raise UnsupportedError(f"{ufunc.__name__} doesn't make one number of two")


def _traced_method(
    trace: Trace, key: tuple[Hashable, ...], array: Any, build: Callable[[Expression], Expression]
) -> Any:
    raise_if_errors_are_asked_for()
    x = operand(trace, array)
    expression = build(x) if key[-1] is None else remembered(x, key, lambda: build(x))
    return lazy_result(trace, expression)


def _reduced_by(ufunc: np.ufunc, x: Expression, options: Mapping[str, Any]) -> Expression:
    if x.dtype == "bool" and ufunc in (np.bitwise_or, np.bitwise_and):
        return expression_of("any" if ufunc is np.bitwise_or else "all", x, options)
    (axis,), kept = _along(ufunc, "reduce", x, options)
    keepdims = bool(options.get("keepdims", False))
    call_options = (("axis", axis), ("keepdims", keepdims))
    attributes = (("function", f"numpy.{ufunc.__name__}.reduce"), ("options", call_options))
    return reduction("Call", x, (axis,), keepdims, kept, attributes)


def _accumulated(ufunc: np.ufunc, x: Expression, options: Mapping[str, Any]) -> Expression:
    (axis,), kept = _along(ufunc, "accumulate", x, options)
    if ufunc is np.add:
        return Expression("CumSum", (cast(x, kept),), x.shape, kept, (("axis", axis),))
    call_options = (("axis", axis),)
    attributes = (("function", f"numpy.{ufunc.__name__}.accumulate"), ("options", call_options))
    return Expression("Call", (x,), x.shape, kept, attributes)


def _along(
    ufunc: np.ufunc, method: str, x: Expression, options: Mapping[str, Any]
) -> tuple[tuple[int, ...], str]:
    """Return the one axis along which a ufunc's method goes, and the type of what it gives."""
    axes = axes_of(options.get("axis"), len(x.shape))
    if options.get("dtype") is not None:
        raise UnsupportedError("dtype=")
    if len(axes) != 1 or not x.shape[axes[0]]:
        raise UnsupportedError("several axes, or nothing along it")
    if ufunc is np.power and np.dtype(x.dtype).kind in "iu":
        raise UnsupportedError("powers of whole numbers, which NumPy may refuse")
    try:
        kept = getattr(ufunc, method)(np.ones(2, x.dtype)).dtype
    except TypeError as error:
        raise UnsupportedError(f"{ufunc.__name__} of {x.dtype}") from error
    return axes, _traced(kept)


def bound_arguments(
    name: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments by name; raises UnsupportedError for those that aren't traced."""
    names = FUNCTIONS.get(name, ())
    options_by_name = dict(zip(names, arguments, strict=False)) | dict(options)
    if len(arguments) > len(names):
        raise UnsupportedError("arguments beyond keepdims")
    if options_by_name.pop("out", None) is not None:
        raise UnsupportedError("out=")
    if type(options_by_name.get("keepdims", False)) is not bool:
        options_by_name.pop("keepdims")  # np._NoValue
    if options_by_name.pop("where", True) is not True:
        raise UnsupportedError("where=")
    for extra in ("initial", "mean", "correction"):
        if (value := options_by_name.pop(extra, None)) is not None and value is not np._NoValue:
            raise UnsupportedError(f"{extra}=")
    unknown = set(options_by_name) - {"axis", "dtype", "keepdims", "ddof"}
    if unknown:
        raise UnsupportedError(f"{min(unknown)}=")
    return options_by_name


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return axes ascending and not negative; raises UnsupportedError for what NumPy refuses."""
    if axis is None:
        return tuple(range(rank))
    requested_axes = axis if isinstance(axis, tuple) else (axis,)
    if any(isinstance(a, bool) or not isinstance(a, int | np.integer) for a in requested_axes):
        raise UnsupportedError("an axis that is no number")
    if any(not -rank <= a < rank for a in requested_axes):
        raise UnsupportedError("an axis that isn't there")
    axes = tuple(sorted(int(a) % rank for a in requested_axes))
    if len(set(axes)) != len(axes):
        raise UnsupportedError("an axis twice")
    return axes


def argument_key(arguments: Sequence[Any], options: Mapping[str, Any]) -> Hashable:
    """Return arguments as a key that tells them apart by their types too; None if that can't be."""
    if not arguments and not options:
        return ()
    key = (
        *((type(argument), argument) for argument in arguments),
        *((name, type(option), option) for name, option in options.items()),
    )
    for *_, part in key:
        # of tuples the types within count too, and floats may be equal that aren't the same
        if type(part) is tuple and not all(type(item) is int for item in part):
            return None
        if type(part) not in _KEY_TYPES and not isinstance(part, type | np.dtype):
            return None
    return key


_KEY_TYPES = frozenset([int, bool, str, type(None), tuple, type(np._NoValue)])


def _reduced(
    trace: Trace,
    key: tuple[str, Hashable],
    name: str,
    array: Any,
    options: Callable[[], Mapping[str, Any]],
) -> Any:
    if trace.closed:
        raise UnsupportedError("after the call")
    raise_if_errors_are_asked_for()
    trace.step()
    x = operand(trace, array)

    def build() -> Expression:
        return expression_of(name, x, options())

    expression = build() if key[1] is None else remembered(x, key, build)
    return lazy_result(trace, expression)


def expression_of(
    name: str, x: Expression, options: Mapping[str, Any], compared: bool = False
) -> Expression:
    """Return a reduction as an expression; raises UnsupportedError where it can't wait.

    Sparse bools are counted as fused values only where they were `compared`: others SciPy has.
    """
    if name in ("argmax", "argmin", "cumsum"):
        return _call(name, x, options)
    if name in ("any", "all"):
        return _truth(name, x, options)
    if name in ("nansum", "nanmean"):
        return _without_nan(name[3:], x, options)
    axes = axes_of(options.get("axis"), len(x.shape))
    keepdims = bool(options.get("keepdims", False))
    dtype = options.get("dtype")
    if name in ("max", "min", "ptp"):
        if any(x.shape[axis] == 0 for axis in axes):
            raise UnsupportedError("the largest of nothing")
        if x.dtype == "bool":
            raise UnsupportedError("bools")
        if name == "ptp":
            ends = [reduction(op, x, axes, keepdims) for op in ("ReduceMax", "ReduceMin")]
            return elementwise("Sub", *ends)
        return reduction(_OPERATORS[name], x, axes, keepdims)
    if name in ("sum", "prod"):
        kept = _accumulator(name, x.dtype) if dtype is None else _traced(dtype)
        counts = name == "sum" and x.dtype == "bool" and (x.layout == "dense" or compared)
        if counts and kept == np.dtype(np.intp).name:
            return cast(_counted(x, axes, keepdims), kept)
        return reduction(_OPERATORS[name], cast(x, kept), axes, keepdims)
    kept = _averaging(x.dtype) if dtype is None else _traced(dtype)
    if np.dtype(kept).kind != "f":
        raise UnsupportedError("a mean of whole numbers")
    if name == "mean":
        return reduction("ReduceMean", cast(x, kept), axes, keepdims)
    ddof = options.get("ddof", 0)
    if type(ddof) not in (int, float):
        raise UnsupportedError("ddof=")
    values = cast(x, kept)
    centered = elementwise("Sub", values, reduction("ReduceMean", values, axes, True))
    squares = reduction("ReduceSum", elementwise("Mul", centered, centered), axes, keepdims)
    count = max(math.prod(x.shape[axis] for axis in axes) - ddof, 0)
    variance = elementwise("Div", squares, constant(count, kept))
    return variance if name == "var" else elementwise("Sqrt", variance)


def _truth(name: str, x: Expression, options: Mapping[str, Any]) -> Expression:
    """Return any or all, counted along one of many short rows: in others NumPy is as quick."""
    axes = axes_of(options.get("axis"), len(x.shape))
    short = len(axes) < len(x.shape) and x.shape[-1] <= _SHORT
    if x.op == "Input" or not short or options.get("dtype") is not None:
        return _call(name, x, options)
    asked = cast(x, "bool")
    if name == "all":
        asked = elementwise("Not", asked, dtype="bool")
    count = _counted(asked, axes, bool(options.get("keepdims", False)))
    none = constant(0, count.dtype)
    return elementwise("Greater" if name == "any" else "Equal", count, none, dtype="bool")


def _counted(asked: Expression, axes: tuple[int, ...], keepdims: bool) -> Expression:
    """Return how many bools are true, in the floating-point type that is exact for so many.

    Kernels compare and add such numbers as vectors, whole ones of 64 bits NumPy adds.
    """
    most = math.prod(asked.shape[axis] for axis in axes)
    exact = cast(asked, "float32" if most <= 1 << 24 else "float64")
    return reduction("ReduceSum", exact, axes, keepdims)


def _without_nan(name: str, x: Expression, options: Mapping[str, Any]) -> Expression:
    """Return the sum or the mean of what is no NaN."""
    if x.dtype not in FLOATS or options.get("dtype") is not None:
        raise UnsupportedError("dtype=, or whole numbers")
    missing = elementwise("IsNaN", x, dtype="bool")
    numbers = elementwise("Where", missing, constant(0, x.dtype), x)
    total = expression_of("sum", numbers, options)
    if name == "sum":
        return total
    there = expression_of("sum", elementwise("Not", missing, dtype="bool"), options)
    return elementwise("Div", total, cast(there, x.dtype))


def _traced(dtype: Any) -> str:
    name: str = np.dtype(dtype).name
    if name not in TRACED:
        raise UnsupportedError(f"dtype={name}")
    return name


@lru_cache(maxsize=64)
def _accumulator(name: str, dtype: str) -> str:
    """Return the type in which NumPy adds up or multiplies elements of a type."""
    ufunc = np.add if name == "sum" else np.multiply
    total: Any = ufunc.reduce(np.zeros(1, dtype))
    name_of: str = total.dtype.name
    return name_of


def _averaging(dtype: str) -> str:
    return dtype if dtype in FLOATS else "float64"


def _call(name: str, x: Expression, options: Mapping[str, Any]) -> Expression:
    """Return a reduction that NumPy computes when its turn comes."""
    rank = len(x.shape)
    axis = options.get("axis")
    axes = axes_of(axis, rank)
    keepdims = bool(options.get("keepdims", False))
    if options.get("dtype") is not None:
        raise UnsupportedError("dtype=")
    if name == "cumsum":
        if axis is None and rank != 1:
            x, axes = reshaped(x, (math.prod(x.shape),)), (0,)
        if len(axes) != 1 or (rank and isinstance(axis, tuple)):
            raise UnsupportedError("a running sum over several axes")
        kept = cast(x, _accumulator("sum", x.dtype))
        return Expression("CumSum", (kept,), x.shape, kept.dtype, (("axis", axes[0]),))
    dtype = "bool"
    if name in ("argmax", "argmin"):
        if isinstance(axis, tuple) or x.shape == () or any(x.shape[a] == 0 for a in axes):
            raise UnsupportedError("the place of the largest of nothing")
        dtype = np.dtype(np.intp).name
    wanted: list[tuple[str, Any]] = []
    if axis is not None:
        wanted.append(("axis", axes[0] if len(axes) == 1 else axes))
    if keepdims:
        wanted.append(("keepdims", True))
    attributes = (("function", f"numpy.{name}"), ("options", tuple(wanted)))
    return reduction("Call", x, axes, keepdims, dtype, attributes)


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
    if value.dtype not in FLOATS:
        value = cast(value, "float64")
    if type(keepdims) is not bool or type(ord) not in (type(None), int, float, str):
        raise UnsupportedError("a norm that NumPy refuses")
    axes = axes_of(axis, len(value.shape))
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
    rows, columns = axes if axis is None else (axis % len(value.shape) for axis in axis)
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
