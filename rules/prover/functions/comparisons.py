"""Whether a real number is above 0, in the simplest form that has the same answer.

a > b is f(a) > f(b) for a function that rises strictly, and f(a) < f(b) for one that falls. So what
both sides of a comparison share is taken off: positive factors, exponentials, reciprocals of what
is positive, roots, functions known to rise. A product is above 0 as its factors are that may be
negative.
"""

from __future__ import annotations

from fractions import Fraction

from ..normal.arithmetic import plus, tidy, unfolded
from ..normal.context import Context
from ..normal.definedness import Path
from ..normal.interning import abstracted
from ..normal.sums import (
    Place,
    Product,
    Sum,
    argument_of,
    function_of,
    known_number,
    number,
    scaled,
    single,
)
from . import elementary

# f(x) < f(y) wherever x < y and both have a value.
STRICTLY_RISING = frozenset({"erf", "atan", "asinh", "asin", "atanh", "log"})


def above_zero(whole: Sum, context: Context) -> list[Product]:
    """Return whether x > 0, as 0 or 1."""
    constant_value = known_number(whole)
    if constant_value is not None:
        return number(1 if constant_value > 0 else 0)
    if elementary.sign(whole, context) == 1:
        return number(1)
    if elementary.sign(scaled(whole, -1), context) is not None:
        return []
    common = elementary.common_powers(whole, context, only_positive=True)
    smallest = min(abs(product.coefficient) for product in whole)
    bare = elementary.divided_by(whole, common, smallest, context)
    simpler = bare if common else _simpler(bare, context)
    if simpler is not None:
        return above_zero(simpler, context)
    value = abstracted(bare, context)
    if isinstance(value, Fraction):
        return number(1 if value > 0 else 0)
    head = f"above({value.head})"
    context.idempotent.add(head)
    return single(Place(head, value.indices))


def _simpler(whole: Sum, context: Context) -> list[Product] | None:
    """Return a sum that is above 0 where this one is, below where it is, or None."""
    if not all(product.plain for product in whole):
        return None
    if len(whole) == 1:
        return _of_product(whole[0], context)
    if len(whole) != 2 or (whole[0].coefficient > 0) == (whole[1].coefficient > 0):
        return None
    above, below = sorted(whole, key=lambda product: -product.coefficient)
    below = below.scaled(-1)
    return (
        _exponentials(above, below, context)
        or _reciprocals(above, below, context)
        or _powers(above, below, context)
        or _rising_arguments(above, below, context)
    )


def _of_product(product: Product, context: Context) -> list[Product] | None:
    factors: dict[Place, Fraction] = {}
    for place, exponent in product.factors.items():
        even = exponent.denominator == 1 and exponent % 2 == 0
        if exponent < 0 and (even or exponent.denominator != 1):
            continue  # positive where it has a value
        factors[place] = exponent if even else Fraction(1)
    sign = 1 if product.coefficient > 0 else -1
    if factors != product.factors:
        return tidy([Product(sign, (), (), factors)], context)
    if len(factors) != 1:
        return None
    ((place, exponent),) = factors.items()
    name = function_of(place)
    if exponent != 1 or name not in STRICTLY_RISING:
        return None
    inner = _argument(place, context)
    if name == "log":
        inner = plus(inner, number(-1))
    return scaled(inner, sign)


def _exponentials(above: Product, below: Product, context: Context) -> list[Product] | None:
    """Compare the logarithms of products of exponentials and positive numbers."""
    heads = [place.head for product in (above, below) for place in product.factors]
    if not all(head.startswith(("exp(", "N:")) for head in heads):
        return None
    if not any(head.startswith("exp(") for head in heads):
        return None
    above_logarithm, below_logarithm = (
        elementary.logarithm([product], context, Path()) for product in (above, below)
    )
    return plus(above_logarithm, scaled(below_logarithm, -1))


def _reciprocals(above: Product, below: Product, context: Context) -> list[Product] | None:
    """Compare what two positive numbers are divided by."""
    both = [*above.factors.items(), *below.factors.items()]
    if not both or any(exponent > 0 for _, exponent in both):
        return None
    if not all(e.denominator != 1 or context.always_positive(p) for p, e in both):
        return None
    above_inverse, below_inverse = (_inverse(product, context) for product in (above, below))
    return plus(below_inverse, scaled(above_inverse, -1))


def _inverse(product: Product, context: Context) -> list[Product]:
    factors = {place: -exponent for place, exponent in product.factors.items()}
    return unfolded(tidy([Product(1 / product.coefficient, (), (), factors)], context), context)


def _powers(above: Product, below: Product, context: Context) -> list[Product] | None:
    """Compare what roots are taken of, and what odd powers are powers of."""
    exponents = {e for product in (above, below) for e in product.factors.values()}
    if len(exponents) != 1 or len(above.factors) > 1 or len(below.factors) > 1:
        return None
    (exponent,) = exponents
    if exponent.denominator == 1:
        same = above.coefficient == below.coefficient and above.factors and below.factors
        if exponent < 2 or exponent % 2 == 0 or not same:
            return None
        by = 1
    elif exponent > 0 and exponent.numerator == 1:
        by = exponent.denominator
    else:
        return None
    difference: list[Product] = []
    for product, sign in ((above, 1), (below, -1)):
        factors = dict.fromkeys(product.factors, Fraction(1))
        difference.append(Product(sign * product.coefficient**by, (), (), factors))
    return unfolded(tidy(difference, context), context)


def _rising_arguments(above: Product, below: Product, context: Context) -> list[Product] | None:
    """Compare the arguments of a function that is known to rise."""
    if above.coefficient != below.coefficient:
        return None
    arguments = []
    names = set()
    for product in (above, below):
        if list(product.factors.values()) != [1]:
            return None
        (place,) = product.factors
        names.add(function_of(place))
        arguments.append(place)
    if len(names) != 1 or not names <= STRICTLY_RISING:
        return None
    above_argument, below_argument = (_argument(place, context) for place in arguments)
    return plus(above_argument, scaled(below_argument, -1))


def _argument(place: Place, context: Context) -> list[Product]:
    return unfolded(single(argument_of(place)), context)
