"""Integer polynomials in sizes and indices: one arithmetic for all who compute with unknown ones.

A polynomial is its own normal form: what is equal at all values has the same terms. What an unknown
is, users say: the name of a free dimension (optimizer/native/shapes/), an index (parallel/cuts/), a
function of polynomials that is none itself (rules/prover/solve/, rules/foreign/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, Generic, Protocol, Self, TypeVar

from .index_notation import Apply, Term, Variable


class Ordered(Protocol):
    """What can be sorted and looked up."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


Atom = TypeVar("Atom", bound=Ordered)


class Polynomial(Generic[Atom]):
    """A sum of monomials with integer coefficients; immutable, and equal where the terms are.

    `terms` are the coefficients other than 0 by monomial. A monomial is a sorted tuple of unknowns,
    each as often as its power; the empty one stands for 1.
    """

    terms: Mapping[tuple[Atom, ...], int]

    def __init__(self, terms: Mapping[tuple[Atom, ...], int]) -> None:
        """Take over coefficients, of which none is 0."""
        self.terms = dict(sorted(terms.items()))

    def _with_terms(self, terms: Mapping[tuple[Atom, ...], int], other: Self | None = None) -> Self:
        """Return a polynomial of the same kind, of terms of this one and of another."""
        return type(self)(terms)

    def _number(self, value: int) -> Self:
        """Return a known number as a polynomial of the same kind."""
        return self._with_terms({(): value} if value else {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def __str__(self) -> str:
        return self.spelled(str)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def spelled(self, name: Callable[[Atom], str], times: str = "*") -> str:
        """Write it for readers: what is added first and numbers last, `2*a*b - c + 1`."""
        text = ""
        for monomial, coefficient in sorted(
            self.terms.items(), key=lambda term: (term[1] < 0, not term[0], term[0])
        ):
            factors = [name(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} " if text else "-" if coefficient < 0 else ""
            text += times.join(factors)
        return text or "0"

    # ---- what it is
    @property
    def number(self) -> int | None:
        """The value of a known number; None where there are unknowns."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def constant(self) -> int:
        """The term without unknowns."""
        return self.terms.get((), 0)

    @property
    def unknown(self) -> Atom | None:
        """The unknown that this is, and nothing else; None where it is more."""
        if len(self.terms) != 1:
            return None
        ((monomial, coefficient),) = self.terms.items()
        return monomial[0] if coefficient == 1 and len(monomial) == 1 else None

    @property
    def content(self) -> int:
        """The greatest common divisor of the coefficients other than the constant; 0 of none."""
        return gcd(*(coefficient for monomial, coefficient in self.terms.items() if monomial))

    @property
    def coefficients(self) -> dict[Atom, int] | None:
        """The coefficients of a sum of multiples of unknowns; None where some are multiplied."""
        if any(len(monomial) > 1 for monomial in self.terms):
            return None
        return {monomial[0]: count for monomial, count in self.terms.items() if monomial}

    # ---- arithmetic
    def __add__(self, other: Self | int) -> Self:
        if isinstance(other, int):
            other = self._number(other)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return self._with_terms(terms, other)

    __radd__ = __add__

    def __neg__(self) -> Self:
        return self._with_terms({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Self | int) -> Self:
        return self + -other

    def __rsub__(self, other: int) -> Self:
        return -self + other

    def __mul__(self, other: Self | int) -> Self:
        if isinstance(other, int):
            other = self._number(other)
        terms: dict[tuple[Atom, ...], int] = {}
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                monomial = tuple(sorted(left + right)) if left and right else left or right
                terms[monomial] = terms.get(monomial, 0) + c * d
        return self._with_terms({m: c for m, c in terms.items() if c}, other)

    __rmul__ = __mul__

    def divided(self, by: Self) -> tuple[Self, Self]:
        """Return q and r with self = q * by + r: terms that a divisor of one term divides, or 0."""
        if len(by.terms) != 1:
            return self._number(0), self
        ((divisor, scale),) = by.terms.items()
        quotient: dict[tuple[Atom, ...], int] = {}
        rest: dict[tuple[Atom, ...], int] = {}
        for monomial, coefficient in self.terms.items():
            remaining = _without(monomial, divisor)
            if remaining is None or coefficient % scale:
                rest[monomial] = coefficient
            else:
                quotient[remaining] = coefficient // scale
        return self._with_terms(quotient), self._with_terms(rest)

    def exact_quotient(self, divisor: Self) -> Self | None:
        """Return q with self = q * divisor, found by long division; None where there is none."""
        if not divisor.terms:
            return None
        # terms by degree: what is multiplied keeps its order
        lead = max(divisor.terms, key=_by_degree)
        quotient, rest = self._number(0), self
        while rest.terms:
            monomial = max(rest.terms, key=_by_degree)
            remaining = _without(monomial, lead)
            if remaining is None or rest.terms[monomial] % divisor.terms[lead]:
                return None
            part = self._with_terms({remaining: rest.terms[monomial] // divisor.terms[lead]})
            quotient, rest = quotient + part, rest - part * divisor
        return quotient

    def replaced(self, replace: Callable[[Atom], Self]) -> Self:
        """Return the polynomial with others in the places of its unknowns."""
        whole = self._number(0)
        for monomial, coefficient in self.terms.items():
            product = self._number(coefficient)
            for atom in monomial:
                product = product * replace(atom)
            whole = whole + product
        return whole


def _by_degree(monomial: tuple[Atom, ...]) -> tuple[int, tuple[Atom, ...]]:
    return len(monomial), monomial


def _without(monomial: tuple[Atom, ...], factors: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """Return a monomial divided by another one; None where that doesn't divide it."""
    remaining = list(monomial)
    for factor in factors:
        if factor not in remaining:
            return None
        remaining.remove(factor)
    return tuple(remaining)


def linear(term: Term) -> Polynomial[Variable] | None:
    """Return an index as a sum of multiples of indices; None where it is none."""
    match term:
        case bool():
            return None
        case int():
            return Polynomial({(): term} if term else {})
        case Variable():
            return Polynomial({(term,): 1})
        case Apply("neg", (operand,)):
            whole = linear(operand)
            return None if whole is None else -whole
        case Apply("+" | "-" | "*" as function, (left, right)):
            first, other = linear(left), linear(right)
            if first is None or other is None:
                return None
            if function == "*":
                is_linear = first.number is not None or other.number is not None
                return first * other if is_linear else None
            return first + other if function == "+" else first - other
        case _:
            return None
