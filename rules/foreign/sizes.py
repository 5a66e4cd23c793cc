"""Sizes of tensors as polynomials over unknown sizes, and what follows when two must be equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import total_ordering
from operator import attrgetter


@total_ordering
@dataclass(frozen=True)
class Atom:
    """An unknown size (`kind` "size"), a quotient ("floor", "exact") or a broadcast size ("wide").

    `parts` are (numerator, divisor) of a quotient, and the sizes that broadcast together.
    """

    name: str
    kind: str = "size"
    parts: tuple[Size, ...] = ()

    def __lt__(self, other: Atom) -> bool:
        return (self.kind, self.name) < (other.kind, other.name)


Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Size:
    """A polynomial with integer coefficients: pairs of a sorted monomial and its coefficient."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Size | int) -> Size:
        return _collected([*self.terms, *size(other).terms])

    def __sub__(self, other: Size | int) -> Size:
        return self + size(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        return _collected(
            (tuple(sorted(a + b)), x * y) for a, x in self.terms for b, y in size(other).terms
        )

    @property
    def number(self) -> int | None:
        """The value of a size without unknowns."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def atom(self) -> Atom | None:
        """The unknown size that this is, if it is just one."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            return atom if atom.kind == "size" else None
        return None

    def atoms(self) -> set[Atom]:
        """All unknowns, those inside of quotients and broadcast sizes too."""
        atoms: set[Atom] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                atoms.add(atom)
                for part in atom.parts:
                    atoms |= part.atoms()
        return atoms

    def replaced(self, values: Mapping[Atom, Size]) -> Size:
        """The size with other sizes in the places of some unknowns."""
        total = size(0)
        for monomial, coefficient in self.terms:
            product = size(coefficient)
            for atom in monomial:
                product = product * _replaced_atom(atom, values)
            total = total + product
        return total

    def divided(self, divisor: Size) -> Size | None:
        """The exact quotient by a divisor that is not 0, where the polynomial shows it."""
        if self == divisor:
            return size(1)
        quotient = size(0)
        rest = self
        if not divisor.terms:
            return None
        lead, factor = divisor.terms[-1]
        while rest.terms:
            monomial, coefficient = rest.terms[-1]
            remaining = list(monomial)
            for atom in lead:
                if atom not in remaining:
                    return None
                remaining.remove(atom)
            if coefficient % factor:
                return None
            part = Size(((tuple(remaining), coefficient // factor),))
            quotient = quotient + part
            before, rest = rest, rest - part * divisor
            if len(rest.terms) >= len(before.terms) + len(divisor.terms):
                return None
        return quotient


def _collected(terms: Iterable[tuple[Monomial, int]]) -> Size:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in sums.items() if c]
    return Size(tuple(sorted(kept, key=lambda term: (len(term[0]), term[0]))))


def size(value: Size | int) -> Size:
    """A number as a size."""
    if isinstance(value, Size):
        return value
    return Size((((), value),) if value else ())


def exact(numerator: Size, divisor: Size) -> Size:
    """The quotient of sizes of which one must divide the other."""
    quotient = numerator.divided(divisor)
    if quotient is not None:
        return quotient
    atom = Atom(f"{numerator}/{divisor}", "exact", (numerator, divisor))
    return Size((((atom,), 1),))


def size_text(length: Size, name: Callable[[Atom], str]) -> str:
    """A size as an expression of the rule language; `name` tells how an unknown is written."""
    parts: list[str] = []
    for monomial, coefficient in _for_reading(length):
        factors = [_atom_text(atom, name) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        text = " * ".join(factors)
        parts.append(f" {sign} {text}" if parts else text if coefficient > 0 else f"-{text}")
    return "".join(parts) or "0"


def _for_reading(length: Size) -> list[tuple[Monomial, int]]:
    """The terms, what is added first and numbers last."""
    return sorted(length.terms, key=lambda term: (term[1] < 0, term[0] == (), term[0]))


def _atom_text(atom: Atom, name: Callable[[Atom], str]) -> str:
    if atom.kind in ("floor", "exact"):
        numerator, divisor = (size_text(part, name) for part in atom.parts)
        sign = "//" if atom.kind == "floor" else "/"
        return f"({_enclosed(numerator)} {sign} {_enclosed(divisor)})"
    return name(atom)


def _enclosed(text: str) -> str:
    plain = re.fullmatch(r"\w+|dim\([^()]*\)|\(\([^()]*\) /{1,2} \w+\)", text)
    return text if plain else f"({text})"


def floor(numerator: Size, divisor: int) -> Size:
    """The quotient rounded down."""
    if divisor == 1:
        return numerator
    value = numerator.number
    if value is not None:
        return size(value // divisor)
    return Size((((Atom(f"{numerator}//{divisor}", "floor", (numerator, size(divisor))),), 1),))


def wide(sizes: Iterable[Size]) -> Size:
    """The size that others broadcast to: the one that isn't 1."""
    parts: set[Size] = set()
    for item in sizes:
        atom = item.terms[0][0][0] if len(item.terms) == 1 and len(item.terms[0][0]) == 1 else None
        if atom is not None and atom.kind == "wide" and item.terms[0][1] == 1:
            parts |= set(atom.parts)
        elif item.number != 1:
            parts.add(item)
    if len(parts) <= 1:
        return next(iter(parts), size(1))
    known = [p for p in parts if p.number is not None]
    if len(known) == 1:
        return known[0]  # not 1, so the others are 1 or the same
    ordered = tuple(sorted(parts, key=str))
    return Size((((Atom("|".join(map(str, ordered)), "wide", ordered),), 1),))


def _replaced_atom(atom: Atom, values: Mapping[Atom, Size]) -> Size:
    if atom in values:
        return values[atom]
    if atom.kind == "floor":
        numerator, divisor = (part.replaced(values) for part in atom.parts)
        return floor(numerator, divisor.number or 1)
    if atom.kind == "exact":
        return exact(*(part.replaced(values) for part in atom.parts))
    if atom.kind == "wide":
        return wide(part.replaced(values) for part in atom.parts)
    return Size((((atom,), 1),))


class ContradictionError(Exception):
    """Two sizes can't be equal."""


class Equalities:
    """Equations between sizes, solved for unknowns as they come; the rest is kept as it stands.

    Of two unknowns the younger gives way, so that names stay those of the first operand.
    """

    def __init__(self) -> None:
        self.order: dict[Atom, int] = {}
        self.solved: dict[Atom, Size] = {}
        self.open: list[tuple[Size, Size]] = []

    def fresh(self, name: str) -> Size:
        """A new unknown; a number is appended to a name that is taken."""
        atom = Atom(name)
        count = 1
        while atom in self.order:
            count += 1
            atom = Atom(f"{name}{count}")
        self.order[atom] = len(self.order)
        return Size((((atom,), 1),))

    def resolve(self, value: Size) -> Size:
        """A size in terms of the unknowns that are left."""
        return value.replaced(self.solved)

    def equate(self, left: Size, right: Size) -> None:
        """Take two sizes to be equal; ContradictionError where they can't be."""
        left, right = self.resolve(left), self.resolve(right)
        difference = left - right
        if not difference.terms:
            return
        signs = {coefficient > 0 for _, coefficient in difference.terms}
        if len(signs) == 1:  # a number that is not 0, or sizes that would all have to be 0
            name = attrgetter("name")
            raise ContradictionError(f"{size_text(left, name)} = {size_text(right, name)}")
        solution = self._solution(difference)
        if solution is None:
            if (left, right) not in self.open and (right, left) not in self.open:
                self.open.append((left, right))
            return
        atom, value = solution
        replacement = {atom: value}
        self.solved = {a: v.replaced(replacement) for a, v in self.solved.items()} | replacement
        waiting, self.open = self.open, []
        for pair in waiting:
            self.equate(*pair)

    def _solution(self, difference: Size) -> tuple[Atom, Size] | None:
        """The youngest unknown that the equation gives as a sum without a minus."""
        solutions: list[tuple[Atom, Size]] = []
        for monomial, coefficient in difference.terms:
            if len(monomial) != 1 or abs(coefficient) != 1 or monomial[0].kind != "size":
                continue
            atom = monomial[0]
            rest = (difference - Size(((monomial, coefficient),))) * -coefficient
            broadcast = any(a.kind == "wide" for a in rest.atoms())
            if not broadcast and atom not in rest.atoms() and all(c > 0 for _, c in rest.terms):
                solutions.append((atom, rest))
        cancelled = self._cancelled(difference)
        if cancelled is not None and not solutions:
            return self._solution(cancelled)
        return max(solutions, key=lambda pair: self.order.get(pair[0], -1), default=None)

    @staticmethod
    def _cancelled(difference: Size) -> Size | None:
        """The equation without a factor that all terms share; sizes that divide are not 0."""
        common = list(difference.terms[0][0])
        for monomial, _ in difference.terms[1:]:
            remaining = list(monomial)
            kept = []
            for atom in common:
                if atom in remaining:
                    remaining.remove(atom)
                    kept.append(atom)
            common = kept
        if not common:
            return None
        return difference.divided(Size(((tuple(common), 1),)))
