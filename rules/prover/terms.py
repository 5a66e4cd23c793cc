"""Walking through terms."""

from __future__ import annotations

from collections.abc import Iterator

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term


def parts(term: Term) -> Iterator[Term]:
    """Yield a term and all terms inside of it, bound variables included."""
    yield term
    match term:
        case Apply(_, arguments):
            inner: tuple[Term, ...] = arguments
        case Select(condition, then, otherwise):
            inner = (condition, then, otherwise)
        case Read(_, indices):
            inner = indices
        case Reduce(_, variables, extents, condition, body):
            inner = (*variables, *extents, condition, body)
        case _:
            inner = ()
    for part in inner:
        yield from parts(part)


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
