"""The size and the sign of a real number: products of those of factors.

|a b| = |a| |b|, and sign(a b) = sign(a) sign(b). What is common to all terms of a sum is a factor
too; a power of what can't be 0 is, also where it isn't in all of them.
"""

from __future__ import annotations

from fractions import Fraction

from .functions import absolute_place, common_powers, content, divided_by, sign
from .normal import Place, Product, Sum, known_number, multiplied, number
from .simplify import powers
from .space import Space
from .virtual import abstracted


def absolute(whole: Sum, space: Space) -> list[Product]:
    """Return |x|."""
    if sign(whole, space) is not None:
        return list(whole)
    scale, factors = _factors(whole, space)
    found = multiplied(
        (place if e.denominator != 1 or e % 2 == 0 else absolute_place(place, space), e)
        for place, e in factors.items()
    )
    return [powers(Product(abs(scale), (), (), found), space)]


def signum(whole: Sum, space: Space) -> list[Product]:
    """Return 1 for x > 0, -1 for x < 0 and 0 for 0."""
    known = known_number(whole)
    if known is not None:
        return number((known > 0) - (known < 0))
    if sign(whole, space) == 1:
        return number(1)
    scale, factors = _factors(whole, space)
    signs = []
    for place, exponent in factors.items():
        if not space.always_positive(place):
            # of a root there is only the sign of what it is the root of
            times = exponent if exponent.denominator == 1 else Fraction(1)
            signs.append((_sign_place(place, space), abs(times)))
    return [powers(Product(1 if scale > 0 else -1, (), (), multiplied(signs)), space)]


def _factors(whole: Sum, space: Space) -> tuple[Fraction, dict[Place, Fraction]]:
    """Return a number and powers of places of which a sum that isn't 0 is the product."""
    if len(whole) == 1 and whole[0].plain:
        return whole[0].coefficient, dict(whole[0].factors)
    scale = content(whole)
    common = common_powers(whole, space, only_positive=False)
    rest = abstracted(divided_by(whole, common, scale, space), space)
    if isinstance(rest, Fraction):
        return scale * rest, common
    return scale, multiplied([*common.items(), (rest, Fraction(1))])


def _sign_place(place: Place, space: Space) -> Place:
    if place.head.startswith("sign("):
        return place
    found = Place(f"sign({place.head})", place.indices)
    if space.never_below_zero(place) and place.head != "#INT":  # which is another one elsewhere
        space.idempotent.add(found.head)
    return found
