"""Operands of NumPy's functions as expressions, what is asked of them, and results as lazy ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracing.expressions import TRACED, Expression, Thunk, constant
from ..tracing.marker_types import is_lazy
from ..tracing.trace import DEPTH, Trace, UnsupportedError

# The types that NumPy gives Python's numbers where it makes arrays of them.
_NUMBERS = {kind: np.asarray(kind(0)).dtype.name for kind in (bool, int, float)}


def lazy_array(trace: Trace, expression: Expression, scalar: bool = False) -> Any:
    """Return a lazy array for an expression."""
    lazy = trace.kind(trace, Thunk(expression, trace.epoch), scalar)
    if expression.depth > DEPTH:
        trace.flush(f"a chain of {DEPTH} operators")
    return lazy


def lazy_result(trace: Trace, expression: Expression) -> Any:
    """Return what a function gives: an array, or a number where there are no axes."""
    return lazy_array(trace, expression, scalar=not expression.shape)


def as_lazy(value: Any) -> Any:
    """Return a lazy array as it is; raises UnsupportedError for anything else."""
    if not is_lazy(value):
        raise UnsupportedError("an operand that isn't traced")
    return value


def axis_of(axis: Any, rank: int, refusal: str = "an axis that NumPy refuses") -> int:
    """Return an axis counted from the front; raises UnsupportedError, which says `refusal`."""
    if type(axis) is not int or not -rank <= axis < rank:
        raise UnsupportedError(refusal)
    return axis % rank


def traced_type(*types: Any, description: str = "the type") -> str:
    """Return the type in which NumPy computes with values of some types.

    Raises UnsupportedError for one that isn't traced, which is called `description`.
    """
    kept = np.result_type(*types).name
    if kept not in TRACED:
        raise UnsupportedError(f"{description} {kept}")
    return kept


def operand(trace: Trace, value: Any) -> Expression:
    """Return an operand as an expression; raises UnsupportedError for what must be read at once."""
    if type(value) is Expression:
        return value
    if is_lazy(value):
        if value._trace is not trace:
            return trace.read(trace.captured(value._value("another function")))
        family = value._family
        if family is not None and family.exposed:
            return trace.read(trace.captured(value._thunk.value))
        return trace.read(value._thunk)
    if type(value) in _NUMBERS:
        try:
            return constant(value, _NUMBERS[type(value)])
        except OverflowError as error:
            raise UnsupportedError("a number that is too large") from error
    return trace.operand(value)


def number(value: Any, dtype: str) -> Expression:
    """Return a Python number as a constant of the type that NumPy gives it."""
    exact = np.asarray(value, dtype=dtype)
    if np.dtype(dtype).kind in "iu" and exact.item() != value:
        raise UnsupportedError(f"{value} isn't a number of type {dtype}")
    return constant(exact.item(), dtype)
