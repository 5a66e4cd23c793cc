"""Rationals between which a real number lies: what is certain of them, and their primitives.

Intervals stay points as long as only + - * / and order are used, and enclose what exp and its like
give, whatever a math library rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from .arithmetic import NoValueError


class UncertainError(NoValueError):
    """Enclosures too wide to tell whether a condition holds."""


class Interval:
    """Rationals between which a real number lies; numbers that are known are no intervals."""

    __slots__ = ("high", "low")

    def __init__(self, low: Fraction, high: Fraction) -> None:
        self.low, self.high = low, high

    def __repr__(self) -> str:
        return f"[{float(self.low)}, {float(self.high)}]"

    def __add__(self, other: Any) -> Interval:
        low, high = bounds(other)
        return Interval(self.low + low, self.high + high)

    def __radd__(self, other: Any) -> Interval:
        return self.__add__(other)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Any) -> Interval:
        low, high = bounds(other)
        return Interval(self.low - high, self.high - low)

    def __rsub__(self, other: Any) -> Interval:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Any:
        low, high = bounds(other)
        if low == high == 0:
            return 0
        corners = [self.low * low, self.low * high, self.high * low, self.high * high]
        return Interval(min(corners), max(corners))

    def __rmul__(self, other: Any) -> Any:
        return self * other


def bounds(value: Any) -> tuple[Any, Any]:
    """The ends of what a number lies between."""
    return (value.low, value.high) if isinstance(value, Interval) else (value, value)


def less(a: Any, b: Any) -> bool:
    """Whether a < b; UncertainError where the enclosures don't tell."""
    (low, high), (least, most) = bounds(a), bounds(b)
    if high < least:
        return True
    if low >= most:
        return False
    raise UncertainError("two numbers are too close to be told apart")


def equal(a: Any, b: Any) -> bool:
    """Whether a = b; UncertainError where the enclosures don't tell."""
    (low, high), (least, most) = bounds(a), bounds(b)
    if high < least or most < low:
        return False
    if low == high == least == most:
        return True
    raise UncertainError("two numbers are too close to be told apart")


DECIDE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": equal,
    "!=": lambda a, b: not equal(a, b),
    "<": less,
    "<=": lambda a, b: not less(b, a),
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: not less(a, b),
}


class _NoValue:
    """What a primitive gives where it has no value."""


NOTHING = _NoValue()
# A libm's result is off by a few units in the last place: 2**-52 each.
_SLACK = 2.0**-46


def _enclose(function: Callable[[float], float], low: Any, high: Any) -> Any:
    """The image of an interval under a function that doesn't fall."""
    try:
        ends = [function(float(low)), function(float(high))]
    except (OverflowError, ValueError):
        raise UncertainError("a number too large for its function") from None
    if not all(map(math.isfinite, ends)):
        raise UncertainError("a number too large for its function")
    first = math.nextafter(ends[0] - abs(ends[0]) * _SLACK, -math.inf)
    last = math.nextafter(ends[1] + abs(ends[1]) * _SLACK, math.inf)
    return Interval(Fraction(first), Fraction(last))


def _monotone(
    function: Callable[[float], float], exact_values: Mapping[Any, Any]
) -> Callable[[Any], Any]:
    """A rising function with its exact values at some points; others are enclosed."""

    def apply(value: Any) -> Any:
        low, high = bounds(value)
        if low == high and low in exact_values:
            return exact_values[low]
        # The next floats on either side hold whatever the conversion to float64 rounds.
        below = math.nextafter(_nearest(low), -math.inf)
        above = math.nextafter(_nearest(high), math.inf)
        return _enclose(function, below, above)

    return apply


