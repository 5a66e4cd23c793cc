"""From integer terms, made of sizes, indices and elements, to polynomials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction

from ...catalog.operators.terms import Apply, Read, Select, Symbol, Term, Variable
from . import functions
from .constraint import Constraint, differs
from .definedness import Path
from .kinds import INDEX, Kinds
from .normal import Place, Product, Sum
from .polynomial import (
    ZERO,
    Polynomial,
    choice,
    constant,
    element,
    extreme,
    quotient,
    remainder,
)
from .space import UndecidedError
from .virtual import abstracted

Indices = Mapping[Variable, Polynomial]
Truth = Constraint | list[Product]


class Integers(Kinds, ABC):
    """Lowers terms that are integers."""

    @abstractmethod
    def read(self, tensor: str, places: tuple[Polynomial, ...], path: Path) -> list[Product]:
        """Return an element of a tensor, in the tensor's own algebra."""

    @abstractmethod
    def truth(self, term: Term, indices: Indices, path: Path) -> Truth:
        """Return a condition as a constraint on integers, or as a sum that is 0 or 1."""

    def index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        """Return an integer term as a polynomial."""
        return self.space.fold(self._index(term, indices, path))

    def _index(self, term: Term, indices: Indices, path: Path) -> Polynomial:
        match term:
            case bool() | float():
                raise UndecidedError(f"{term} is no index")
            case int():
                return constant(term)
            case Variable():
                return indices[term]
            case Symbol(name, kind) if kind != "real":
                return self.symbol(name)
            case Apply(function, arguments) if function in INDEX:
                parts = [self.index(argument, indices, path) for argument in arguments]
                if function in ("//", "%") and not self.space.is_positive(parts[1], parts[0]):
                    path.ask("holds", differs(parts[1], 0))
                return _polynomial(function, parts)
            case Select(condition, then, otherwise):
                truth = self.truth(condition, indices, path)
                if not isinstance(truth, Constraint):
                    raise UndecidedError("an index depends on a truth value")
                one = self.index(then, indices, path.inner(truth.conjuncts()))
                two = self.index(otherwise, indices, path.inner(truth.negation.conjuncts()))
                return choice(truth, one, two)
            case Read(tensor, inner) if self.algebra(tensor) == "integer":
                places = tuple(self.index(place, indices, path) for place in inner)
                return self._element(self.read(tensor, places, path))
            case _:
                raise UndecidedError(f"{term} is no index")

    def _element(self, whole: Sum) -> Polynomial:
        """Return an element of the integer algebra as an integer."""
        if any(product.outer_guards() for product in whole):
            raise UndecidedError("an index is an element by cases")
        known = functions.integral(whole)
        if known is not None:
            return known
        value = abstracted(whole, self.space)
        if isinstance(value, Fraction):
            return constant(int(value))
        if value.head in self.space.exact:
            value = Place(self.space.exact[value.head][0], value.indices)
        return value.indices[0] if value.head == "#INT" else element(value.head, value.indices)


def _polynomial(function: str, parts: Sequence[Polynomial]) -> Polynomial:
    match function:
        case "+":
            return parts[0] + parts[1]
        case "-":
            return parts[0] - parts[1]
        case "*":
            return parts[0] * parts[1]
        case "//":
            return quotient(parts[0], parts[1])
        case "%":
            return remainder(parts[0], parts[1])
        case "neg":
            return ZERO - parts[0]
        case "max" | "min":
            return extreme(function, parts[0], parts[1])
        case "abs":
            return extreme("max", parts[0], -parts[0])
        case _:  # floor and ceil of an integer
            return parts[0]
