"""What the normal forms of one statement share: indices and their ranges, interned expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd

from ....catalog.terms.index_notation import Term
from ..solve.polynomials import (
    ZERO,
    Constraint,
    Opaque,
    Polynomial,
    at_least,
    compared,
    connected,
    constant,
    equals,
    joined,
    quotient,
    rebuilt,
    variable,
    within,
)
from ..solve.smt import Solver
from .sums import Place, Product


class UndecidedError(Exception):
    """What can't be shown, and why; neither a proof nor a refutation."""


@dataclass(frozen=True)
class Interned:
    """An interned expression as a tensor over its parameters $0, $1, …

    sum: the sum of the products. max, most, least: the largest or smallest of the elements that the
    products stand for (coefficient 1, one place each) where their guards hold. prod: the product
    of such elements. `shifts` are what each parameter held of dimensions where it was first seen.
    """

    head: str
    kind: str
    arity: int
    body: tuple[Product, ...]
    shifts: tuple[Polynomial, ...]


def parameter(number: int) -> str:
    """Return the name of a parameter of interned expressions."""
    return f"${number}"


@dataclass
class Context:
    """Names, ranges and interned expressions; `symbols` are the dimensions and other integers."""

    solver: Solver
    symbols: frozenset[str]
    extents: dict[str, Polynomial] = field(default_factory=dict)
    interned: dict[str, Interned] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    # What holds at every index of the tensors compared: it need not be a guard.
    ambient: set[Constraint] = field(default_factory=set)
    positive: set[str] = field(default_factory=set)
    never_negative: set[str] = field(default_factory=set)
    idempotent: set[str] = field(default_factory=set)
    # Conversions of integers that keep every value, by head: the head and type that they convert.
    exact: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Conversions to integers of what lies in their range, by head: they rise with it.
    saturated: set[str] = field(default_factory=set)
    # Functions of the bits of integers: which one, and of what.
    bitwise: dict[Place | Fraction, tuple[str, tuple[Place | Fraction, ...]]] = field(
        default_factory=dict
    )
    # What is assumed of real symbols.
    real_conditions: list[Term] = field(default_factory=list)
    widest: int = 0
    deadline: Callable[[], None] = lambda: None
    _count: int = 0
    _folded: dict[str, Polynomial] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop what was simplified before more was assumed."""
        self._folded.clear()
        self.solver.forget()

    def fresh(self, extent: Polynomial | None) -> str:
        """Return the name of a new index below `extent`."""
        self._count += 1
        name = f"i@{self._count}"
        if extent is not None:
            self.extents[name] = extent
        return name

    def index(self) -> str:
        """Return the name of a new index of which no more is known."""
        return self.fresh(None)

    def renamed(self, product: Product) -> Product:
        """Return a product with new bound indices."""
        if not product.bound:
            return product
        new = {name: variable(self.fresh(None)) for name in product.bound}
        for name, other in new.items():
            extent = self.extents.get(name) or _upper(product, name)
            if extent is not None and other.variable is not None:
                self.extents[other.variable] = extent.substitute(new)
        return product.substitute(new)

    def ranges(self, names: Iterable[str]) -> list[Constraint]:
        """Return 0 <= i < extent for the indices among names."""
        constraints: list[Constraint] = []
        for name in sorted(names):
            if name in self.extents:
                constraints += within(variable(name), self.extents[name])
        return constraints

    def follows(self, condition: Constraint, guards: Iterable[Constraint]) -> bool:
        """Whether a condition is seen to hold where guards do."""
        if self.solver.plain(condition):
            return True
        parts = [condition.negation, *connected(guards, condition.variables, self.symbols)]
        # both sides of a rule ask the same of windows whose indices have other names
        whole = joined("and", parts)
        known = self.symbols.union(self.solver.minimum)
        free_names = sorted(whole.variables - known, key=lambda name: (len(name), name))
        names = {name: variable(f"k@{number}") for number, name in enumerate(free_names)}
        return not self.solver.feasible([whole.substitute(names)])

    def never_below_zero(self, place: Place) -> bool:
        """Whether an element is at least 0 wherever it has a value."""
        if self.always_positive(place) or place.head in self.never_negative:
            return True
        if place.head in self.idempotent:
            return True
        return place.head == "#INT" and self.solver.bound(place.indices[0]) >= 0

    def always_positive(self, place: Place) -> bool:
        """Whether an element is more than 0 wherever it has a value."""
        if place.head in self.positive or place.head.startswith("N:"):
            return True
        return place.head == "#INT" and self.solver.bound(place.indices[0]) >= 1

    # ---- quotients and remainders of indices whose range is known
    def fold(self, whole: Polynomial) -> Polynomial:
        """Return an equal polynomial, where (a * q + r) // q is a and its remainder r."""
        if not whole.opaque:
            return whole
        folded = self._folded.get(whole.text)
        if folded is None:
            folded = self._exact(whole.map(self._fold_atom))
            self._folded[whole.text] = folded
        return folded

    def fold_constraint(self, whole: Constraint) -> Constraint:
        """Return an equal constraint with polynomials folded."""
        if whole.kind in ("and", "or"):
            return joined(whole.kind, [self.fold_constraint(part) for part in whole.parts])
        return compared(whole.kind, self.fold(whole.whole)) if whole.whole.opaque else whole

    def _exact(self, whole: Polynomial) -> Polynomial:
        """Return an equal polynomial, where b * (a // b) is a if that leaves no rest."""
        for monomial, coefficient in whole.terms.items():
            for name in monomial:
                atom = whole.opaque.get(name)
                if atom is None or atom.function != "//" or not self._leaves_no_rest(atom):
                    continue
                of, by = atom.arguments
                factors = list(monomial)
                factors.remove(name)
                part = Polynomial({tuple(factors): coefficient}, whole.opaque)
                times, rest = part.divided(by)
                if times.terms and not rest.terms:
                    without = whole - Polynomial({monomial: coefficient}, whole.opaque)
                    return self._exact(without + times * of)
        return whole

    def _leaves_no_rest(self, atom: Opaque) -> bool:
        of, by = atom.arguments
        exact = equals(Polynomial({(atom.text,): 1}, {atom.text: atom}) * by, of)
        return exact in self.ambient or exact in self.solver.assumptions

    def _fold_atom(self, name: str, atom: Opaque | None) -> Polynomial:
        if atom is None:
            return variable(name)
        folded = rebuilt(atom, self.fold, self.fold_constraint)
        inner = _only_atom(folded)
        if inner is None:
            return folded
        if inner.function == "if":
            assert inner.condition is not None
            plain = self.solver.plain(inner.condition)
            return folded if plain is None else inner.arguments[0 if plain else 1]
        if inner.function == "//":
            return self._quotient(*inner.arguments)
        return folded

    def _quotient(self, whole: Polynomial, by: Polynomial) -> Polynomial:
        """Return floor(whole / by), by laws that hold for positive divisors."""
        if not self.is_positive(by, whole):
            return quotient(whole, by)
        content = constant(gcd(*whole.terms.values(), *by.terms.values()))
        if content.number != 1:  # floor((n a) / (n b)) = floor(a / b)
            whole, by = whole.divided(content)[0], by.divided(content)[0]
        multiple = self._multiple(by)
        if multiple is not None:
            times, rest = whole.divided(multiple[0])
            if times.terms:
                return times * multiple[1] + self._quotient(rest, by)
        outer, rest = whole.divided(by)
        exact = self._multiples(rest, by)
        for part, times in exact:
            outer, rest = outer + times, rest - part
        if self.in_range(rest, by):
            return outer
        if self.in_range(-1 - rest, by):
            return outer - 1
        if outer.terms:
            return outer + self._quotient(rest, by)
        inner = _only_atom(rest)
        if inner is not None and inner.function == "//":
            first, second = inner.arguments
            if self.is_positive(second, first):  # floor(floor(a / b) / c) = floor(a / (b c))
                return self._quotient(first, second * by)
        for scale, small in self._digits(rest):
            # floor((b a + s) / (b c)) = floor(a / c) for 0 <= s < b
            high, remainder = (rest - small).divided(scale)
            times, more = by.divided(scale)
            if not remainder.terms and not more.terms and times.terms:
                return self._quotient(high, times)
        return quotient(rest, by)

    def _multiple(self, by: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """Return a and b with a = b * by, where a quotient a // b is known to leave no rest."""
        inner = _only_atom(by)
        if inner is None or inner.function != "//":
            return None
        whole, other = inner.arguments
        exact = equals(other * by, whole)
        is_exact = exact in self.ambient or exact in self.solver.assumptions
        return (whole, other) if is_exact and len(whole.terms) == 1 else None

    def _multiples(self, whole: Polynomial, by: Polynomial) -> list[tuple[Polynomial, Polynomial]]:
        """Return the terms that are known to be multiples of a divisor, and how often they hold it.

        floor((a + r) / b) is a / b + floor(r / b) where a // b is known to leave no rest.
        """
        multiples = []
        for monomial, coefficient in whole.terms.items():
            for name in monomial:
                if name in whole.opaque:
                    continue
                once = quotient(variable(name), by)
                inner = _only_atom(once)
                if inner is not None and inner.function == "//" and self._leaves_no_rest(inner):
                    factors = list(monomial)
                    factors.remove(name)
                    beside = Polynomial({tuple(factors): coefficient}, whole.opaque)
                    multiples.append((beside * variable(name), beside * once))
                    break
        return multiples

    def _digits(self, rest: Polynomial) -> Iterable[tuple[Polynomial, Polynomial]]:
        """Yield b and s such that s is a part of the polynomial and 0 <= s < b."""
        for monomial, coefficient in rest.terms.items():
            if coefficient == 1 and len(monomial) == 1 and monomial[0] in self.extents:
                yield self.extents[monomial[0]], variable(monomial[0])
        for atom in rest.opaque.values():
            if atom.function == "//" and self.is_positive(atom.arguments[1], atom.arguments[0]):
                whole, by = atom.arguments  # whole - by * (whole // by)
                if atom.text in rest.text:
                    yield by, whole - by * Polynomial({(atom.text,): 1}, {atom.text: atom})
        common = _common_factor(rest)
        if common is not None and self.is_positive(common, rest):
            yield common, ZERO

    def is_positive(self, by: Polynomial, whole: Polynomial) -> bool:
        """Whether a divisor is at least 1 wherever the indices in `whole` have a value.

        An index below a product of numbers that aren't negative shows that none of them is 0.
        """
        if self.solver.bound(by) >= 1:
            return True
        if len(by.terms) != 1:
            return False
        multiple = self._multiple(by)
        if multiple is not None and self.solver.bound(multiple[1]) >= 1:
            return self.is_positive(multiple[0], whole)
        ((factors, scale),) = by.terms.items()
        if scale < 1:
            return False
        shown: set[str] = set()
        for name in whole.variables:
            extent = self.extents.get(name)
            if extent is not None and len(extent.terms) == 1:
                ((monomial, size),) = extent.terms.items()
                parts = [Polynomial({(part,): 1}, extent.opaque) for part in monomial]
                if size > 0 and all(self.solver.bound(part) >= 0 for part in parts):
                    shown |= set(monomial)
        return all(
            part in shown or self.solver.bound(Polynomial({(part,): 1}, by.opaque)) >= 1
            for part in factors
        )

    def _factored(self, by: Polynomial) -> Iterable[Polynomial]:
        """Yield b * (a // b) for a size a of which it is known that this leaves no rest."""
        if by.variable is None:
            return
        for assumption in self.solver.assumptions:
            atoms = list(assumption.whole.atoms()) if assumption.kind == "eq" else []
            if len(atoms) == 1 and atoms[0].function == "//" and atoms[0].arguments[0] == by:
                (atom,) = atoms
                if self._leaves_no_rest(atom):
                    quotient = Polynomial({(atom.text,): 1}, {atom.text: atom})
                    yield quotient * atom.arguments[1]

    def in_range(self, rest: Polynomial, by: Polynomial) -> bool:
        """Whether 0 <= rest < by is seen from the ranges of indices."""
        if rest.number is not None:
            return rest.number >= 0 and self.solver.bound(by - rest.number) >= 1
        name = rest.variable
        if name is not None and self.extents.get(name) == by:
            return True
        if any(self.in_range(rest, other) for other in self._factored(by)):
            return True
        for scale, small in self._digits(rest):
            if not small.terms:
                continue
            outer, remainder = (rest - small).divided(scale)
            times, more = by.divided(scale)
            if not remainder.terms and not more.terms and self.in_range(outer, times):
                return True
        return False


def _only_atom(whole: Polynomial) -> Opaque | None:
    if len(whole.terms) != 1:
        return None
    ((monomial, coefficient),) = whole.terms.items()
    return whole.opaque.get(monomial[0]) if coefficient == 1 and len(monomial) == 1 else None


def _common_factor(whole: Polynomial) -> Polynomial | None:
    """Return the monomial that divides all of a polynomial, if there is one."""
    monomials = list(whole.terms)
    if not monomials:
        return None
    common = [part for part in monomials[0] if all(part in other for other in monomials)]
    distinct = tuple(sorted(set(common)))
    return Polynomial({distinct: 1}, whole.opaque) if distinct else None


def _upper(product: Product, name: str) -> Polynomial | None:
    """Return n where the guards of a product say 0 <= name < n."""
    if at_least(variable(name), 0) not in product.guards:
        return None
    for guard in product.guards:
        if guard.kind == "ge" and guard.whole.terms.get((name,)) == -1:
            value = guard.whole.linear(name)
            if value is not None:
                return value + 1
    return None