def _nearest(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UncertainError("a number too large for its function") from None


def _sqrt(value: Any) -> Any:
    low, high = bounds(value)
    if high < 0:
        return NOTHING
    if low < 0:
        raise UncertainError("the sign under a root is not certain")
    if low == high:
        fraction = Fraction(low)
        top, bottom = math.isqrt(fraction.numerator), math.isqrt(fraction.denominator)
        if top * top == fraction.numerator and bottom * bottom == fraction.denominator:
            return Fraction(top, bottom)
    return Interval(_root(low, 0), _root(high, 1))


def _root(value: Any, up: int) -> Fraction:
    """The root of a rational, rounded down or up in 80 binary places."""
    fraction = Fraction(value)
    scaled = math.isqrt((fraction.numerator << 160) // fraction.denominator)
    return Fraction(scaled + up, 1 << 80)


def _log(value: Any) -> Any:
    low, high = bounds(value)
    if high <= 0:
        return NOTHING
    if low <= 0:
        raise UncertainError("the sign under a logarithm is not certain")
    return _monotone(math.log, {1: 0})(value) if low != high or low != 1 else 0


def _within(function: Callable[[float], float], least: int, most: int | None, closed: bool) -> Any:
    """A rising function between bounds; outside of them it has no value."""

    def apply(value: Any) -> Any:
        low, high = bounds(value)
        if high < least or (most is not None and low > most):
            return NOTHING
        if not closed and low == high and low in (least, most):
            return NOTHING
        if low <= least or (most is not None and high >= most):
            raise UncertainError("at the edge of what a function is defined on")
        return _monotone(function, {0: 0})(value)

    return apply


def _wave(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Sine and cosine: they change by no more than their argument does."""

    def apply(value: Any) -> Any:
        low, high = bounds(value)
        if low == high == 0:
            return int(function(0.0))
        middle = Fraction(_nearest((Fraction(low) + Fraction(high)) / 2))
        reach = max(abs(middle - low), abs(middle - high)) + Fraction(1, 2**46)
        result = Fraction(function(float(middle)))
        return Interval(result - reach, result + reach)

    return apply


def _divide(a: Any, b: Any) -> Any:
    low, high = bounds(b)
    if low == high:
        return NOTHING if low == 0 else a * Fraction(1, low)
    if low <= 0 <= high:
        raise UncertainError("a divisor is too close to 0")
    return a * Interval(1 / Fraction(high), 1 / Fraction(low))


def _pow(a: Any, b: Any) -> Any:
    low, high = bounds(b)
    if low != high:
        raise UncertainError("an exponent that is not known exactly")
    exponent = Fraction(low)
    if exponent.denominator == 1 and abs(exponent) <= 64:
        result: Any = 1
        for _ in range(abs(int(exponent))):
            result = result * a
        return result if exponent >= 0 else _divide(1, result)
    if exponent == Fraction(1, 2):
        return _sqrt(a)
    if exponent == Fraction(-1, 2):
        root = _sqrt(a)
        return root if root is NOTHING else _divide(1, root)
    least, most = bounds(a)
    if most < 0:
        return NOTHING
    if least <= 0:
        raise UncertainError("a power of what may be 0 or negative")
    return _monotone(math.exp, {0: 1})(_log(a) * exponent)


def _maximum(a: Any, b: Any) -> Any:
    (low, high), (least, most) = bounds(a), bounds(b)
    return _joined(max(low, least), max(high, most))


def _minimum(a: Any, b: Any) -> Any:
    (low, high), (least, most) = bounds(a), bounds(b)
    return _joined(min(low, least), min(high, most))


def _joined(low: Any, high: Any) -> Any:
    return low if low == high else Interval(low, high)


def _absolute(a: Any) -> Any:
    return _maximum(a, -a)


def _sign(a: Any) -> int:
    return 0 if equal(a, 0) else (-1 if less(a, 0) else 1)


def step(function: Callable[[Any], int]) -> Callable[[Any], int]:
    """floor, ceil, round: certain where both ends agree."""

    def apply(value: Any) -> int:
        low, high = (function(end) for end in bounds(value))
        if low != high:
            raise UncertainError("a number is too close to where it would be rounded otherwise")
        return low

    return apply


def _floor_divide(a: Any, b: Any) -> Any:
    ratio = _divide(a, b)
    return ratio if ratio is NOTHING else step(math.floor)(ratio)


def _modulo(a: Any, b: Any) -> Any:
    whole = _floor_divide(a, b)
    return whole if whole is NOTHING else a - b * whole


def _remainder(a: Any, b: Any) -> Any:
    ratio = _divide(a, b)
    return ratio if ratio is NOTHING else a - b * step(math.trunc)(ratio)


def _tan(value: Any) -> Any:
    return _divide(_wave(math.sin)(value), _wave(math.cos)(value))


def _cosh(value: Any) -> Any:
    return _monotone(math.cosh, {0: 1})(_absolute(value))


def _acos(value: Any) -> Any:
    arcsine = _within(math.asin, -1, 1, True)(value)
    return arcsine if arcsine is NOTHING else PI * Fraction(1, 2) - arcsine


PI = Interval(Fraction(math.pi), Fraction(math.nextafter(math.pi, 4)))


UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": lambda a: -a,
    "abs": _absolute,
    "sign": _sign,
    "sqrt": _sqrt,
    "log": _log,
    "exp": _monotone(math.exp, {0: 1}),
    "erf": _monotone(math.erf, {0: 0}),
    "sinh": _monotone(math.sinh, {0: 0}),
    "tanh": _monotone(math.tanh, {0: 0}),
    "asinh": _monotone(math.asinh, {0: 0}),
    "atan": _monotone(math.atan, {0: 0}),
    "asin": _within(math.asin, -1, 1, True),
    "acos": _acos,
    "acosh": _within(math.acosh, 1, None, True),
    "atanh": _within(math.atanh, -1, 1, False),
    "cosh": _cosh,
    "sin": _wave(math.sin),
    "cos": _wave(math.cos),
    "tan": _tan,
    "floor": step(math.floor),
    "ceil": step(math.ceil),
    "round": step(round),
}
BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
    "mod": _modulo,
    "fmod": _remainder,
    "pow": _pow,
    "max": _maximum,
    "min": _minimum,
}
