"""Syntax trees made by code: relations that nobody wrote as text, evaluated or spelled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...terms.syntax_tree import Place
from .formulas import conjunctions
from .syntax import (
    Atom,
    Clause,
    Comparison,
    Expression,
    Formula,
    Functor,
    Literal,
    Negation,
    Number,
    String,
    Variable,
    Wildcard,
)
from .unparse import body_text, clause_text

MADE = Place("<made>", 1, 1)  # where what code makes stands
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


@dataclass(frozen=True)
class Definition:
    """A relation: its columns by name and type, and a head and a body for each clause."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rules: tuple[tuple[Atom, tuple[Part, ...]], ...]

    @classmethod
    def of_numbers(cls, name: str, columns: Sequence[str], body: Iterable[Part]) -> Definition:
        """Define a relation of numbers by one clause, which has a variable for each column."""
        typed = tuple((column, "number") for column in columns)
        return cls(name, typed, ((atom(name, *columns), distinct(body)),))

    def clauses(self) -> list[Clause]:
        """Give the clauses, one for each conjunction of a body."""
        return [
            Clause(head, literals, head.position)
            for head, body in self.rules
            for literals in conjunctions(Formula("and", body, MADE))
        ]

    def text(self) -> str:
        """Spell the declaration and the clauses."""
        columns = ", ".join(f"{name}:{kind}" for name, kind in self.columns)
        clauses = (clause_text(head, body) for head, body in self.rules)
        return f".decl {self.name}({columns})\n{''.join(clauses)}"


def distinct(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Keep the first of equal parts of a body."""
    by_text: dict[str, Part] = {}
    for part in parts:
        by_text.setdefault(body_text(part), part)
    return tuple(by_text.values())
