"""Which rules can fire at all: those whose atoms find rows.

Planning a statement costs milliseconds even if it selects nothing, and of the patterns in
a program most find nothing. So a rule is left out when one of its atoms reads an empty relation,
or asks for a constant that a column does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from ..language.syntax import Atom, Clause, Number, String
from .expressions import constant

Value = int | str
Column = tuple[str, int]  # a relation and one of its columns
ENOUGH = 3  # a column is asked for its values when so many rules want to know


@dataclass(frozen=True)
class Need:
    """An atom's demand: a relation with rows, holding these constants in these columns."""

    relation: str
    constants: tuple[tuple[int, Value], ...]


def needs(clause: Clause, kinds: Mapping[str, tuple[str, ...]]) -> tuple[Need, ...]:
    """List what the positive atoms of a clause demand."""
    constraints = []
    for literal in clause.body:
        if not isinstance(literal, Atom):
            continue
        constants: list[tuple[int, Value]] = []
        for column, argument in enumerate(literal.arguments):
            kind = kinds[literal.name][column]
            if isinstance(argument, String):
                constants.append((column, argument.value))
            elif isinstance(argument, Number) and kind == "number":
                constants.append((column, int(argument.value)))
        constraints.append(Need(literal.name, tuple(constants)))
    return tuple(constraints)


def probes(demands: Iterable[tuple[Need, ...]]) -> dict[Column, frozenset[Value]]:
    """Choose the columns worth asking, and the constants to ask for."""
    wanted: dict[Column, set[Value]] = {}
    users: dict[Column, int] = {}
    for demand in demands:
        for place in {(n.relation, column) for n in demand for column, _ in n.constants}:
            users[place] = users.get(place, 0) + 1
        for need in demand:
            for column, value in need.constants:
                wanted.setdefault((need.relation, column), set()).add(value)
    return {p: frozenset(values) for p, values in wanted.items() if users[p] >= ENOUGH}


class Liveness:
    """What is known of one evaluation's relations: their sizes, and constants that they hold."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Mapping[str, str],
        asked: Mapping[Column, frozenset[Value]],
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._asked = asked
        self._needed: dict[Column, frozenset[Value]] = {}
        self.rows: dict[str, int] = {}

    def alive(self, demand: Iterable[Need]) -> bool:
        """Say whether every atom may find a row; an unknown size counts as rows."""
        demands = list(demand)
        if any(self.rows.get(need.relation) == 0 for need in demands):
            return False
        return all(
            value in self._holds((need.relation, column))
            for need in demands
            for column, value in need.constants
            if (need.relation, column) in self._asked
        )

    def _holds(self, place: Column) -> frozenset[Value]:
        if place not in self._needed:
            relation, column = place
            values = self._asked[place]
            kind = "symbol" if isinstance(next(iter(values)), str) else "number"
            spelled = ", ".join(constant(value, kind) for value in values)
            query = f"SELECT DISTINCT c{column} FROM {self._tables[relation]} "
            rows = self._connection.execute(f"{query} WHERE c{column} IN ({spelled})").fetchall()
            self._needed[place] = frozenset(value for (value,) in rows)
        return self._needed[place]
