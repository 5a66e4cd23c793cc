"""The ways in which two sums are shown to be equal.

First as they are, product by product. Then with elements joined that are the same where they stand,
with both sides times what they are divided by, and at last by the order of the reals.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from .arithmetic import definition, times, unfolded
from .constraint import Constraint
from .equality import exists, require_zero
from .normal import Place, Product, Sum, combined, scaled, single
from .pointwise import require_zero_pointwise
from .solve import Solved
from .space import Space, UndecidedError
from .unified import unified


def require_equal(
    one: Sum,
    two: Sum,
    space: Space,
    purpose: str,
    under: Sequence[Constraint] = (),
    depth: int = 0,
) -> None:
    """Raise UndecidedError unless two sums are shown to be equal.

    To a `depth` of more than 0, parts of what is interned are compared, too, where they stand.
    """
    difference = unfolded(combined([*one, *scaled(two, -1)]), space)
    try:
        require_zero(difference, space, purpose, under)
    except UndecidedError as first:
        forms = [difference]
        if depth:
            joined = _joined(difference, space, purpose, under, depth)
            forms += [] if joined is None else [joined]
        for form in list(forms):
            cleared = _without_divisors(form, space, purpose, under if depth else None)
            forms += [] if cleared is None else [cleared]
        attempts = [partial(require_zero, form, space, purpose, under) for form in forms[1:]]
        if _ordered(difference, space):
            attempts += [
                partial(require_zero_pointwise, form, space, purpose, under) for form in forms
            ]
        for attempt in attempts:
            try:
                attempt()
            except UndecidedError:
                continue
            return
        raise first


def _joined(
    difference: Sum, space: Space, purpose: str, under: Sequence[Constraint], depth: int
) -> list[Product] | None:
    def equal(one: Sum, two: Sum, where: Sequence[Constraint]) -> None:
        require_equal(one, two, space, purpose, where, depth - 1)

    return unified(difference, space, purpose, under, equal)


def _ordered(difference: Sum, space: Space) -> bool:
    """Whether anything in the sum is defined by the order of the reals."""
    return any(
        place.head in space.idempotent or place.head.startswith(("Max", "abs(", "above(", "sign("))
        for product in difference
        for place in product.factors
    )


def _without_divisors(
    difference: Sum, space: Space, purpose: str, under: Sequence[Constraint] | None
) -> list[Product] | None:
    """Return the difference times what it is divided by, or None if there is nothing.

    Only by what isn't 0 wherever the difference has a value: what is always positive, and what
    divides without a condition, so not under a guard, in a sum that may be empty, or beside a
    truth value, which may stand for the choice that made the division. Whether a sum of positive
    numbers has a term where constraints hold is asked if these are given.
    """
    chosen = any(place.head in space.idempotent for p in difference for place in p.factors)
    lowest: dict[Place, Fraction] = {}
    allowed: set[Place] = set()
    for product in difference:
        for place, exponent in product.factors.items():
            if exponent < 0 and place.variables.isdisjoint(product.bound):
                lowest[place] = min(exponent, lowest.get(place, Fraction(0)))
                if space.always_positive(place) or (product.plain and not chosen):
                    allowed.add(place)
    if under is not None:
        rest = [place for place in lowest if place not in allowed]
        allowed |= {place for place in rest if _has_terms(place, space, purpose, under)}
    lowest = {place: exponent for place, exponent in lowest.items() if place in allowed}
    if not lowest:
        return None
    whole = list(difference)
    for place in sorted(lowest, key=lambda place: place.text):
        whole = times(whole, single(place, -lowest[place]), space)
    return whole


def _has_terms(place: Place, space: Space, purpose: str, under: Sequence[Constraint]) -> bool:
    """Whether a place is a sum of positive numbers, one of them at least."""
    virtual = space.virtuals.get(place.head)
    if virtual is None or virtual.kind != "sum":
        return False
    body = definition(place, space)
    if not all(p.coefficient > 0 and all(map(space.always_positive, p.factors)) for p in body):
        return False
    there = " ".join(exists(Solved(one.bound, one.guards), space) for one in body)
    about = [*under, *(guard for one in body for guard in one.guards)]
    texts = [*map(space.solver.constraint, under), f"(not (or false {there}))"]
    return space.solver.ask(f"{purpose}: {place.head} has a term", texts, about) == "unsat"
