"""Rationals between which a real number lies, and what is certain of two such numbers."""

from __future__ import annotations

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
