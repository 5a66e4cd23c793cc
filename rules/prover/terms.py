"""Walking through terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term

T = TypeVar("T")


def parts(term: Term) -> Iterator[Term]:
    """Yield a term and all terms inside of it, bound variables included."""
    yield term
    for part in inside(term):
        yield from parts(part)


def parts_outside_reads(term: Term) -> Iterator[Term]:
    """Yield a term and the terms inside of it, but not those at which an element of it is read."""
    yield term
    if not isinstance(term, Read):
        for part in inside(term):
            yield from parts_outside_reads(part)


def inside(term: Term) -> tuple[Term, ...]:
    """The terms that a term is made of, bound variables included."""
    match term:
        case Apply(_, arguments):
            return arguments
        case Select(condition, then, otherwise):
            return (condition, then, otherwise)
        case Read(_, indices):
            return indices
        case Reduce(_, variables, extents, condition, body):
            return (*variables, *extents, condition, body)
        case _:
            return ()


def symbols(term: Term) -> Iterator[Symbol]:
    """Yield the symbols of a term."""
    yield from (part for part in parts(term) if isinstance(part, Symbol))


def symbol_names(term: Term) -> set[str]:
    """The names of a term's symbols."""
    return {symbol.name for symbol in symbols(term)}


def elements(term: Term) -> set[Read]:
    """The elements that a term reads."""
    return {part for part in parts(term) if isinstance(part, Read)}


def reads(term: Term) -> bool:
    """Whether a term reads an element of a tensor, or reduces."""
    return any(isinstance(part, Read | Reduce) for part in parts(term))


def without(items: tuple[T, ...], at: int | None) -> tuple[T, ...]:
    """A tuple without the item at a place; None: all of it."""
    return items if at is None else (*items[:at], *items[at + 1 :])
