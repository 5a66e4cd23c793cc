"""Elementwise functions made of others: what they mean, NaN, infinities and zeros included.

Each takes the operands in the type that the function computes in, all of one floating-point type,
and returns an expression, or raises UnsupportedError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ..tracing.expressions import Expression, constant, elementwise

Derived = Callable[..., Expression]


def _asks(op: str, *operands: Expression) -> Expression:
    return elementwise(op, *operands, dtype="bool")


def _choose(condition: Expression, chosen: Expression, other: Expression) -> Expression:
    return elementwise("Where", condition, chosen, other)


def _number(value: float, like: Expression) -> Expression:
    return constant(value, like.dtype)


def isfinite(x: Expression) -> Expression:
    """Neither a NaN nor an infinity: those less themselves are NaN."""
    return _asks("Equal", elementwise("Sub", x, x), _number(0, x))


def trunc(x: Expression) -> Expression:
    """The whole number next to x towards 0."""
    below = _asks("Less", x, _number(0, x))
    return _choose(below, elementwise("Ceil", x), elementwise("Floor", x))


def fmax(x: Expression, y: Expression) -> Expression:
    """The larger one, or the one that is no NaN."""
    either = _asks("Or", _asks("GreaterOrEqual", x, y), _asks("IsNaN", y))
    return _choose(either, x, y)


def fmin(x: Expression, y: Expression) -> Expression:
    """The smaller one, or the one that is no NaN."""
    either = _asks("Or", _asks("LessOrEqual", x, y), _asks("IsNaN", y))
    return _choose(either, x, y)


def heaviside(x: Expression, at_zero: Expression) -> Expression:
    """0 below 0, 1 above, and what is asked for at 0."""
    zero = _number(0, x)
    below = _choose(_asks("Less", x, zero), zero, x)  # a NaN stays one
    step = _choose(_asks("Greater", x, zero), _number(1, x), below)
    return _choose(_asks("Equal", x, zero), at_zero, step)


def floor_divide(x: Expression, y: Expression) -> Expression:
    """x // y by way of the exact remainder (npy_floor_divide in numpy/_core/src/npymath)."""
    zero, unit = _number(0, x), _number(1, x)
    remainder = elementwise("Mod", x, y, attributes=(("fmod", 1),))
    quotient = elementwise("Div", elementwise("Sub", x, remainder), y)
    signs = (_asks("Less", y, zero), _asks("Less", remainder, zero))
    lower = _asks("And", _asks("Not", _asks("Equal", remainder, zero)), _asks("Xor", *signs))
    quotient = _choose(lower, elementwise("Sub", quotient, unit), quotient)
    floor = elementwise("Floor", quotient)
    above = _asks("Greater", elementwise("Sub", quotient, floor), _number(0.5, x))
    whole = _choose(above, elementwise("Add", floor, unit), floor)
    plain = elementwise("Div", x, y)
    # of a quotient that is 0 the sign is that of x / y
    signed = _choose(_asks("Equal", quotient, zero), elementwise("Mul", plain, zero), whole)
    return _choose(_asks("Equal", y, zero), plain, signed)


def xlogy(x: Expression, y: Expression) -> Expression:
    """x * log(y), and 0 where x is 0 and y is no NaN."""
    return _zero_where_zero(x, y, elementwise("Mul", x, elementwise("Log", y)))


def _zero_where_zero(x: Expression, y: Expression, product: Expression) -> Expression:
    nothing = _asks("And", _asks("Equal", x, _number(0, x)), _asks("Equal", y, y))
    return _choose(nothing, _number(0, x), product)


def entr(x: Expression) -> Expression:
    """-x * log(x), 0 at 0, and minus infinity below."""
    zero = _number(0, x)
    entropy = elementwise("Neg", elementwise("Mul", x, elementwise("Log", x)))
    defined = _choose(_asks("Less", x, zero), _number(-math.inf, x), entropy)
    return _choose(_asks("Equal", x, zero), zero, defined)


def degrees(x: Expression) -> Expression:
    """Radians in degrees."""
    return elementwise("Mul", x, _number(180 / math.pi, x))


def radians(x: Expression) -> Expression:
    """Degrees in radians."""
    return elementwise("Mul", x, _number(math.pi / 180, x))


def nan_to_num(x: Expression, nan: float, posinf: float | None, neginf: float | None) -> Expression:
    """Numbers in place of NaN and infinities; the type's largest and least where none are given."""
    limits = np.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    replaced = _choose(_asks("Equal", x, _number(-math.inf, x)), _number(low, x), x)
    replaced = _choose(_asks("Equal", x, _number(math.inf, x)), _number(high, x), replaced)
    return _choose(_asks("IsNaN", x), _number(nan, x), replaced)


# By name; of SciPy's those that NumPy hasn't.
NUMPY: Mapping[str, Derived] = {
    function.__name__: function
    for function in (isfinite, trunc, fmax, fmin, heaviside, floor_divide, degrees, radians)
} | {"deg2rad": radians, "rad2deg": degrees}
SPECIAL: Mapping[str, Derived] = {function.__name__: function for function in (xlogy, entr)}
