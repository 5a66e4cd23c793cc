"""The ways in which two sums are shown to be equal.

First as they are, product by product (coefficients.py). Then with elements joined that are the same
where they stand, with both sides times what they are divided by, and at last by the order of the
reals (real_order.py).

Elements of a sum may be the same wherever they stand, though they are written otherwise. The
largest of a window of the upper half of an image is that of the window of the whole image, for the
rows whose windows lie in that half: the sets are the same where the guards of a product hold, not
everywhere. There, one takes the place of the other, and so do functions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from ..solve.polynomials import Constraint, equals, joined
from .arithmetic import definition, times, unfolded
from .coefficients import exists, place_of, require_same_elements, require_same_family, require_zero
from .context import Context, UndecidedError
from .elimination import Eliminated
from .real_order import require_zero_pointwise
from .sums import (
    Place,
    Product,
    Sum,
    argument_of,
    combined,
    function_of,
    multiplied,
    scaled,
    single,
)

# Beyond, pairs aren't compared: most aren't the same.
_MOST_PAIRS = 24

# Raises UndecidedError unless two sums are shown to be equal where constraints hold.
Equal = Callable[[Sum, Sum, Sequence[Constraint]], None]


def unified(
    difference: Sum, context: Context, purpose: str, under: Sequence[Constraint], equal: Equal
) -> list[Product] | None:
    """Return the sum with places that are the same as one, or None if there are none."""
    pairs = _Pairs(context, purpose, equal)
    seen: list[tuple[Place, list[Constraint]]] = []
    products: list[Product] = []
    for product in difference:
        guards = product.outer_guards()
        factors = []
        for place, exponent in product.factors.items():
            new = place
            if place.variables.isdisjoint(product.bound) and _of_kind(place, context):
                new = pairs.first(place, seen, [*under, *guards])
                if new == place:
                    seen.append((place, guards))
            factors.append((new, exponent))
        products.append(
            Product(product.coefficient, product.bound, product.guards, multiplied(factors))
        )
    return combined(products) if pairs.same else None


def _of_kind(place: Place, context: Context) -> bool:
    return place.head in context.interned or function_of(place) is not None


class _Pairs:
    """Pairs of places, as far as they are compared."""

    def __init__(self, context: Context, purpose: str, equal: Equal) -> None:
        self.context, self.purpose, self.equal = context, purpose, equal
        self.count = 0
        self.same = 0

    def first(
        self,
        place: Place,
        seen: Sequence[tuple[Place, list[Constraint]]],
        under: Sequence[Constraint],
    ) -> Place:
        """Return the first place seen that is the same as this one, or this one."""
        if any(other == place for other, _ in seen):
            return place
        for other, guards in seen:
            alike = self._kind(other) == self._kind(place)
            if not alike or not self.context.solver.feasible([*under, *guards]):
                continue
            self.count += 1
            if self.count > _MOST_PAIRS:
                break
            try:
                self.require_same(other, place, under)
            except UndecidedError:
                continue
            self.same += 1
            return other
        return place

    def _kind(self, place: Place) -> str | None:
        entry = self.context.interned.get(place.head)
        return f"{entry.kind}#" if entry is not None else function_of(place)

    def require_same(self, left: Place, right: Place, under: Sequence[Constraint]) -> None:
        """Raise UndecidedError unless two places are one where the constraints hold."""
        context = self.context
        if left.head == right.head:
            pairs = zip(left.indices, right.indices, strict=True)
            whole = joined("and", [equals(a, b) for a, b in pairs])
            if context.solver.valid(f"{self.purpose}: one place", whole, under) != "unsat":
                raise UndecidedError(f"{self.purpose}: not seen to be one place")
            return
        kind = self._kind(left)
        if kind is None or kind != self._kind(right):
            raise UndecidedError(f"{self.purpose}: places of different kinds")
        if not kind.endswith("#"):
            self.require_same(argument_of(left), argument_of(right), under)
            return
        first, second = definition(left, context), definition(right, context)
        if kind == "sum#":
            self.equal(first, second, under)
        elif kind == "prod#":
            require_same_family(first, second, context, self.purpose, under)
        else:
            renamed = [self._renamed(member, first, under) for member in second]
            require_same_elements(first, renamed, context, self.purpose, under)

    def _renamed(
        self, member: Product, others: Sequence[Product], under: Sequence[Constraint]
    ) -> Product:
        """Return an element of a set under the name that one of the others has for it."""
        place = place_of(member)
        if not member.plain or not _of_kind(place, self.context):
            return member
        plain = [(place_of(other), list(under)) for other in others if other.plain]
        return Product(1, (), (), {self.first(place, plain, under): member.factors[place]})


def require_equal(
    left: Sum,
    right: Sum,
    context: Context,
    purpose: str,
    under: Sequence[Constraint] = (),
    depth: int = 0,
) -> None:
    """Raise UndecidedError unless two sums are shown to be equal.

    To a `depth` of more than 0, parts of what is interned are compared, too, where they stand.
    """
    difference = unfolded(combined([*left, *scaled(right, -1)]), context)
    try:
        require_zero(difference, context, purpose, under)
    except UndecidedError as first:
        forms = [difference]
        if depth:
            joined = _joined(difference, context, purpose, under, depth)
            forms += [] if joined is None else [joined]
        for form in list(forms):
            cleared = _without_divisors(form, context, purpose, under if depth else None)
            forms += [] if cleared is None else [cleared]
        attempts = [partial(require_zero, form, context, purpose, under) for form in forms[1:]]
        if _ordered(difference, context):
            attempts += [
                partial(require_zero_pointwise, form, context, purpose, under) for form in forms
            ]
        for attempt in attempts:
            try:
                attempt()
            except UndecidedError:
                continue
            return
        raise first


def _joined(
    difference: Sum, context: Context, purpose: str, under: Sequence[Constraint], depth: int
) -> list[Product] | None:
    def equal(left: Sum, right: Sum, where: Sequence[Constraint]) -> None:
        require_equal(left, right, context, purpose, where, depth - 1)

    return unified(difference, context, purpose, under, equal)


def _ordered(difference: Sum, context: Context) -> bool:
    """Whether anything in the sum is defined by the order of the reals."""
    return any(
        place.head in context.idempotent
        or place.head.startswith(("Max", "abs(", "above(", "sign("))
        for product in difference
        for place in product.factors
    )


def _without_divisors(
    difference: Sum, context: Context, purpose: str, under: Sequence[Constraint] | None
) -> list[Product] | None:
    """Return the difference times what it is divided by, or None if there is nothing.

    Only by what isn't 0 wherever the difference has a value: what is always positive, and what
    divides without a condition, so not under a guard, in a sum that may be empty, or beside a
    truth value, which may stand for the choice that made the division. Whether a sum of positive
    numbers has a term where constraints hold is asked if these are given.
    """
    chosen = any(place.head in context.idempotent for p in difference for place in p.factors)
    lowest: dict[Place, Fraction] = {}
    allowed: set[Place] = set()
    for product in difference:
        for place, exponent in product.factors.items():
            if exponent < 0 and place.variables.isdisjoint(product.bound):
                lowest[place] = min(exponent, lowest.get(place, Fraction(0)))
                if context.always_positive(place) or (product.plain and not chosen):
                    allowed.add(place)
    if under is not None:
        rest = [place for place in lowest if place not in allowed]
        allowed |= {place for place in rest if _has_terms(place, context, purpose, under)}
    lowest = {place: exponent for place, exponent in lowest.items() if place in allowed}
    if not lowest:
        return None
    whole = list(difference)
    for place in sorted(lowest, key=lambda place: place.text):
        whole = times(whole, single(place, -lowest[place]), context)
    return whole


def _has_terms(place: Place, context: Context, purpose: str, under: Sequence[Constraint]) -> bool:
    """Whether a place is a sum of positive numbers, one of them at least."""
    entry = context.interned.get(place.head)
    if entry is None or entry.kind != "sum":
        return False
    body = definition(place, context)
    if not all(p.coefficient > 0 and all(map(context.always_positive, p.factors)) for p in body):
        return False
    terms = " ".join(exists(Eliminated(product.bound, product.guards), context) for product in body)
    about = [*under, *(guard for product in body for guard in product.guards)]
    texts = [*map(context.solver.constraint, under), f"(not (or false {terms}))"]
    return context.solver.ask(f"{purpose}: {place.head} has a term", texts, about) == "unsat"
