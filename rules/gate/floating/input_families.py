"""Families of random inputs on which rounding shows, and values that arithmetic treats apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sampling.builder import array_for
from ..onnx_models import Operand

Array = NDArray[Any]

FAMILIES = ("normal", "shifted", "cancelling", "mixed")
"""normal N(0, 1); shifted: a mean 16 to 1000 times the spread, of either sign; cancelling: numbers
of nearly one magnitude whose signs alternate, so that sums lose their leading digits; mixed:
magnitudes from 1e-3 to 1e2 in one tensor. Integers are small ones, and some of about 1e4 or, where
signs alternate, of more digits than a shorter floating-point type has."""

KINDS = (
    "nan",
    "positive_infinity",
    "negative_infinity",
    "zero",
    "subnormal",
    "overflow",
    "halfway",
    "mixed",
)
"""Special values among ordinary ones: `zero` is 0.0 and -0.0, `overflow` numbers whose products and
sums leave the range, `halfway` whole numbers and those midway between two of a shorter type or
between two integers, and their next neighbours: where rounding, and rounding twice, turns; `mixed`
all of these, infinities of both signs beside zeros and NaNs."""


def feeds(
    operands: Sequence[Operand], rng: np.random.Generator, family: str
) -> dict[str, NDArray[Any]]:
    """Draw one array for each operand."""
    return {operand.name: _draw(operand, rng, family) for operand in operands}


def _draw(operand: Operand, rng: np.random.Generator, family: str) -> Array:
    shape, dtype = list(operand.shape), operand.dtype
    if _is_whole(operand) and family != "normal":
        return _integers(rng, shape, np.dtype(dtype), family)
    if not dtype.startswith("float") or family in ("normal", "mixed"):
        return array_for(rng, dtype, shape, operand.domain, family)
    if family == "shifted":
        data = rng.choice([16.0, 100.0, 1000.0]) * rng.choice([1, -1]) + rng.standard_normal(shape)
    else:
        data = rng.choice([1.0, 30.0]) * (1 + 1e-3 * rng.standard_normal(shape))
        data = data * _signs(shape, rng)
    if operand.domain == "positive":
        data = np.abs(data)
    return np.asarray(data, dtype)


def _is_whole(operand: Operand) -> bool:
    """Whether an operand is of integers that may be large: no places, divisors or amounts."""
    return np.dtype(operand.dtype).kind in "iu" and operand.domain == "any"


def _integers(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any], family: str
) -> Array:
    bits = int(np.iinfo(dtype).max).bit_length()
    if family == "mixed":
        data = 2.0 ** rng.uniform(0.0, min(bits - 1, 14), shape)
    else:
        largest = min(bits - 1, 14 if family == "shifted" else 28)
        data = 2.0**largest * (1 - 1e-3 * rng.random(shape))
    if dtype.kind == "i" and family == "cancelling":
        data = data * _signs(shape, rng)
    return np.asarray(data, dtype)


def _signs(shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Signs that alternate along some of the axes: sums over those, or of two operands, cancel."""
    odd: Array = np.full(shape, rng.integers(0, 2))
    for axis, size in enumerate(shape):
        along = np.arange(size) * rng.integers(0, 2)
        odd = odd + along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.where(odd % 2 == 0, 1.0, -1.0)


def inject(
    operands: Sequence[Operand], drawn: dict[str, Array], rng: np.random.Generator, kind: str
) -> dict[str, Array]:
    """Put special values at random places: one element, a quarter of an operand or of all operands,
    or all elements of one or of all.
    """
    result = {name: array.copy() for name, array in drawn.items()}
    numbers = [
        o
        for o in operands
        if drawn[o.name].size
        and (o.dtype.startswith("float") or (kind == "halfway" and _is_whole(o)))
    ]
    if not numbers:
        return result
    how = rng.integers(0, 5)
    for operand in numbers if how >= 3 else [numbers[rng.integers(0, len(numbers))]]:
        array = result[operand.name]
        places: Array = np.zeros(array.size, bool)
        if how == 0:
            places[rng.integers(0, array.size)] = True
        else:
            places = rng.random(array.size) < (1.0 if how in (2, 4) else 0.25)
        places = places.reshape(array.shape)
        array[places] = special(kind, rng, int(places.sum()), array.dtype)
    return result


