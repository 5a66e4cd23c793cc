"""Arithmetics that don't round: a prime field to suspect a difference, intervals to be sure of it.

In the field of 2**31 - 1 elements a polynomial that isn't zero is zero at a random point with
probability degree / 2**31 (Schwartz and Zippel); a function that isn't rational becomes a fixed
random one, so that laws of its own, such as exp(a + b) = exp(a) exp(b), look false there: a
difference in the field is a suspicion. Intervals of rationals are points as long as only + - * /
and order are used, and enclose what exp and its like give, so that two that don't meet differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .concrete import Array, NoValueError

# ------------------------------------------------------------------------------ prime field

PRIME = 2**31 - 1


def residue(value: Any) -> int:
    """A rational number in the field."""
    fraction = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    if fraction.denominator % PRIME == 0:
        raise NoValueError(f"{value} is not in the field")
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


def _power(base: Array, exponent: int) -> Array:
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square % PRIME
        square = square * square % PRIME
        exponent >>= 1
    return result


def _centred(array: Array) -> Array:
    """Residues as integers around 0, so that small integers keep their order."""
    return np.where(array > PRIME // 2, array - PRIME, array)


def _random(function: str, arguments: Sequence[Array]) -> Array:
    """A fixed random function of residues (the mixing steps of splitmix64)."""
    seed = int.from_bytes(function.encode()[:7], "little")
    state: Any = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for argument in arguments:
        state = state ^ argument.astype(np.uint64)
        state = state * np.uint64(0xBF58476D1CE4E5B9)
        state = state ^ (state >> np.uint64(27))
        state = state * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return np.asarray(state % np.uint64(PRIME)).astype(np.int64)


class Field:
    """Real numbers as residues modulo 2**31 - 1, in int64; order is that of small integers."""

    name = "prime field"
    largest = 1 << 21

    def real(self, array: Any) -> Array:
        """Known numbers as residues."""
        given = np.asarray(array)
        if given.dtype.kind in "iub":
            return np.asarray(given.astype(np.int64) % PRIME)
        found = [residue(value) for value in given.reshape(-1).tolist()]
        return np.asarray(found, np.int64).reshape(given.shape)

    def pi(self) -> Array:
        """A random residue in the place of pi."""
        return np.asarray(1234567891)

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive; only a division by 0 has no value here."""
        a = np.asarray(arguments[0])
        match function:
            case "+":
                return (a + arguments[1]) % PRIME, True
            case "-":
                return (a - arguments[1]) % PRIME, True
            case "*":
                return a * arguments[1] % PRIME, True
            case "neg":
                return -a % PRIME, True
            case "/":
                return a * _power(np.asarray(arguments[1]), PRIME - 2) % PRIME, arguments[1] != 0
            case "max" | "min":
                pick = np.maximum if function == "max" else np.minimum
                return pick(_centred(a), _centred(arguments[1])) % PRIME, True
            case "abs":
                return np.abs(_centred(a)), True
            case "sign":
                return np.sign(_centred(a)) % PRIME, True
            case "sqrt":
                # p is 3 mod 4: multiplicative, and a root of every square
                return _power(a, (PRIME + 1) // 4), True
            case "pow":
                return self._pow(a, np.asarray(arguments[1]))
            case _:
                return _random(function, arguments), True

    def _pow(self, a: Array, b: Array) -> tuple[Array, Any]:
        exponents = _centred(b)
        if exponents.size == 1 and 0 <= int(exponents.reshape(-1)[0]) <= 64:
            return _power(a, int(exponents.reshape(-1)[0])), True
        return _random("pow", (a, b)), True

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values, as of small integers."""
        a, b = _centred(left), _centred(right)
        return np.asarray(_COMPARE[relation](a, b))

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        if kind == "sum":
            return np.asarray(np.sum(body, axis=axes) % PRIME)
        if kind in ("max", "min"):
            pick = np.max if kind == "max" else np.min
            return np.asarray(pick(_centred(body), axis=axes) % PRIME)
        flat = np.moveaxis(body, axes, range(len(axes)))
        flat = flat.reshape((-1, *flat.shape[len(axes) :]))
        result = flat[0]
        for row in flat[1:]:
            result = result * row % PRIME
        return np.asarray(result)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction."""
        return {"sum": 0, "prod": 1, "max": PRIME // 2 + 1, "min": PRIME // 2}[kind]

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Residues are integers."""
        return np.asarray(_centred(array))


_COMPARE: Mapping[str, Callable[..., Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


# -------------------------------------------------------------------------------- intervals


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


def _less(a: Any, b: Any) -> bool:
    """Whether a < b; UncertainError where the enclosures don't tell."""
    (low, high), (least, most) = bounds(a), bounds(b)
    if high < least:
        return True
    if low >= most:
        return False
    raise UncertainError("two numbers are too close to be told apart")


def _equal(a: Any, b: Any) -> bool:
    (low, high), (least, most) = bounds(a), bounds(b)
    if high < least or most < low:
        return False
    if low == high == least == most:
        return True
    raise UncertainError("two numbers are too close to be told apart")


_DECIDE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _less,
    "<=": lambda a, b: not _less(b, a),
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: not _less(a, b),
}


class _NoValue:
    """What a primitive gives where it has no value."""


_NOTHING = _NoValue()
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


def _monotone(function: Callable[[float], float], at: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """A rising function with its exact values at some points; others are enclosed."""

    def apply(value: Any) -> Any:
        low, high = bounds(value)
        if low == high and low in at:
            return at[low]
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
        return _NOTHING
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
        return _NOTHING
    if low <= 0:
        raise UncertainError("the sign under a logarithm is not certain")
    return _monotone(math.log, {1: 0})(value) if low != high or low != 1 else 0


def _within(function: Callable[[float], float], least: int, most: int | None, closed: bool) -> Any:
    """A rising function between bounds; outside of them it has no value."""

    def apply(value: Any) -> Any:
        low, high = bounds(value)
        if high < least or (most is not None and low > most):
            return _NOTHING
        if not closed and low == high and low in (least, most):
            return _NOTHING
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
        return _NOTHING if low == 0 else a * Fraction(1, low)
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
        return root if root is _NOTHING else _divide(1, root)
    least, most = bounds(a)
    if most < 0:
        return _NOTHING
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
    return 0 if _equal(a, 0) else (-1 if _less(a, 0) else 1)


def _step(function: Callable[[Any], int]) -> Callable[[Any], int]:
    """floor, ceil, round: certain where both ends agree."""

    def apply(value: Any) -> int:
        low, high = (function(end) for end in bounds(value))
        if low != high:
            raise UncertainError("a number is too close to where it would be rounded otherwise")
        return low

    return apply


def _floor_divide(a: Any, b: Any) -> Any:
    ratio = _divide(a, b)
    return ratio if ratio is _NOTHING else _step(math.floor)(ratio)


def _modulo(a: Any, b: Any) -> Any:
    whole = _floor_divide(a, b)
    return whole if whole is _NOTHING else a - b * whole


def _remainder(a: Any, b: Any) -> Any:
    ratio = _divide(a, b)
    return ratio if ratio is _NOTHING else a - b * _step(math.trunc)(ratio)


def _tan(value: Any) -> Any:
    return _divide(_wave(math.sin)(value), _wave(math.cos)(value))


def _cosh(value: Any) -> Any:
    return _monotone(math.cosh, {0: 1})(_absolute(value))


def _acos(value: Any) -> Any:
    found = _within(math.asin, -1, 1, True)(value)
    return found if found is _NOTHING else _PI * Fraction(1, 2) - found


_PI = Interval(Fraction(math.pi), Fraction(math.nextafter(math.pi, 4)))


_UNARY: Mapping[str, Callable[[Any], Any]] = {
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
    "floor": _step(math.floor),
    "ceil": _step(math.ceil),
    "round": _step(round),
}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
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


class Exact:
    """Real numbers as Python's integers and Fractions, or intervals of them, in object arrays."""

    name = "exact"
    largest = 60_000

    def __init__(self, tolerance: Fraction = Fraction(1, 10**7)) -> None:
        """`tolerance`: numbers that differ by less of their size may do so by a rounded literal."""
        self.tolerance = tolerance

    def real(self, array: Any) -> Array:
        """Known numbers; a float is the decimal fraction that it is printed as."""
        given = np.asarray(array)
        result = np.empty(given.shape, object)
        result.reshape(-1)[:] = [known(value) for value in given.reshape(-1).tolist()]
        return result

    def pi(self) -> Array:
        """An enclosure of pi."""
        result = np.empty((), object)
        result[()] = _PI
        return result

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive, and where it has a value; UncertainError where that can't be told."""
        if len(arguments) == 1 and function in _UNARY:
            made = np.frompyfunc(_UNARY[function], 1, 1)(arguments[0])
        elif len(arguments) == 2 and function in _BINARY:
            made = np.frompyfunc(_BINARY[function], 2, 1)(*arguments)
        else:
            raise NoValueError(f"{function} is not computed exactly")
        found = np.asarray(made, object)
        has_value = np.asarray(np.frompyfunc(lambda v: v is not _NOTHING, 1, 1)(found), bool)
        if has_value.all():
            return found, True
        zero = np.zeros((), object)
        return np.where(has_value, found, zero), has_value

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values; UncertainError where enclosures overlap."""
        return np.asarray(np.frompyfunc(_DECIDE[relation], 2, 1)(left, right), bool)

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        join = {"sum": "+", "prod": "*", "max": "max", "min": "min"}[kind]
        step = np.frompyfunc(_joining(kind, _BINARY[join]), 2, 1)
        result = np.asarray(body, object)
        for _ in axes:
            result = np.asarray(step.reduce(result, axis=0), object)
        nothing = np.asarray(np.frompyfunc(lambda value: value is None, 1, 1)(result), bool)
        return np.where(nothing, np.zeros((), object), result)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction; for an extreme of what doesn't count, a mark."""
        return {"sum": 0, "prod": 1}.get(kind)

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Rounded towards 0; UncertainError where that can't be told."""
        whole = np.frompyfunc(_step(math.trunc), 1, 1)(array)
        return np.asarray(whole, np.int64)


def _joining(kind: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    if kind in ("sum", "prod"):
        return function

    def extreme(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return function(a, b)

    return extreme


def known(value: Any) -> Any:
    """A number as an integer or a Fraction; a float as the decimal that it is printed as."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) or value is None:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValueError(f"{value} is no real number")
    fraction = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    return fraction.numerator if fraction.denominator == 1 else fraction
