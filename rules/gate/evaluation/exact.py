"""Arithmetic that doesn't round, to be sure of a difference: two numbers that don't meet differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Array, NoValueError
from .intervals import BINARY, DECIDE, NOTHING, PI, UNARY, step


class Exact:
    """Real numbers as Python's integers and Fractions, or intervals of them, in object arrays."""

    name = "exact"
    largest = 60_000

    def __init__(self, tolerance: Fraction = Fraction(1, 10**7)) -> None:
        """`tolerance`: numbers that differ by less of their size may do so by a rounded literal."""
        self.tolerance = tolerance

    def real(self, array: Any) -> Array:
        """Known numbers; a float is the decimal fraction that it is printed as."""
        values = np.asarray(array)
        result = np.empty(values.shape, object)
        result.reshape(-1)[:] = [exact_number(value) for value in values.reshape(-1).tolist()]
        return result

    def pi(self) -> Array:
        """An enclosure of pi."""
        result = np.empty((), object)
        result[()] = PI
        return result

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive, and where it has a value; UncertainError where that can't be told."""
        if len(arguments) == 1 and function in UNARY:
            computed = np.frompyfunc(UNARY[function], 1, 1)(arguments[0])
        elif len(arguments) == 2 and function in BINARY:
            computed = np.frompyfunc(BINARY[function], 2, 1)(*arguments)
        else:
            raise NoValueError(f"{function} is not computed exactly")
        results = np.asarray(computed, object)
        has_value = np.asarray(np.frompyfunc(lambda v: v is not NOTHING, 1, 1)(results), bool)
        if has_value.all():
            return results, True
        zero = np.zeros((), object)
        return np.where(has_value, results, zero), has_value

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values; UncertainError where enclosures overlap."""
        return np.asarray(np.frompyfunc(DECIDE[relation], 2, 1)(left, right), bool)

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        join = {"sum": "+", "prod": "*", "max": "max", "min": "min"}[kind]
        combine = np.frompyfunc(_joining(kind, BINARY[join]), 2, 1)
        result = np.asarray(body, object)
        for _ in axes:
            result = np.asarray(combine.reduce(result, axis=0), object)
        nothing = np.asarray(np.frompyfunc(lambda value: value is None, 1, 1)(result), bool)
        return np.where(nothing, np.zeros((), object), result)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction; for an extreme of what doesn't count, a mark."""
        return {"sum": 0, "prod": 1}.get(kind)

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Rounded towards 0; UncertainError where that can't be told."""
        whole = np.frompyfunc(step(math.trunc), 1, 1)(array)
        try:
            return np.asarray(whole, np.int64)
        except OverflowError:
            raise NoValueError("an integer beyond 64 bits is not computed with") from None


def _joining(kind: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    if kind in ("sum", "prod"):
        return function

    def extreme(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return function(a, b)

    return extreme


def exact_number(value: Any) -> Any:
    """A number as an integer or a Fraction; a float as the decimal that it is printed as."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) or value is None:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValueError(f"{value} is no real number")
    fraction = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    return fraction.numerator if fraction.denominator == 1 else fraction
