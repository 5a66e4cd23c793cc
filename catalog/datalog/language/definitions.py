"""Relations that code defines: as clauses to be evaluated, and as text to be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .builders import MADE, Part, atom
from .formulas import conjunctions
from .syntax import Atom, Clause, Formula
from .unparse import body_text, clause_text


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
