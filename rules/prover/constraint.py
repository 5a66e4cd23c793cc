"""Constraints on integers: p >= 0, p = 0, p != 0, joined by and, or; negation is pushed inside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from .polynomial import ZERO, Polynomial, constant, polynomial, variable


class Constraint:
    """A condition on dimensions and indices; immutable.

    `kind` is ge, eq or ne for one polynomial compared with 0, else and, or.
    """

    def __init__(
        self, kind: str, whole: Polynomial = ZERO, parts: tuple[Constraint, ...] = ()
    ) -> None:
        self.kind = kind
        self.whole = whole
        self.parts = parts
        self.text: str
        if kind in ("and", "or"):
            self.text = f"({f' {kind} '.join(part.text for part in parts)})"
        else:
            self.text = f"{whole.text} {_SIGN[kind]} 0"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    @cached_property
    def variables(self) -> frozenset[str]:
        """Return the names of all variables."""
        if self.parts:
            return frozenset().union(*(part.variables for part in self.parts))
        return self.whole.variables

    @cached_property
    def known(self) -> bool | None:
        """Return whether it holds, where that is seen at once."""
        if self.kind in ("and", "or"):
            return None if self.parts else self.kind == "and"
        number = self.whole.number
        if number is not None:
            return {"ge": number >= 0, "eq": number == 0, "ne": number != 0}[self.kind]
        if self.kind != "ge" and self.whole.terms.get((), 0) % _content(self.whole):
            return self.kind == "ne"
        return None

    def polynomials(self) -> Iterable[Polynomial]:
        """Yield what is compared with 0."""
        if self.kind not in ("and", "or"):
            yield self.whole
        for part in self.parts:
            yield from part.polynomials()

    def substitute(self, known: Mapping[str, Polynomial]) -> Constraint:
        """Return the constraint with variables replaced."""
        if self.variables.isdisjoint(known):
            return self
        if self.kind in ("and", "or"):
            return joined(self.kind, [part.substitute(known) for part in self.parts])
        return compared(self.kind, self.whole.substitute(known))

    @cached_property
    def negation(self) -> Constraint:
        """Return the constraint that holds exactly where this one doesn't."""
        match self.kind:
            case "ge":
                return compared("ge", -self.whole - 1)
            case "eq":
                return compared("ne", self.whole)
            case "ne":
                return compared("eq", self.whole)
            case "and":
                return joined("or", [part.negation for part in self.parts])
            case _:
                return joined("and", [part.negation for part in self.parts])

    def conjuncts(self) -> tuple[Constraint, ...]:
        """Return constraints that hold together exactly where this one holds."""
        return self.parts if self.kind == "and" else (self,)


_SIGN = {"ge": ">=", "eq": "=", "ne": "!="}


def _content(whole: Polynomial) -> int:
    """Return the greatest common divisor of the coefficients other than the constant one."""
    from math import gcd

    return gcd(*(c for m, c in whole.terms.items() if m))


def compared(kind: str, whole: Polynomial) -> Constraint:
    """Return p >= 0, p = 0 or p != 0, in lowest terms."""
    if whole.number is None:
        scale = _content(whole)
        lowest = whole.terms.get((), 0)
        if scale > 1 and (kind == "ge" or lowest % scale == 0):
            # for integers, scale * q + lowest >= 0 exactly where q + floor(lowest / scale) >= 0
            terms = {m: c // scale for m, c in whole.terms.items() if m}
            if lowest // scale:
                terms[()] = lowest // scale
            whole = Polynomial(terms, whole.opaque)
        if kind != "ge":
            first = next(m for m in whole.terms if m)
            if whole.terms[first] < 0:
                whole = -whole
    return Constraint(kind, whole)


def joined(kind: str, parts: Iterable[Constraint]) -> Constraint:
    """Return a conjunction or a disjunction, flat and without what is known."""
    found: dict[str, Constraint] = {}
    for part in parts:
        for one in part.parts if part.kind == kind else (part,):
            known = one.known
            if known is None:
                if one.negation.text in found:
                    return FALSE if kind == "and" else TRUE
                found[one.text] = one
            elif known != (kind == "and"):
                return one
    ordered = [found[text] for text in sorted(found)]
    return ordered[0] if len(ordered) == 1 else Constraint(kind, ZERO, tuple(ordered))


TRUE = Constraint("and")
FALSE = Constraint("or")


def at_least(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left >= right."""
    return compared("ge", polynomial(left) - right)


def below(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left < right."""
    return compared("ge", polynomial(right) - left - 1)


def equals(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left = right."""
    return compared("eq", polynomial(left) - right)


def differs(left: Polynomial | int, right: Polynomial | int) -> Constraint:
    """Return left != right."""
    return compared("ne", polynomial(left) - right)


def within(index: Polynomial, extent: Polynomial | int) -> tuple[Constraint, Constraint]:
    """Return 0 <= index < extent."""
    return at_least(index, constant(0)), below(index, extent)


def ordered(names: Iterable[str], constraints: Iterable[Constraint]) -> list[str]:
    """Return indices in an order that owes nothing to their names, as far as possible.

    It is that of the texts of the constraints that speak of them, blind to the names.
    """
    own, whole = set(names), list(constraints)

    def appearance(name: str) -> list[str]:
        blind = {one: variable("!" if one == name else "?") for one in own}
        return sorted(part.substitute(blind).text for part in whole if name in part.variables)

    return sorted(own, key=lambda name: (appearance(name), name))


def connected(
    constraints: Iterable[Constraint], names: Iterable[str], apart: Collection[str]
) -> tuple[Constraint, ...]:
    """Return the constraints that speak of the names, or of others that such constraints speak of.

    Speaking of one of the names in `apart` connects nothing.
    """
    reached = set(names).difference(apart)
    waiting = list(dict.fromkeys(constraints))
    found: list[Constraint] = []
    while True:
        now = [one for one in waiting if not reached.isdisjoint(one.variables)]
        if not now:
            return tuple(sorted(found, key=lambda one: one.text))
        waiting = [one for one in waiting if one not in now]
        found += now
        for one in now:
            reached |= one.variables.difference(apart)
