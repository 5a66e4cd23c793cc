"""Numbers that a specification or a rule writes down: decimal fractions and rounded irrationals."""

from __future__ import annotations

import math
from fractions import Fraction

from .normal import Place, Product, number
from .space import UndecidedError

# Numbers that a specification or a rule can only write rounded.
_IRRATIONAL: tuple[tuple[float, tuple[tuple[str, Fraction], ...]], ...] = tuple(
    (value, tuple((head, Fraction(*exponent)) for head, exponent in factors))
    for value, factors in (
        (math.sqrt(2.0), (("N:2", (1, 2)),)),
        (1 / math.sqrt(2.0), (("N:2", (-1, 2)),)),
        (math.sqrt(0.5), (("N:2", (-1, 2)),)),
        (math.pi, (("N:pi", (1, 1)),)),
        (math.sqrt(math.pi), (("N:pi", (1, 2)),)),
        (2 / math.pi, (("N:2", (1, 1)), ("N:pi", (-1, 1)))),
        (math.sqrt(2 / math.pi), (("N:2", (1, 2)), ("N:pi", (-1, 2)))),
        (2 / math.sqrt(math.pi), (("N:2", (1, 1)), ("N:pi", (-1, 2)))),
        (math.e, (("N:e", (1, 1)),)),
    )
)


def literal(value: float) -> list[Product]:
    """Return a number of a program: a decimal fraction, or the irrational that it rounds."""
    if not math.isfinite(value):
        raise UndecidedError(f"{value} is no real number")
    for near, factors in _IRRATIONAL:
        if abs(value) == near:
            sign = 1 if value > 0 else -1
            return [Product(sign, (), (), {Place(head): e for head, e in factors})]
    return number(Fraction(repr(value)))
