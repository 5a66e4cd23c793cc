"""Rounding to integers, and the size and the sign of a real number.

Of what is rounded, what is seen to be an integer already is taken out. floor(x + n) = floor(x) + n,
and -floor(x) = ceil(-x), so that only floor is left. Rounding to the nearest, to the even one of
two, is odd, and goes with even integers.

Sizes and signs of products are those of factors: |a b| = |a| |b|, and sign(a b) = sign(a) sign(b).
What is common to all terms of a sum is a factor too; a power of what can't be 0 is, also where it
isn't in all of them.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..normal.context import Context
from ..normal.definedness import Path
from ..normal.interning import abstracted
from ..normal.simplify import powers
from ..normal.sums import Place, Product, Sum, combined, known_number, multiplied, number, scaled
from .elementary import (
    absolute_place,
    common_powers,
    content,
    divided_by,
    opaque,
    orientation,
    sign,
)

_WHOLE = ("#INT", "floor(", "round(", "sign(")


def rounded(function: str, whole: Sum, context: Context, path: Path) -> list[Product]:
    """Return floor(x), ceil(x), or round(x), which is to the nearest even where two are near."""
    if function == "ceil":
        return scaled(rounded("floor", scaled(whole, -1), context, path), -1)
    if function == "round" and orientation(whole) < 0:
        return scaled(rounded("round", scaled(whole, -1), context, path), -1)
    value = known_number(whole)
    if value is not None:
        return number(round(value) if function == "round" else math.floor(value))
    if all(_is_whole(product, context) for product in whole):
        return list(whole)
    step = 2 if function == "round" else 1
    taken: list[Product] = []
    rest: list[Product] = []
    for product in whole:
        if product.plain and not product.factors:
            outside = Fraction(math.floor(product.coefficient / step) * step)
            taken.append(Product(outside))
            rest.append(Product(product.coefficient - outside))
        else:
            fits = _is_whole(product.scaled(Fraction(1, step)), context)
            (taken if fits else rest).append(product)
    rest = combined(rest)
    value = known_number(rest)
    if value is not None:
        return combined([*taken, *rounded(function, rest, context, path)])
    return combined([*taken, *opaque(function, [rest], context, path)])


def _is_whole(product: Product, context: Context) -> bool:
    """Whether a product, or a sum of such, is an integer."""
    return product.coefficient.denominator == 1 and all(
        exponent.denominator == 1
        and exponent > 0
        and (place.head.startswith(_WHOLE) or place.head in context.idempotent)
        for place, exponent in product.factors.items()
    )


def absolute(whole: Sum, context: Context) -> list[Product]:
    """Return |x|."""
    if sign(whole, context) is not None:
        return list(whole)
    scale, factors = _factors(whole, context)
    sizes = multiplied(
        (place if e.denominator != 1 or e % 2 == 0 else absolute_place(place, context), e)
        for place, e in factors.items()
    )
    return [powers(Product(abs(scale), (), (), sizes), context)]


def signum(whole: Sum, context: Context) -> list[Product]:
    """Return 1 for x > 0, -1 for x < 0 and 0 for 0."""
    value = known_number(whole)
    if value is not None:
        return number((value > 0) - (value < 0))
    if sign(whole, context) == 1:
        return number(1)
    scale, factors = _factors(whole, context)
    signs = []
    for place, exponent in factors.items():
        if not context.always_positive(place):
            # of a root there is only the sign of what it is the root of
            times = exponent if exponent.denominator == 1 else Fraction(1)
            signs.append((_sign_place(place, context), abs(times)))
    return [powers(Product(1 if scale > 0 else -1, (), (), multiplied(signs)), context)]


def _factors(whole: Sum, context: Context) -> tuple[Fraction, dict[Place, Fraction]]:
    """Return a number and powers of places of which a sum that isn't 0 is the product."""
    if len(whole) == 1 and whole[0].plain:
        return whole[0].coefficient, dict(whole[0].factors)
    scale = content(whole)
    common = common_powers(whole, context, only_positive=False)
    rest = abstracted(divided_by(whole, common, scale, context), context)
    if isinstance(rest, Fraction):
        return scale * rest, common
    return scale, multiplied([*common.items(), (rest, Fraction(1))])


def _sign_place(place: Place, context: Context) -> Place:
    if place.head.startswith("sign("):
        return place
    sign_place = Place(f"sign({place.head})", place.indices)
    if context.never_below_zero(place) and place.head != "#INT":  # which is another one elsewhere
        context.idempotent.add(sign_place.head)
    return sign_place
