"""Symbols numbered for a recursion that only moves them.

Rounds over many strings spend their time on hashing and comparing these; with numbers in their
place, points-to analyses over 500 variables with 2 million results took 5 s instead of 19. What
a recursion merely passes on, joins and compares for equality can be numbered before it starts and
spelled again when it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...terms.syntax_tree import walk
from ..analysis.type_inference import SYMBOL
from ..language.structures import builds
from ..language.syntax import Aggregate, Atom, Cast, Comparison, Functor, Literal, Negation, String
from ..steps import Relation, Rule, create, quoted
from .conjunction import Table
from .expressions import quote


@dataclass(frozen=True)
class View:
    """How a recursion sees relations: what atoms read, what it makes, how symbols look in it.

    `symbols` spells the constants where symbols are numbered; it is None where they are strings.
    """

    tables: Mapping[str, Table]
    symbols: Mapping[str, str] | None = None

    def target(self, relation: Relation) -> str:
        """Name the table that the recursion leaves a relation in."""
        return relation.sql if self.symbols is None else _result(relation)

    def types(self, relation: Relation) -> tuple[str, ...]:
        """Name the SQL types of a relation's columns."""
        if self.symbols is None:
            return relation.types
        return tuple("INTEGER" if t == "VARCHAR" else t for t in relation.types)


def moves_symbols(rule: Rule) -> bool:
    """Say whether a rule does nothing with symbols but moving and equating them."""
    clause, kinds = rule.clause, rule.kinds
    literals: tuple[Literal, ...] = clause.literals
    for literal in literals:
        compares = isinstance(literal, Comparison) and literal.operator not in ("=", "!=")
        if compares and kinds.of(literal.parts[0]) == SYMBOL:
            return False
        for expression in literal.parts:
            for node in walk(expression):
                if builds(node):
                    return False
                parts = (node, *node.parts) if isinstance(node, Functor | Cast) else ()
                if isinstance(node, Aggregate) or SYMBOL in map(kinds.of, parts):
                    return False
    return True


class Numbering:
    """The symbols of one component: the statements that number and spell them."""

    def __init__(
        self, started: Sequence[Relation], read: Sequence[Relation], rules: Iterable[Rule]
    ) -> None:
        self._started = started
        self._read = [relation for relation in read if SYMBOL in relation.kinds]
        constants = {
            node.value: None
            for rule in rules
            for literal in (*rule.clause.body, rule.clause.head)
            for expression in literal.parts
            for node in walk(expression)
            if isinstance(node, String)
        }
        self._constants = {value: f"({-i})::INTEGER" for i, value in enumerate(constants, 1)}
        self._dictionary = quoted(started[0].table + ":symbols")

    def view(self, tables: Mapping[str, Table]) -> View:
        """Show the recursion numbered relations in the place of those that hold symbols."""
        coded = {r.name: Table(_coded(r), r.columns) for r in self._read}
        return View({**tables, **coded}, self._constants)

    @staticmethod
    def start(relation: Relation) -> str:
        """Select what a relation starts from, numbered."""
        return f"SELECT * FROM {_coded(relation)}"

    def encode(self) -> list[str]:
        """Spell what makes the dictionary and the numbered tables, of tables made by `begin`."""
        sources = [(r, _start(r)) for r in self._started] + [(r, r.sql) for r in self._read]
        symbols = " UNION ".join(
            f"SELECT {column} AS s FROM {table}"
            for relation, table in sources
            for column, kind in zip(relation.columns, relation.kinds, strict=False)
            if kind == SYMBOL
        )
        parts = [f"SELECT (row_number() OVER ())::INTEGER AS id, s FROM ({symbols}) AS u"]
        if self._constants:
            rows = ", ".join(f"({n}, {quote(value)})" for value, n in self._constants.items())
            parts[0] += f" WHERE s NOT IN ({', '.join(map(quote, self._constants))})"
            parts.append(f"SELECT * FROM (VALUES {rows}) AS v(id, s)")
        return [
            create(self._dictionary, " UNION ALL ".join(parts)),
            *(create(_coded(r), self._translate(r, table, "s", "id")) for r, table in sources),
        ]

    def decode(self, members: Iterable[Relation]) -> list[str]:
        """Spell what turns the results into symbols again, and drops the rest."""
        members = list(members)
        temporary = [self._dictionary, *(_coded(r) for r in (*self._started, *self._read))]
        temporary += [_start(r) for r in self._started] + [_result(r) for r in members]
        return [
            *(create(r.sql, self._translate(r, _result(r), "id", "s")) for r in members),
            *(f"DROP TABLE {table}" for table in temporary),
        ]

    def _translate(
        self, relation: Relation, table: str, source_column: str, target_column: str
    ) -> str:
        columns, sources, conditions = [], [f"{table} AS t"], []
        for i, column in enumerate(relation.columns):
            if relation.kinds[i : i + 1] == (SYMBOL,):
                columns.append(f"d{i}.{target_column} AS {column}")
                sources.append(f"{self._dictionary} AS d{i}")
                conditions.append(f"d{i}.{source_column} = t.{column}")
            else:
                columns.append(f"t.{column}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(columns)} FROM {', '.join(sources)}{where}"


def begin(relation: Relation, query: str) -> str:
    """Spell the statement that keeps what a relation starts from."""
    return create(_start(relation), query)


def reads(rules: Iterable[Rule]) -> list[str]:
    """Name the relations that rules read outside of aggregates, each once."""
    names: dict[str, None] = {}
    for rule in rules:
        for literal in rule.clause.body:
            atom = literal.atom if isinstance(literal, Negation) else literal
            if isinstance(atom, Atom):
                names[atom.name] = None
    return list(names)


def _start(relation: Relation) -> str:
    return quoted(relation.table + ":start")


def _coded(relation: Relation) -> str:
    return quoted(relation.table + ":coded")


def _result(relation: Relation) -> str:
    return quoted(relation.table + ":result")
