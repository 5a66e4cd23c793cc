"""Monotone functions, taken out of the largest or smallest of elements.

The largest of f(x_k) is f of the largest x_k where f rises, and of the smallest where it falls. So
what all elements share is taken off, layer by layer: a positive factor, a summand, a reciprocal of
what is positive, exponentials, logarithms, roots, and functions known to rise. Both sides of a rule
then hold f of the same set, wherever f was written. An element that another is never below goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from ..normal.arithmetic import tidy, times, unfolded
from ..normal.context import Context
from ..normal.definedness import Path
from ..normal.piecewise import by_cases
from ..normal.sums import (
    Place,
    Product,
    Sum,
    argument_of,
    canonical,
    combined,
    function_of,
    known_number,
    number,
    scaled,
    single,
)
from ..solve.polynomials import Constraint
from . import elementary
from .comparisons import above_zero
from .rounding_and_sign import absolute, rounded, signum

# f(x) <= f(y) wherever x <= y and both have a value.
RISING = elementary.ROUNDINGS | {"erf", "atan", "asinh", "asin", "atanh", "floor", "round", "sign"}
FALLING = frozenset({"acos"})
# Beyond, elements aren't compared with each other.
_MOST_COMPARED = 6


@dataclass(frozen=True)
class Element:
    """A sum at each value of bound indices for which guards hold."""

    bound: tuple[str, ...]
    guards: tuple[Constraint, ...]
    whole: Sum

    @property
    def plain(self) -> bool:
        """Whether it is one element, and there."""
        return not self.bound and not self.guards

    def of(self, whole: Sum) -> Element:
        """Return another sum at the same indices."""
        return Element(self.bound, self.guards, whole)


def element_of(member: Product, context: Context) -> Element:
    """Return a place, or a known number, as an element; an interned sum is written out."""
    (place,) = member.factors
    if place.head.startswith("C:"):
        whole = number(Fraction(place.head[2:]))
    else:
        whole = unfolded(single(place), context)
    return Element(member.bound, member.guards, whole)


@dataclass(frozen=True)
class Layer:
    """What was taken off: each element is `outside` of one of `inner`, which falls if `flips`."""

    inner: tuple[Element, ...]
    outside: Callable[[Sum], list[Product]]
    flips: bool = False


def undominated(elements: Sequence[Element], least: bool, context: Context) -> list[Element]:
    """Return the elements without those that one that is surely there is never below (above)."""
    plain = [element for element in elements if element.plain]
    if len(elements) < 2 or len(plain) > _MOST_COMPARED or not plain:
        return list(elements)
    kept = list(elements)
    for present in plain:
        for other in list(kept):
            if other is present or present not in kept or len(kept) == 1:
                continue
            above, below = (other, present) if least else (present, other)
            difference = combined([*above.whole, *scaled(below.whole, -1)])
            if elementary.sign(difference, context) is not None:
                kept.remove(other)
    return kept


def layer_of(elements: Sequence[Element], context: Context) -> Layer | None:
    """Return the outermost monotone function that all elements share, if one is seen."""
    if all(known_number(element.whole) is not None for element in elements):
        return None
    return (
        _factor(elements, context)
        or _summand(elements)
        or _constant(elements)
        or _inverse(elements, context)
    )


def _is_outer(product: Product, element: Element) -> bool:
    return product.variables.isdisjoint(element.bound)


# ---- factors
def _factor(elements: Sequence[Element], context: Context) -> Layer | None:
    products = [product for element in elements for product in element.whole]
    size = Fraction(
        gcd(*(abs(p.coefficient.numerator) for p in products)),
        lcm(*(p.coefficient.denominator for p in products)),
    )
    inner = frozenset().union(*(e.bound for e in elements), *(p.bound for p in products))
    common: dict[Place, Fraction] = {}
    for place in products[0].factors:
        if place.variables.isdisjoint(inner) and all(place in p.factors for p in products):
            exponent = _shared([p.factors[place] for p in products], place, context)
            if exponent:
                common[place] = exponent
    if size == 1 and not common:
        return None
    inverse = [Product(1 / size, (), (), {place: -e for place, e in common.items()})]
    outer = [Product(size, (), (), common)]
    taken = tuple(element.of(times(element.whole, inverse, context)) for element in elements)
    return Layer(taken, lambda whole: times(outer, whole, context))


def _shared(exponents: Sequence[Fraction], place: Place, context: Context) -> Fraction:
    """Return a power of a place that is in all of the powers, and never negative."""
    if not (all(e > 0 for e in exponents) or all(e < 0 for e in exponents)):
        return Fraction(0)
    exponent = min(exponents, key=abs)
    even = exponent.denominator != 1 or exponent % 2 == 0
    return exponent if even or context.never_below_zero(place) else Fraction(0)


# ---- summands
def _summand(elements: Sequence[Element]) -> Layer | None:
    if len(elements) == 1 and elements[0].plain:
        return None
    shared: dict[str, Product] | None = None
    for element in elements:
        outer_products = {
            canonical(product): product
            for product in element.whole
            if _is_outer(product, element) and product.factors
        }
        if shared is None:
            shared = outer_products
        else:
            shared = {
                text: product
                for text, product in shared.items()
                if text in outer_products
                and outer_products[text].coefficient == product.coefficient
            }
        if not shared:
            return None
    return _shifted(elements, list((shared or {}).values()))


def _shifted(elements: Sequence[Element], by: Sum) -> Layer:
    minus = scaled(by, -1)
    taken = tuple(element.of(combined([*element.whole, *minus])) for element in elements)
    return Layer(taken, lambda whole: combined([*whole, *by]))


def _constant(elements: Sequence[Element]) -> Layer | None:
    """Take off the constant of the first element, in an order blind to the names of indices."""
    first = min(
        (_shape(rest), constant)
        for element in elements
        for rest, constant in [_parts(element.whole)]
        if rest
    )
    return _shifted(elements, number(first[1])) if first[1] else None


def _parts(whole: Sum) -> tuple[list[Product], Fraction]:
    constant = Fraction(0)
    rest = []
    for product in whole:
        if product.plain and not product.factors:
            constant += product.coefficient
        else:
            rest.append(product)
    return rest, constant


def _shape(whole: Sum) -> list[tuple[str, Fraction]]:
    return sorted(
        (" ".join(sorted(f"{p.head}^{e}" for p, e in product.factors.items())), product.coefficient)
        for product in whole
    )


# ---- functions
def _inverse(elements: Sequence[Element], context: Context) -> Layer | None:
    """Take off a function of elements that are each one product, or a known number."""
    varied = [element.whole[0] for element in elements if _alone(element.whole)]
    constants = [k for element in elements if (k := known_number(element.whole)) is not None]
    if len(varied) + len(constants) < len(elements):
        return None
    sign = 1 if varied[0].coefficient > 0 else -1
    if any((product.coefficient > 0) != (sign > 0) for product in varied):
        return None
    bare = [element.of(scaled(element.whole, sign)) for element in elements]
    varied = [product.scaled(sign) for product in varied]
    constants = [value * sign for value in constants]
    layer = (
        _exponential(bare, varied, constants, context)
        or _reciprocal(bare, varied, constants, context)
        or _root(bare, varied, constants, context)
        or _rising_or_falling(bare, varied, constants, context)
    )
    if layer is None or sign > 0:
        return layer
    return Layer(layer.inner, lambda whole: scaled(layer.outside(whole), -1), not layer.flips)


def _alone(whole: Sum) -> bool:
    return len(whole) == 1 and whole[0].plain and bool(whole[0].factors)


def _exponential(
    elements: Sequence[Element],
    varied: Sequence[Product],
    constants: Sequence[Fraction],
    context: Context,
) -> Layer | None:
    powers = all(p.head.startswith(("exp(", "N:")) for product in varied for p in product.factors)
    if not powers or any(value <= 0 for value in constants):
        return None
    if not all(any(p.head.startswith("exp(") for p in product.factors) for product in varied):
        return None
    inner = [
        element.of(elementary.logarithm(element.whole, context, Path())) for element in elements
    ]
    return Layer(tuple(inner), lambda whole: applied("exp", whole, context))


def _reciprocal(
    elements: Sequence[Element],
    varied: Sequence[Product],
    constants: Sequence[Fraction],
    context: Context,
) -> Layer | None:
    """Take off 1 / x where x is a sum, and positive since it divides."""
    if any(value <= 0 for value in constants):
        return None
    for product in varied:
        sums = [p for p, e in product.factors.items() if e == -1 and p.head in context.interned]
        if not sums and any(e > 0 for e in product.factors.values()):
            return None
        for place, exponent in product.factors.items():
            even = exponent.denominator != 1 or exponent % 2 == 0
            positive = context.always_positive(place)
            if not (positive or (exponent < 0 and (even or context.never_below_zero(place)))):
                return None
    inner = []
    for element in elements:
        (product,) = element.whole
        factors = {place: -e for place, e in product.factors.items()}
        whole = tidy([Product(1 / product.coefficient, (), (), factors)], context)
        inner.append(element.of(unfolded(whole, context)))
    return Layer(tuple(inner), lambda whole: applied("/", whole, context), True)


def _root(
    elements: Sequence[Element],
    varied: Sequence[Product],
    constants: Sequence[Fraction],
    context: Context,
) -> Layer | None:
    """Take off x ^ e for e > 0, where x isn't negative since it has a root or is seen not to be.

    An even power of what may be negative is one of its size.
    """
    exponents = {e for product in varied for e in product.factors.values()}
    if len(exponents) != 1 or any(value not in (0, 1) for value in constants):
        return None
    (exponent,) = exponents
    if exponent == 1 or exponent < 0 or any(product.coefficient != 1 for product in varied):
        return None
    whole_exponent = exponent.denominator == 1
    places = [place for product in varied for place in product.factors]
    signed = whole_exponent and not all(map(context.never_below_zero, places))
    if signed and exponent % 2:
        return None
    if not whole_exponent and any(len(product.factors) != 1 for product in varied):
        return None
    inner = []
    for element in elements:
        if known_number(element.whole) is None:
            factors = dict.fromkeys(element.whole[0].factors, Fraction(1))
            inner_whole = unfolded([Product(1, (), (), factors)], context)
            element = element.of(absolute(inner_whole, context) if signed else inner_whole)
        inner.append(element)
    return Layer(tuple(inner), lambda whole: raised(whole, exponent, context))


def _rising_or_falling(
    elements: Sequence[Element],
    varied: Sequence[Product],
    constants: Sequence[Fraction],
    context: Context,
) -> Layer | None:
    """Take off a function that is known to rise or to fall, by name."""
    names = set()
    for product in varied:
        if product.coefficient != 1 or len(product.factors) != 1:
            return None
        ((place, exponent),) = product.factors.items()
        if exponent != 1:
            return None
        names.add(function_of(place))
    if len(names) != 1:
        return None
    name = next(iter(names))
    if name is None or name not in RISING | FALLING | {"log"}:
        return None
    if name == "log":
        kept = any(constants)
    else:
        kept = any(constants) or (bool(constants) and not elementary.fixes_zero(name))
    if kept or (name == "log" and constants):
        return None
    inner = []
    for element in elements:
        if known_number(element.whole) is None:
            (place,) = element.whole[0].factors
            element = element.of(unfolded(single(argument_of(place)), context))
        inner.append(element)
    return Layer(tuple(inner), lambda whole: applied(name, whole, context), flips=name in FALLING)


# ---- functions that have a value
def applied(function: str, whole: Sum, context: Context) -> list[Product]:
    """Return a function of a sum that has a value: nothing more is asked for."""

    def apply(part: Sum, path: Path) -> list[Product]:
        match function:
            case "exp":
                return elementary.exponential(part, context)
            case "/":
                return elementary.reciprocal(part, context, path)
            case "log":
                return elementary.logarithm(part, context, path)
            case "abs":
                return absolute(part, context)
            case "above":
                return above_zero(part, context)
            case "sign":
                return signum(part, context)
            case "floor" | "round":
                return rounded(function, part, context, path)
            case _:
                return elementary.opaque(function, [part], context, path)

    return by_cases(whole, context, Path(), apply)


def raised(whole: Sum, exponent: Fraction, context: Context) -> list[Product]:
    """Return a power of a sum that has one."""
    return by_cases(
        whole,
        context,
        Path(),
        lambda part, path: elementary.raised(part, number(exponent), context, path),
    )
