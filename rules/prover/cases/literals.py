"""Numbers of a rule as the prover reads them: roundings of well-known numbers as those numbers.

A model holds 0.7071067811865476 where its author meant 1/sqrt(2), and 0.16666666666666666 where he
meant a sixth. Read as the binary fraction that it is, no law of real numbers would hold of it; read
as what it is the rounding of, laws hold up to the rounding that `equal rounding` allows. All other
numbers are what their digits say.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from ....catalog.terms.index_notation import Apply, Term

PI: Term = Apply("pi", ())


def _root(term: Term) -> Term:
    return Apply("sqrt", (term,))


def _over(above: Term, below: Term) -> Term:
    return Apply("/", (above, below))


def _familiar() -> tuple[tuple[float, Term], ...]:
    root_of_two = _root(2)
    return (
        (math.pi, PI),
        (2 / math.pi, _over(2, PI)),
        (1 / math.pi, _over(1, PI)),
        (math.sqrt(2), root_of_two),
        (1 / math.sqrt(2), _over(1, root_of_two)),
        (math.sqrt(2 / math.pi), _root(_over(2, PI))),
        (math.sqrt(math.pi), _root(PI)),
        (math.sqrt(2 * math.pi), _root(Apply("*", (2, PI)))),
        (1 / math.sqrt(math.pi), _over(1, _root(PI))),
        (2 / math.sqrt(math.pi), _over(2, _root(PI))),
        (1 / math.sqrt(2 * math.pi), _over(1, _root(Apply("*", (2, PI))))),
        (math.sqrt(3), _root(3)),
        (1 / math.sqrt(3), _over(1, _root(3))),
        (math.log(2), Apply("log", (2,))),
        (1 / math.log(2), _over(1, Apply("log", (2,)))),
        (math.log(10), Apply("log", (10,))),
        (1 / math.log(10), _over(1, Apply("log", (10,)))),
    )


def _single(value: float) -> float:
    """Round to float32."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _short(value: float) -> float:
    """Return what the shortest digits say that still round to the same float32."""
    return float(str(np.float32(value)))


def _table() -> Mapping[float, Term]:
    terms: dict[float, Term] = {}
    for value, term in _familiar():
        for near in (value, math.nextafter(value, math.inf), math.nextafter(value, 0.0)):
            terms[near] = term
        terms[_single(value)] = term
    return terms


_IRRATIONAL = _table()
_SHORT = {_short(value): term for value, term in _familiar()}
# Numbers written with fewer digits mean what they say.
_LEAST_DIGITS = 7
# Any number is near a quotient with a large divisor; with one so small it is no coincidence.
_LARGEST_DIVISOR = 255


def read_literal(value: int | float) -> Term:
    """Return a number as a term: an irrational one where it is the rounding of one that is known.

    A float64 counts as a rounding up to one unit in the last place, since 2 / sqrt(pi) computed in
    two steps may differ from the nearest number by that much.
    """
    if isinstance(value, bool) or not isinstance(value, float) or not math.isfinite(value):
        return value
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    positive = _IRRATIONAL.get(abs(value)) or _quotient(abs(value))
    if positive is None:
        return value
    return positive if value > 0 else Apply("neg", (positive,))


def read_attribute(value: object) -> object:
    """Return an attribute of a rule that is true up to rounding, numbers as terms.

    ONNX keeps such a number as a float32: 0.16666667 is all that can be said of a sixth.
    """
    if not isinstance(value, float) or not math.isfinite(value) or _digits(value) < _LEAST_DIGITS:
        return value
    size = abs(value)
    positive = _SHORT.get(size)
    if positive is None:
        near = Fraction(value).limit_denominator(_LARGEST_DIVISOR)
        if near.numerator == 0 or _short(float(abs(near))) != size:
            return value
        positive = Apply("/", (abs(near.numerator), near.denominator))
    return positive if value > 0 else Apply("neg", (positive,))


def _digits(value: float) -> int:
    return len(repr(abs(value)).strip("0.").replace(".", ""))


def _quotient(value: float) -> Term | None:
    """The quotient of small integers that a number without a short spelling is the rounding of."""
    if _digits(value) < 9:
        return None
    near = Fraction(value).limit_denominator(_LARGEST_DIVISOR)
    if near.numerator and value in (near.numerator / near.denominator, _single(float(near))):
        return Apply("/", (near.numerator, near.denominator))
    return None