def _zeros(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    return np.where(rng.random(count) < 0.5, 0.0, -0.0).astype(dtype)


def _subnormals(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Below the smallest normal number, and just above it or its root, where products underflow."""
    tiny = float(np.finfo(dtype).smallest_normal) ** (1 / rng.choice([1, 1, 2, 3]))
    data = rng.uniform(-1, 1, count) * tiny * 2.0 ** rng.integers(-8, 4, count)
    return np.asarray(data, dtype)


def _huge(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Numbers whose squares leave the range, numbers near its end, and small ones to make up.

    Or all near one number beyond which a power or an exponential leaves it: a threshold that two
    sides have at places a factor apart is met there.
    """
    largest = float(np.log2(float(np.finfo(dtype).max)))
    sign = rng.choice([1.0, -1.0], count)
    exponents: Array
    match int(rng.integers(0, 5)):
        case 0 | 1:
            exponents = np.where(
                rng.random(count) < 0.5, rng.uniform(0.3, 1.0, count) * largest, 0.0
            )
            exponents += np.where(exponents == 0, largest - rng.uniform(0.0, 2.0, count), 0.0)
            exponents *= np.where(rng.random(count) < 0.2, -0.9, 1.0)
        case 2 | 3:
            exponents = largest / rng.integers(1, 5) + rng.uniform(-3.0, 1.0) + np.zeros(count)
            exponents = np.minimum(exponents + rng.uniform(-0.5, 0.5, count), largest)
        case _:
            exponents = np.log2(largest * np.log(2.0) * rng.uniform(0.4, 1.2, count))
            sign = np.full(count, rng.choice([1.0, -1.0]))
    with np.errstate(over="ignore"):
        return np.asarray(sign * 2.0**exponents, dtype)


def _halfway(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    if dtype.kind != "f":
        return _midway_integers(rng, count, dtype)
    digits = np.finfo(dtype).nmant
    shorter = rng.choice([kept for kept in (7, 10, 23) if kept < digits] or [digits - 1], count)
    odd = 2 * rng.integers(0, 2**shorter) + 1 + 2.0 ** (shorter + 1)
    midway = odd * 2.0 ** (rng.integers(-3, 4, count) - shorter)
    halves = rng.integers(-64, 65, count) / 2
    numbers = np.where(rng.random(count) < 0.5, midway, halves).astype(dtype)
    beyond = rng.choice(np.asarray([-np.inf, np.inf], dtype), count)
    return np.where(rng.random(count) < 0.6, np.nextafter(numbers, beyond), numbers)


def _midway_integers(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Integers midway between two numbers of a floating-point type, and those next to them."""
    bits = int(np.iinfo(dtype).max).bit_length()
    digits = rng.choice([kept for kept in (7, 10, 23, 52) if kept + 2 < bits] or [bits - 3], count)
    odd = 2 ** (digits + 1) + 2 * rng.integers(0, 2**digits) + 1
    numbers = (odd << rng.integers(0, bits - digits - 1)) + rng.integers(-1, 2, count)
    return np.asarray(numbers * (rng.choice([1, -1], count) if dtype.kind == "i" else 1), dtype)


def _mixed(rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    limits = np.finfo(dtype)
    ends = [limits.max, -limits.max, limits.smallest_normal, limits.smallest_subnormal]
    values = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, *ends]
    return rng.choice(np.asarray(values, dtype), count)


def special(kind: str, rng: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Draw special values of a kind."""
    return _SPECIAL[kind](rng, count, dtype)


def _constant(value: float) -> Callable[[np.random.Generator, int, np.dtype[Any]], Array]:
    return lambda rng, count, dtype: np.full(count, value, dtype)


_SPECIAL: dict[str, Callable[[np.random.Generator, int, np.dtype[Any]], Array]] = {
    "nan": _constant(np.nan),
    "positive_infinity": _constant(np.inf),
    "negative_infinity": _constant(-np.inf),
    "zero": _zeros,
    "subnormal": _subnormals,
    "overflow": _huge,
    "halfway": _halfway,
    "mixed": _mixed,
}
