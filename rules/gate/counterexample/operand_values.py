"""Arrays for the operands of a statement: families of numbers that tell different mistakes apart.

All are dyadic fractions of few bits, so that what is suspected with them in float64 can be
computed again without rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...prover.statement import Algebra, Operand, Statement
from ..evaluation.arithmetic import Array, Assignment, Number, shape_at

# "normal"; "positive", for roots and logarithms; "small" integers; "zeros" and ones mixed in;
# "shifted", a mean far above the spread; "unit", within (-1, 1); "wide", integers of any size.
# The largest number that arrays of integers hold.
_MOST = int(np.iinfo(np.int64).max)
FAMILIES = ("normal", "small", "positive", "zeros", "shifted", "unit", "wide")


def assign(
    statement: Statement,
    symbols: Mapping[str, Number],
    family: str,
    rng: np.random.Generator,
) -> Assignment:
    """Arrays of a family for all operands at known sizes."""
    types = statement.origin.types if statement.origin else {}
    arrays = {
        operand.name: array_of(operand, symbols, family, rng, types.get(operand.name, "int64"))
        for operand in statement.operands
    }
    return Assignment(dict(symbols), arrays)


def elements(statement: Statement, symbols: Mapping[str, Number]) -> int:
    """How many elements the operands have together."""
    sizes = [shape_at(operand.shape, symbols) for operand in statement.operands]
    return sum(int(np.prod(shape, dtype=object)) for shape in sizes)


def array_of(
    operand: Operand,
    symbols: Mapping[str, Number],
    family: str,
    rng: np.random.Generator,
    dtype: str,
) -> Array:
    """An array of a family for one operand; `dtype` bounds integers."""
    shape = shape_at(operand.shape, symbols)
    return draw(operand.algebra, shape, family, rng, dtype)


def draw(
    algebra: Algebra,
    shape: tuple[int, ...],
    family: str,
    rng: np.random.Generator,
    dtype: str = "int64",
) -> Array:
    """Random numbers of a family; integers are those of a type, as int64."""
    if algebra == "boolean":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if algebra == "integer":
        kind = np.dtype(dtype) if np.dtype(dtype).kind in "iu" else np.dtype(np.int64)
        drawn = _integers(shape, family, rng, kind).astype(kind)
        # of uint64, the half that int64 has too: the other half would be taken for negative
        return np.asarray((drawn & kind.type(_MOST) if kind == np.uint64 else drawn), np.int64)
    match family:
        case "small":
            values = rng.integers(-3, 4, shape).astype(np.float64)
        case "positive":
            values = rng.integers(1, 24, shape) / 4
        case "zeros":
            values = rng.choice([0.0, 0.0, 1.0, -1.0, 2.0], shape)
        case "shifted":
            values = 100 + rng.integers(-8, 9, shape) / 8
        case "unit":
            values = rng.integers(-15, 16, shape) / 16
        case "wide":
            values = rng.integers(-40, 41, shape) * 2.0 ** rng.integers(-2, 3, shape)
        case _:
            values = np.round(rng.standard_normal(shape) * 16) / 8
    return np.asarray(values, np.float64)


def _integers(
    shape: tuple[int, ...], family: str, rng: np.random.Generator, kind: np.dtype[Any]
) -> Array:
    match family:
        case "positive" | "unit":
            values = rng.integers(0, 3, shape)
        case "zeros":
            values = rng.integers(0, 2, shape)
        case "wide":
            # Where a type ends, sums wrap around; cut to fewer bits, random ones stay random.
            limits = np.iinfo(kind)
            most = min(int(limits.max), _MOST)
            ends = np.asarray([limits.min, most, most - 1, 0, 1], np.int64)
            anywhere = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, shape)
            values = np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), anywhere)
        case "shifted":
            values = 100 + rng.integers(-8, 9, shape)
        case _:
            values = rng.integers(-5, 6, shape)
    return np.asarray(values, np.int64)
