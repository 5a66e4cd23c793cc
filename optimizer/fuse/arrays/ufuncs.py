"""NumPy's elementwise functions as operators, with NumPy's own rules of types."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..program.dag import FLOATS
from ..program.evaluate import BINARY, UNARY
from ..tracing import eager
from ..tracing.eager import raise_if_errors_are_asked_for
from ..tracing.expressions import TRACED, Expression, cast, elementwise, remembered
from ..tracing.marker_types import is_lazy
from ..tracing.trace import Trace, UnsupportedError
from . import compositions, reductions, views
from .operands import lazy_array, lazy_result, number, operand
from .products import product

_EVALUATED: Sequence[tuple[str, Any]] = [*UNARY.items(), *BINARY.items()]
# What evaluates an operator is traced as that operator; products and logic have their own ways.
_OPERATORS: Mapping[np.ufunc, str] = {
    **{
        function: name
        for name, function in _EVALUATED
        if isinstance(function, np.ufunc) and name not in ("MatMul", "And", "Or", "Xor", "Not")
    },
    np.float_power: "Pow",
    np.remainder: "Mod",
    np.fmod: "Mod",
    np.fabs: "Abs",
}

# On bools; on numbers the bitwise ones are left to NumPy, and the logical ones ask what isn't 0.
_LOGICAL: Mapping[np.ufunc, str] = {
    np.logical_and: "And",
    np.logical_or: "Or",
    np.logical_xor: "Xor",
    np.logical_not: "Not",
    np.bitwise_and: "And",
    np.bitwise_or: "Or",
    np.bitwise_xor: "Xor",
    np.invert: "Not",
}
_BITWISE = frozenset([np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert])

# Of SciPy, by name: they are asked for through the same protocol, so SciPy needn't be loaded.
_SPECIAL: Mapping[str, str] = {
    "expit": "Sigmoid",
    "erf": "Erf",
    "expm1": "Expm1",
    "log1p": "Log1p",
    "exp2": "Exp2",
}

_PLAIN = frozenset([np.ndarray, int, float, bool])

_DEFAULTS: Mapping[str, Any] = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}


# Methods of ufuncs that NumPy has to itself, and what to do.
_LEFT: Mapping[str, str] = {
    "at": "it writes into its argument; np.bincount or a sparse matrix's product adds up, too",
    "reduceat": "groups of any length have no kernel; where all are as long, reshape and reduce",
    "outer": "outer with options: take x[:, None] and y, and the function itself",
}


def apply(
    trace: Trace,
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Answer NumPy's question about a ufunc with a lazy array among its operands."""
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    if any(map(_overrides, inputs)):
        trace.flush("another type answers")
        return function(*eager.real(tuple(inputs)), **eager.real(dict(options)))
    try:
        if trace.closed:
            raise UnsupportedError("after the call")
        trace.step()
        if method in ("reduce", "accumulate"):
            take = reductions.reduce if method == "reduce" else reductions.accumulate
            return take(trace, ufunc, inputs, options)
        if method == "outer" and not options:
            return _outer(trace, ufunc, inputs)
        if method != "__call__":
            raise UnsupportedError(_LEFT.get(method, f"{method} with options"))
        return _call(trace, ufunc, inputs, options)
    except UnsupportedError as refusal:
        return eager.call(trace, function, inputs, options, str(refusal))


