"""Definitions of a statement put into one another: an output element as a term over operands."""

from __future__ import annotations

from collections.abc import Mapping

from ....catalog.operators.expand import Definition
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Term,
    Variable,
    apply,
    is_integer,
    select,
)

_LARGEST = 4000


class NotScalarError(Exception):
    """An element that is no single expression of elements of operands, and why."""


def inlined_element(
    definition: Definition, definitions: Mapping[str, Definition], indices: tuple[Term, ...]
) -> Term:
    """Return an element of a tensor, with everything that it reads put in down to the operands.

    Arithmetic on elements stays as it is written: nothing is folded. Raises NotScalarError where
    there is a sum or another reduction, or far too much of anything.
    """
    return _Inliner(definitions).of(definition, indices)


class _Inliner:
    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.definitions = definitions
        self.inlined: dict[tuple[str, tuple[Term, ...]], Term] = {}
        self.steps = 0

    def of(self, definition: Definition, indices: tuple[Term, ...]) -> Term:
        key = (definition.name, indices)
        if key not in self.inlined:
            bound = dict(zip(definition.indices, indices, strict=True))
            self.inlined[key] = self.term(definition.value, bound)
        return self.inlined[key]

    def term(self, term: Term, bound: Mapping[Variable, Term]) -> Term:
        self.steps += 1
        if self.steps > _LARGEST:
            raise NotScalarError("the expression is too long")
        match term:
            case Variable():
                return bound.get(term, term)
            case Apply(function, arguments):
                inner = tuple(self.term(argument, bound) for argument in arguments)
                return (
                    apply(function, *inner)
                    if _foldable(function, inner)
                    else Apply(function, inner)
                )
            case Select(condition, then, otherwise):
                chosen = self.term(condition, bound)
                if isinstance(chosen, bool):
                    return self.term(then if chosen else otherwise, bound)
                return select(chosen, self.term(then, bound), self.term(otherwise, bound))
            case Read(tensor, indices):
                places = tuple(self.term(index, bound) for index in indices)
                if tensor in self.definitions:
                    return self.of(self.definitions[tensor], places)
                return Read(tensor, places)
            case Reduce(kind):
                raise NotScalarError(f"there is a {kind} over an index")
            case _:
                return term


def _foldable(function: str, arguments: tuple[Term, ...]) -> bool:
    """Tell whether terms are of indices, or truth values: numbers alone may be elements."""
    if function in ("and", "or", "not"):
        return True
    if not arguments or not all(is_integer(argument) for argument in arguments):
        return False
    are_numbers = all(isinstance(argument, int) for argument in arguments)
    return not are_numbers or function in COMPARISONS
