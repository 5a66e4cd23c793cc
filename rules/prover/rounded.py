"""Rounding to integers: what is seen to be an integer already is taken out.

floor(x + n) = floor(x) + n, and -floor(x) = ceil(-x), so that only floor is left. Rounding to the
nearest, to the even one of two, is odd, and goes with even integers.
"""

from __future__ import annotations

import math
from fractions import Fraction

from .definedness import Path
from .functions import opaque, orientation
from .normal import Product, Sum, combined, known_number, number, scaled
from .space import Space

_WHOLE = ("#INT", "floor(", "round(", "sign(")


def rounded(function: str, whole: Sum, space: Space, path: Path) -> list[Product]:
    """Return floor(x), ceil(x), or round(x), which is to the nearest even where two are near."""
    if function == "ceil":
        return scaled(rounded("floor", scaled(whole, -1), space, path), -1)
    if function == "round" and orientation(whole) < 0:
        return scaled(rounded("round", scaled(whole, -1), space, path), -1)
    known = known_number(whole)
    if known is not None:
        return number(round(known) if function == "round" else math.floor(known))
    if all(_is_whole(product, space) for product in whole):
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
            fits = _is_whole(product.scaled(Fraction(1, step)), space)
            (taken if fits else rest).append(product)
    rest = combined(rest)
    known = known_number(rest)
    if known is not None:
        return combined([*taken, *rounded(function, rest, space, path)])
    return combined([*taken, *opaque(function, [rest], space, path)])


def _is_whole(product: Product, space: Space) -> bool:
    """Whether a product, or a sum of such, is an integer."""
    return product.coefficient.denominator == 1 and all(
        exponent.denominator == 1
        and exponent > 0
        and (place.head.startswith(_WHOLE) or place.head in space.idempotent)
        for place, exponent in product.factors.items()
    )