def operator(trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Answer an operator of Python's between operands of which none answers for itself."""
    try:
        if trace.closed:
            raise UnsupportedError("after the call")
        raise_if_errors_are_asked_for()
        trace.step()
        expression = expression_of(trace, ufunc, inputs)
        return lazy_result(trace, expression)
    except UnsupportedError as refusal:
        return eager.call(trace, ufunc, inputs, {}, str(refusal))


def _overrides(value: Any) -> bool:
    """Whether another type answers for itself: NumPy then asks it, with real arrays."""
    kind = type(value)
    if kind in _PLAIN or is_lazy(value) or kind.__module__ == "numpy":
        return False
    if hasattr(kind, "_tensolog_real"):
        return False
    answers = getattr(kind, "__array_ufunc__", None)
    return answers is not None and answers is not np.ndarray.__array_ufunc__


def _call(trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    raise_if_errors_are_asked_for()
    if not options:
        expression = expression_of(trace, ufunc, inputs)
        return lazy_result(trace, expression)
    out = options.get("out")
    for name, value in options.items():
        if name == "dtype" and value is not None:
            continue
        if name != "out" and (name not in _DEFAULTS or value is not _DEFAULTS[name]):
            raise UnsupportedError(f"{name}=")
    expression = expression_of(trace, ufunc, inputs, options.get("dtype"))
    if out is not None:
        return _into(trace, out, expression)
    return lazy_result(trace, expression)


def _outer(trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Return ufunc.outer: each element of the first operand with each of the second."""
    raise_if_errors_are_asked_for()
    if len(inputs) != 2 or ufunc.signature is not None:
        raise UnsupportedError("ufunc.outer of other than two operands")
    first, second = (operand(trace, input_) for input_ in inputs)
    if first.shape and second.shape:
        rank = len(first.shape)
        gaps, column = tuple(range(rank, rank + len(second.shape))), first
        first = remembered(column, ("outer", gaps), lambda: views.with_axes(column, gaps))
    expression = expression_of(trace, ufunc, (first, second))
    return lazy_result(trace, expression)


def _into(trace: Trace, out: Any, expression: Expression) -> Any:
    """Write a result into a lazy array: for one without views it simply means another value."""
    target = out[0] if type(out) is tuple and len(out) == 1 else out
    if type(target) is not trace.kind or target._trace is not trace or target._family is not None:
        raise UnsupportedError("a result is written into memory that others see")
    if target.shape != expression.shape:
        raise UnsupportedError("a result is written into another shape")
    if not np.can_cast(expression.dtype, target.dtype, "same_kind"):
        raise UnsupportedError("a result is written into another type")
    dtype = target._thunk.kind.dtype
    target._thunk = trace.thunk_of(
        remembered(expression, ("as", dtype), lambda: cast(expression, dtype))
    )
    trace.add(target)
    return target


# Whole numbers below are exact in each floating-point type.
_EXACT = 1 << 24


def expression_of(
    trace: Trace, ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any = None
) -> Expression:
    """Return a ufunc applied to operands; raises UnsupportedError where it can't wait.

    It is the one of before where the operands are: of Python's numbers the type and the place
    count, so that a step size may change.
    """
    key: list[Any] = [ufunc, dtype]
    last: Expression | None = None
    for argument in inputs:
        kind = type(argument)
        if kind is trace.kind and argument._thunk.epoch == trace.epoch:
            last = argument._thunk.expression  # as operand says
        elif kind is float or kind is int:
            placed = kind is float or -_EXACT < argument < _EXACT
            key.append((kind, trace.record.number(argument)) if placed else (None, argument))
            continue
        else:
            last = operand(trace, argument)
        key.append(last)
    identity = tuple(key)
    memoized = None if last is None else last.following.get(identity)
    if memoized is not None:
        return memoized
    operands = [
        argument if type(part) is tuple else part
        for argument, part in zip(inputs, identity[2:], strict=True)
    ]
    expression, by_place = _applied(trace, ufunc, operands, dtype)
    if last is None or any(
        type(operand) is Expression and not operand.steady for operand in operands
    ):
        return expression
    if not by_place:
        identity += tuple(
            [repr(operand) for operand in operands if type(operand) is not Expression]
        )
    return remembered(last, identity, lambda: expression)


def _applied(
    trace: Trace, ufunc: np.ufunc, operands: Sequence[Any], dtype: Any
) -> tuple[Expression, bool]:
    """Return a ufunc of expressions and Python's numbers, and whether those all have places."""
    if ufunc is np.matmul:
        if dtype is not None or any(type(operand) is not Expression for operand in operands):
            raise UnsupportedError("dtype=" if dtype is not None else "a product with a number")
        return product(*operands), True
    if ufunc.signature is not None:
        raise UnsupportedError("a function of more than elements")
    if ufunc.nout != 1 or len(operands) != ufunc.nin:
        raise UnsupportedError("several results")
    types = [
        operand.dtype if type(operand) is Expression else type(operand) for operand in operands
    ]
    loop, direct = _loop(ufunc, tuple(types), dtype)
    try:
        ready: list[Expression] = []
        by_place = True
        for operand, name in zip(operands, loop, strict=False):
            if type(operand) is Expression:
                ready.append(cast(operand, name))
            elif name in FLOATS and (type(operand) is float or -_EXACT < operand < _EXACT):
                ready.append(trace.places.number(trace.record.number(operand), name))
            else:
                ready.append(number(operand, name))
                by_place = False
        if direct:
            return elementwise(direct, *ready, dtype=loop[-1]), by_place
        return _operator(ufunc, ready, loop[-1]), by_place
    except (ValueError, OverflowError) as error:
        raise UnsupportedError("operands that don't fit") from error


@lru_cache(maxsize=1024)
def _loop(ufunc: np.ufunc, types: tuple[Any, ...], dtype: Any) -> tuple[tuple[str, ...], str]:
    """Return the types that NumPy computes in, of operands and result, and the operator.

    That is the one that means just the same; "" where _operator knows more. Raises UnsupportedError
    for types that the function doesn't take or that aren't traced.
    """
    dtypes = [np.dtype(type_) if isinstance(type_, str) else type_ for type_ in types]
    chosen: Any = {} if dtype is None else {"signature": (*[None] * ufunc.nin, np.dtype(dtype))}
    try:
        loop = tuple(dtype.name for dtype in ufunc.resolve_dtypes((*dtypes, None), **chosen))
    except TypeError as error:
        raise UnsupportedError("a type that the function doesn't take") from error
    for name in loop:
        if name not in TRACED:
            raise UnsupportedError(f"the type {name}")
    op = _OPERATORS.get(ufunc, "")
    plain = op and op != "Mod" and np.dtype(loop[0]).kind == "f"
    return loop, op if plain else ""


def _operator(ufunc: np.ufunc, operands: list[Expression], dtype: str) -> Expression:
    if ufunc in _LOGICAL:
        if ufunc in _BITWISE and any(operand.dtype != "bool" for operand in operands):
            return _left_to_numpy(ufunc, operands, dtype)
        return elementwise(
            _LOGICAL[ufunc], *(cast(operand, "bool") for operand in operands), dtype="bool"
        )
    if ufunc is np.square and operands[0].dtype != "bool":
        return elementwise("Mul", operands[0], operands[0])
    if ufunc in (np.positive, np.conjugate):
        return elementwise("Identity", operands[0])
    kind = np.dtype(operands[0].dtype).kind
    composed = _composed(ufunc) if kind == "f" else None
    # of what is there NumPy asks it in one pass, as vectors
    if composed is not None and not (ufunc is np.isfinite and operands[0].op == "Input"):
        return composed(*operands)
    if ufunc is np.not_equal and kind != "b":
        return elementwise("Not", elementwise("Equal", *operands, dtype="bool"))
    op = _OPERATORS.get(ufunc) or _special(ufunc)
    if op == "Pow" and kind == "i" and not _is_no_less_than_0(operands[1]):
        raise UnsupportedError("a power of whole numbers, which NumPy may refuse")
    if op is None or kind == "b" or (kind != "f" and op in ("Pow", "Reciprocal", "Mod", "Div")):
        return _left_to_numpy(ufunc, operands, dtype)
    if op in ("IsNaN", "IsInf") and kind != "f":
        return _left_to_numpy(ufunc, operands, dtype)
    attributes = (("fmod", int(ufunc is np.fmod)),) if op == "Mod" else ()
    return elementwise(op, *operands, dtype=dtype, attributes=attributes)


def _is_no_less_than_0(exponent: Expression) -> bool:
    return any(name == "value" and value >= 0 for name, value in exponent.attributes)


def _composed(ufunc: np.ufunc) -> compositions.Derived | None:
    name = ufunc.__name__
    is_numpy = getattr(np, name, None) is ufunc
    return (compositions.NUMPY if is_numpy else compositions.SPECIAL).get(name)


def _special(ufunc: np.ufunc) -> str | None:
    name = ufunc.__name__
    return _SPECIAL.get(name) if getattr(np, name, None) is not ufunc else None


def _left_to_numpy(ufunc: np.ufunc, operands: Sequence[Expression], dtype: str) -> Expression:
    """Return a node that NumPy computes when its turn comes: the region goes on around it."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        module = "numpy"
    else:
        module = "scipy.special"
        loaded = sys.modules.get(module)
        if loaded is None or getattr(loaded, name, None) is not ufunc:
            raise UnsupportedError("a function without a name of NumPy's")
    return elementwise(
        "Call", *operands, dtype=dtype, attributes=(("function", f"{module}.{name}"),)
    )


def power(base: Any, exponent: Any) -> Any:
    """Return base ** exponent: with some exponents ndarray's operator is another function.

    2 squares and, of floating-point arrays, 0.5 is the square root and -1 the reciprocal.
    """
    floating = base._thunk.kind.dtype in FLOATS
    if base._thunk.kind.dtype == "bool":
        return eager.method(base, "__pow__", (exponent,), {})
    if type(exponent) in (int, float) and not base._scalar:
        if exponent == 2:
            if floating or type(exponent) is int:
                return np.square(base)
        elif floating and exponent == 0.5:
            return np.sqrt(base)
        elif floating and exponent == -1:
            return np.reciprocal(base)
    return np.power(base, exponent)


def astype(lazy: Any, dtype: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return a copy in another type, as ndarray.astype."""
    target = np.dtype(dtype)
    plain = not arguments and set(options) <= {"copy"}
    if not plain or target.name not in TRACED or not target.isnative or lazy._trace.closed:
        return eager.method(lazy, "astype", (dtype, *arguments), options)
    if not options.get("copy", True) and target == lazy.dtype:
        return lazy
    try:
        lazy._trace.step()
        x = operand(lazy._trace, lazy)
    except UnsupportedError:
        return eager.method(lazy, "astype", (dtype, *arguments), options)

    def build() -> Expression:
        same = target.name == x.dtype
        return elementwise("Identity", x) if same else cast(x, target.name)

    return lazy_array(lazy._trace, remembered(x, ("astype", target.name), build), lazy._scalar)
