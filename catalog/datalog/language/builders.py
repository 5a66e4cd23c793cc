"""Syntax trees made by code: relations whose clauses nobody wrote as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .syntax import (
    Atom,
    Comparison,
    Expression,
    Formula,
    Functor,
    Literal,
    Negation,
    Number,
    Position,
    String,
    Variable,
    Wildcard,
)

MADE = Position("<made>", 1, 1)  # where what code makes stands
Argument = Expression | str | int | float  # a name is a variable, or an underscore
Part = Formula | Literal


def term(argument: Argument) -> Expression:
    """Make an expression of a variable's name, an underscore or a number."""
    if isinstance(argument, str):
        return Wildcard(MADE) if argument == "_" else Variable(argument, MADE)
    if isinstance(argument, int | float):
        return Number(argument, "float" if isinstance(argument, float) else None, MADE)
    return argument


def symbol(text: str) -> String:
    """Make a constant of a symbol."""
    return String(text, MADE)


def atom(name: str, *arguments: Argument) -> Atom:
    """Make an atom."""
    return Atom(name, tuple(map(term, arguments)), MADE)


def absent(name: str, *arguments: Argument) -> Negation:
    """Make a negated atom."""
    return Negation(atom(name, *arguments), MADE)


def comparison(left: Argument, operator: str, right: Argument) -> Comparison:
    """Make a constraint."""
    return Comparison(operator, term(left), term(right), MADE)


def infix(left: Argument, operator: str, right: Argument) -> Functor:
    """Make an arithmetic expression of two arguments."""
    arguments = (term(left), term(right))
    depth = 1 + max(getattr(argument, "depth", 1) for argument in arguments)
    return Functor(operator, arguments, MADE, depth)


def either(alternatives: Iterable[Sequence[Part]]) -> Part:
    """Make a disjunction of conjunctions."""
    parts = tuple(together(alternative) for alternative in alternatives)
    return parts[0] if len(parts) == 1 else Formula("or", parts, MADE)


def together(parts: Sequence[Part]) -> Part:
    """Make a conjunction."""
    return parts[0] if len(parts) == 1 else Formula("and", tuple(parts), MADE)
