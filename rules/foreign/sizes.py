"""Sizes of tensors as polynomials over unknown sizes, and what follows when two must be equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import total_ordering
from operator import attrgetter

from ...catalog.terms.polynomials import Polynomial


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

    def __str__(self) -> str:
        return self.name


class Size(Polynomial[Atom]):
    """A size of a tensor as a polynomial over unknown ones."""

    @property
    def atom(self) -> Atom | None:
        """The unknown size that this is, if it is just one."""
        unknown = self.unknown
        return unknown if unknown is not None and unknown.kind == "size" else None

    def atoms(self) -> set[Atom]:
        """All unknowns, those inside of quotients and broadcast sizes too."""
        atoms = {atom for monomial in self.terms for atom in monomial}
        return atoms.union(*(part.atoms() for atom in atoms for part in atom.parts))

    def substitute(self, replacements: Mapping[Atom, Size]) -> Size:
        """The size with other sizes in the places of some unknowns."""
        return self.replaced(lambda atom: _substituted(atom, replacements))


def size(value: Size | int) -> Size:
    """A number as a size."""
    if isinstance(value, Size):
        return value
    return Size({(): value} if value else {})


def of_atom(atom: Atom) -> Size:
    """An unknown size as a size."""
    return Size({(atom,): 1})


def exact(numerator: Size, divisor: Size) -> Size:
    """The quotient of sizes of which one must divide the other."""
    quotient = numerator.exact_quotient(divisor)
    if quotient is not None:
        return quotient
    return of_atom(Atom(f"({numerator})/({divisor})", "exact", (numerator, divisor)))


def size_text(length: Size, name: Callable[[Atom], str]) -> str:
    """A size as an expression of the rule language; `name` tells how an unknown is written."""
    return length.spelled(lambda atom: _atom_text(atom, name), times=" * ")


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
    return of_atom(Atom(f"({numerator})//{divisor}", "floor", (numerator, size(divisor))))


def wide(sizes: Iterable[Size]) -> Size:
    """The size that others broadcast to: the one that isn't 1."""
    parts: set[Size] = set()
    for item in sizes:
        unknown = item.unknown
        if unknown is not None and unknown.kind == "wide":
            parts |= set(unknown.parts)
        elif item.number != 1:
            parts.add(item)
    if len(parts) <= 1:
        return next(iter(parts), size(1))
    numbers = [p for p in parts if p.number is not None]
    if len(numbers) == 1:
        return numbers[0]  # not 1, so the others are 1 or the same
    ordered = tuple(sorted(parts, key=str))
    return of_atom(Atom("|".join(map(str, ordered)), "wide", ordered))


def _substituted(atom: Atom, replacements: Mapping[Atom, Size]) -> Size:
    if atom in replacements:
        return replacements[atom]
    if atom.kind == "floor":
        numerator, divisor = (part.substitute(replacements) for part in atom.parts)
        return floor(numerator, divisor.number or 1)
    if atom.kind == "exact":
        return exact(*(part.substitute(replacements) for part in atom.parts))
    if atom.kind == "wide":
        return wide(part.substitute(replacements) for part in atom.parts)
    return of_atom(atom)


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
        return of_atom(atom)

    def resolve(self, value: Size) -> Size:
        """A size in terms of the unknowns that are left."""
        return value.substitute(self.solved)

    def equate(self, left: Size, right: Size) -> None:
        """Take two sizes to be equal; ContradictionError where they can't be."""
        left, right = self.resolve(left), self.resolve(right)
        difference = left - right
        if not difference.terms:
            return
        signs = {coefficient > 0 for coefficient in difference.terms.values()}
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
        self.solved = {a: v.substitute(replacement) for a, v in self.solved.items()} | replacement
        waiting, self.open = self.open, []
        for pair in waiting:
            self.equate(*pair)

    def _solution(self, difference: Size) -> tuple[Atom, Size] | None:
        """The youngest unknown that the equation gives as a sum without a minus."""
        solutions: list[tuple[Atom, Size]] = []
        for monomial, coefficient in difference.terms.items():
            if len(monomial) != 1 or abs(coefficient) != 1 or monomial[0].kind != "size":
                continue
            atom = monomial[0]
            rest = (difference - Size({monomial: coefficient})) * -coefficient
            broadcast = any(a.kind == "wide" for a in rest.atoms())
            positive = all(count > 0 for count in rest.terms.values())
            if not broadcast and atom not in rest.atoms() and positive:
                solutions.append((atom, rest))
        cancelled = self._cancelled(difference)
        if cancelled is not None and not solutions:
            return self._solution(cancelled)
        return max(solutions, key=lambda pair: self.order.get(pair[0], -1), default=None)

    @staticmethod
    def _cancelled(difference: Size) -> Size | None:
        """The equation without a factor that all terms share; sizes that divide are not 0."""
        first, *others = difference.terms
        common = list(first)
        for monomial in others:
            remaining = list(monomial)
            shared = []
            for atom in common:
                if atom in remaining:
                    remaining.remove(atom)
                    shared.append(atom)
            common = shared
        return difference.divided(Size({tuple(common): 1}))[0] if common else None
