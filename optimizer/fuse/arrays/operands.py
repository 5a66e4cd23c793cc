"""Operands of NumPy's functions as expressions, and expressions as lazy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracing.expressions import Expression, Thunk, constant
from ..tracing.marker_types import is_lazy
from ..tracing.trace import DEPTH, Trace, UnsupportedError

# The types that NumPy gives Python's numbers where it makes arrays of them.
_NUMBERS = {kind: np.asarray(kind(0)).dtype.name for kind in (bool, int, float)}
FLOATS = frozenset(["float32", "float64"])


def lazy_array(trace: Trace, expression: Expression, scalar: bool = False) -> Any:
    """Return a lazy array for an expression."""
    lazy = trace.kind(trace, Thunk(expression, trace.epoch), scalar)
    if expression.depth > DEPTH:
        trace.flush(f"a chain of {DEPTH} operators")
    return lazy


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
