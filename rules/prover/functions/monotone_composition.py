"""Elements that are one monotone function of one place each, found by looking through heads.

Where a function doesn't come off layer by layer, as LeakyRelu doesn't, since its argument stands
in it more than once, all that an element holds may still be one place and what is the same for all:
f(x_k). If every part of f rises, the largest f(x_k) is f of the largest x_k; if every part falls,
of the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..normal.arithmetic import definition, plus, times, unfolded
from ..normal.context import Context
from ..normal.piecewise import under_truth
from ..normal.sums import (
    Place,
    Product,
    Sum,
    argument_of,
    canonical,
    function_of,
    known_number,
    scaled,
    single,
)
from . import elementary
from .monotone import (
    FALLING,
    RISING,
    Element,
    Layer,
    applied,
    element_of,
    raised,
)

Largest = Callable[[Sequence[Element]], list[Product]]

_HOLE = Place("hole@")
_MANY = Place("many@")
_SEEN_THROUGH = RISING | FALLING | {"exp", "log", "abs", "above"}


def composed(elements: Sequence[Element], context: Context, largest: Largest) -> Layer | None:
    """Return a monotone function of one place that all elements are, if it is seen to be one."""
    constants: list[Fraction] = []
    shape: str | None = None
    function: list[Product] = []
    inner: list[Element] = []
    for element in elements:
        value = known_number(element.whole)
        if value is not None:
            constants.append(value)
            inner.append(element.of([]))
            continue
        bases = set(_varying(element.whole, element.bound, (), context))
        if len(bases) != 1 or _MANY in bases:
            return None
        (base,) = bases
        inner.append(element.of(single(base)))
        function = _Filled(base, single(_HOLE), context, largest).sum(element.whole)
        text = " + ".join(
            sorted(f"{product.coefficient} {canonical(product)}" for product in function)
        )
        if shape not in (None, text):
            return None
        shape = text
    if [product.factors for product in function] == [{_HOLE: Fraction(1)}]:
        return None  # nothing comes off

    def outside(whole: Sum) -> list[Product]:
        return _Filled(_HOLE, whole, context, largest).sum(function)

    if constants and any(known_number(outside([])) != value for value in constants):
        return None
    for flips in (False, True):
        if _Rising(context, largest).sum(scaled(function, -1) if flips else function):
            return Layer(tuple(inner), outside, flips)
    return None


def _varying(
    whole: Sum, element_indices: Sequence[str], summed: Sequence[str], context: Context
) -> Iterator[Place]:
    """Yield the places that vary with an element's indices and aren't seen to be functions.

    What varies with an index over which something is summed within, too, is no one place.
    """
    for product in whole:
        within = {*summed, *product.bound}
        for place in product.factors:
            if not place.variables.isdisjoint(within):
                yield _MANY
            elif not place.variables.isdisjoint(element_indices):
                inner = _inside(place, context)
                if inner is None:
                    yield place
                for part in inner or ():
                    yield from _varying(
                        part.whole, element_indices, (*within, *part.bound), context
                    )


def _inside(place: Place, context: Context) -> list[Element] | None:
    """Return the sums that a place is a function of."""
    entry = context.interned.get(place.head)
    if entry is not None:
        if entry.kind == "sum":
            return [Element((), (), definition(place, context))]
        if entry.kind == "max":
            return [element_of(part, context) for part in definition(place, context)]
        return None
    if function_of(place) in _SEEN_THROUGH:
        return [Element((), (), unfolded(single(argument_of(place)), context))]
    return None


@dataclass(frozen=True)
class _Filled:
    """The same expressions where a place is a given sum."""

    hole: Place
    by: Sum
    context: Context
    largest: Largest

    def sum(self, whole: Sum) -> list[Product]:
        """Return a sum with the place replaced."""
        total: list[Product] = []
        for product in whole:
            kept = {p: e for p, e in product.factors.items() if not self.holds(p)}
            part: list[Product] = [
                Product(product.coefficient, product.bound, product.guards, kept)
            ]
            for place, exponent in product.factors.items():
                if place not in kept:
                    power = raised(self._place(place), exponent, self.context)
                    part = times(part, power, self.context)
            total = plus(total, part)
        return total

    def holds(self, place: Place) -> bool:
        """Whether a place is the one replaced or a function of it."""
        return place == self.hole or any(
            self.holds(other)
            for element in _inside(place, self.context) or ()
            for product in element.whole
            for other in product.factors
        )

    def _place(self, place: Place) -> list[Product]:
        if place == self.hole:
            return list(self.by)
        inner = [
            element.of(self.sum(element.whole)) for element in _inside(place, self.context) or ()
        ]
        entry = self.context.interned.get(place.head)
        if entry is None:
            return applied(function_of(place) or "", inner[0].whole, self.context)
        return list(inner[0].whole) if entry.kind == "sum" else self.largest(inner)


@dataclass(frozen=True)
class _Rising:
    """Whether expressions are never smaller where the hole is larger."""

    context: Context
    largest: Largest

    def sum(self, whole: Sum) -> bool:
        """Whether a sum rises."""
        truth = self._truth(whole)
        if truth is not None:
            return self._by_cases(whole, truth)
        return all(map(self._product, whole))

    def _holds(self, place: Place) -> bool:
        return self._filled([]).holds(place)

    def _filled(self, by: Sum) -> _Filled:
        return _Filled(_HOLE, by, self.context, self.largest)

    def _truth(self, whole: Sum) -> Place | None:
        """Return a comparison with the hole that chooses between parts of a sum."""
        for product in whole:
            for place in product.factors:
                if place.head.startswith("above(") and product.plain and self._holds(place):
                    return place
        return None

    def _by_cases(self, whole: Sum, truth: Place) -> bool:
        """Whether a sum rises on both sides of a threshold, and doesn't fall there."""
        tested = unfolded(single(argument_of(truth)), self.context)
        hole_products = [product for product in tested if any(map(self._holds, product.factors))]
        if (
            len(hole_products) != 1
            or not hole_products[0].plain
            or hole_products[0].factors != {_HOLE: Fraction(1)}
        ):
            return False
        slope = hole_products[0].coefficient
        threshold = scaled(
            [product for product in tested if product is not hole_products[0]], -1 / slope
        )
        above = under_truth(whole, truth, slope > 0, self.context)
        below = under_truth(whole, truth, slope < 0, self.context)
        if not (self.sum(above) and self.sum(below)):
            return False
        step = self._filled(threshold).sum(plus(above, scaled(below, -1)))
        return elementary.sign(step, self.context) is not None

    def _product(self, product: Product) -> bool:
        inner = {p: e for p, e in product.factors.items() if self._holds(p)}
        if not inner:
            return True
        outer = {p: e for p, e in product.factors.items() if p not in inner}
        rest = [Product(product.coefficient, product.bound, product.guards, outer)]
        for sign in (1, -1):
            if elementary.sign(scaled(rest, sign), self.context) is None:
                continue
            alone = len(inner) == 1 or all(map(self.context.never_below_zero, inner))
            return alone and all(self._power(p, e, sign) for p, e in inner.items())
        return False

    def _power(self, place: Place, exponent: Fraction, sign: int) -> bool:
        """Whether a power of a place rises, or, for a sign of -1, falls."""
        if exponent != 1 and not self.context.never_below_zero(place):
            return False
        return self._place(place, sign if exponent > 0 else -sign)

    def _place(self, place: Place, sign: int) -> bool:
        if place == _HOLE:
            return sign > 0
        entry = self.context.interned.get(place.head)
        name = function_of(place)
        if entry is None and name in FALLING:
            sign = -sign
        elif entry is None and name not in RISING | {"exp", "log"}:
            return False
        return all(
            self.sum(scaled(element.whole, sign)) for element in _inside(place, self.context) or ()
        )
