"""Elements of a sum that are the same wherever they stand, though they are written otherwise.

The largest of a window of the upper half of an image is that of the window of the whole image, for
the rows whose windows lie in that half: the sets are the same where the guards of a product hold,
not everywhere. There, one takes the place of the other, and so do functions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .arithmetic import definition
from .constraint import Constraint, equals, joined
from .equality import place_of, require_same_elements, require_same_family
from .heads import argument_of, function_of
from .normal import Place, Product, Sum, combined, multiplied
from .space import Space, UndecidedError

# Beyond, pairs aren't compared: most aren't the same.
_MOST_PAIRS = 24

# Raises UndecidedError unless two sums are shown to be equal where constraints hold.
Equal = Callable[[Sum, Sum, Sequence[Constraint]], None]


def unified(
    difference: Sum, space: Space, purpose: str, under: Sequence[Constraint], equal: Equal
) -> list[Product] | None:
    """Return the sum with places that are the same as one, or None if there are none."""
    pairs = _Pairs(space, purpose, equal)
    seen: list[tuple[Place, list[Constraint]]] = []
    found: list[Product] = []
    for product in difference:
        guards = product.outer_guards()
        factors = []
        for place, exponent in product.factors.items():
            new = place
            if place.variables.isdisjoint(product.bound) and _made(place, space):
                new = pairs.first(place, seen, [*under, *guards])
                if new == place:
                    seen.append((place, guards))
            factors.append((new, exponent))
        found.append(
            Product(product.coefficient, product.bound, product.guards, multiplied(factors))
        )
    return combined(found) if pairs.same else None


def _made(place: Place, space: Space) -> bool:
    return place.head in space.virtuals or function_of(place) is not None


class _Pairs:
    """Pairs of places, as far as they are compared."""

    def __init__(self, space: Space, purpose: str, equal: Equal) -> None:
        self.space, self.purpose, self.equal = space, purpose, equal
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
            if not alike or not self.space.solver.feasible([*under, *guards]):
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
        virtual = self.space.virtuals.get(place.head)
        return f"{virtual.kind}#" if virtual is not None else function_of(place)

    def require_same(self, one: Place, two: Place, under: Sequence[Constraint]) -> None:
        """Raise UndecidedError unless two places are one where the constraints hold."""
        space = self.space
        if one.head == two.head:
            pairs = zip(one.indices, two.indices, strict=True)
            whole = joined("and", [equals(a, b) for a, b in pairs])
            if space.solver.valid(f"{self.purpose}: one place", whole, under) != "unsat":
                raise UndecidedError(f"{self.purpose}: not seen to be one place")
            return
        kind = self._kind(one)
        if kind is None or kind != self._kind(two):
            raise UndecidedError(f"{self.purpose}: places of different kinds")
        if not kind.endswith("#"):
            self.require_same(argument_of(one), argument_of(two), under)
            return
        first, second = definition(one, space), definition(two, space)
        if kind == "sum#":
            self.equal(first, second, under)
        elif kind == "prod#":
            require_same_family(first, second, space, self.purpose, under)
        else:
            renamed = [self._renamed(member, first, under) for member in second]
            require_same_elements(first, renamed, space, self.purpose, under)

    def _renamed(
        self, member: Product, others: Sequence[Product], under: Sequence[Constraint]
    ) -> Product:
        """Return an element of a set under the name that one of the others has for it."""
        place = place_of(member)
        if not member.plain or not _made(place, self.space):
            return member
        plain = [(place_of(other), list(under)) for other in others if other.plain]
        return Product(1, (), (), {self.first(place, plain, under): member.factors[place]})
