"""What a plan is made of: relations, rules, and the steps that compute them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import duckdb

from ..terms.syntax_tree import Place
from .analysis.type_inference import Kinds
from .language.syntax import Clause, Subsumption
from .sql.expressions import sql_type
from .sql.liveness import Need

MAX_VALUES = 64  # more facts than these are loaded through Arrow, not parsed as SQL
KEYED = int(duckdb.__version__.split(".")[0]) >= 2  # USING KEY takes aggregates since 2.0
Row = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """A clause ready for translation: scopes resolved, kinds inferred."""

    clause: Clause
    kinds: Kinds


@dataclass(frozen=True)
class Dominance:
    """A subsumption ready for translation."""

    subsumption: Subsumption
    kinds: Kinds


@dataclass
class Relation:
    """A relation under compilation."""

    name: str
    table: str
    kinds: tuple[str, ...]
    is_input: bool = False
    is_equivalence: bool = False
    limit: int | None = None  # a recursion ends when it has so many rows
    keys: tuple[tuple[int, ...], ...] = ()  # columns on which the rows derived are a function
    facts: list[Row] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    dominances: list[Dominance] = field(default_factory=list)
    calls: dict[str, Place] = field(default_factory=dict)  # functions of Python, and where

    @property
    def is_as_read(self) -> bool:
        """Whether it is an input to which nothing is added, and of which nothing is removed."""
        return self.is_input and not (
            self.rules or self.facts or self.dominances or self.is_equivalence
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of its table; a relation without columns keeps one, always true."""
        return tuple(f"c{i}" for i in range(len(self.kinds))) or ("present",)

    @property
    def types(self) -> tuple[str, ...]:
        """SQL types of its table."""
        return tuple(map(sql_type, self.kinds)) or ("BOOLEAN",)

    @property
    def sql(self) -> str:
        """The quoted table name."""
        return quoted(self.table)

    @property
    def input_sql(self) -> str:
        """The quoted table that holds what was read, where rules add to it."""
        return quoted(self.table + ":input")

    @property
    def facts_sql(self) -> str:
        """The quoted table that holds many facts."""
        return quoted(self.table + ":facts")


@dataclass(frozen=True)
class Choice:
    """What a choice-domain does in the place of a statement: some rows of `candidates` stay.

    In ascending order, a row stays unless one that stayed before it, or one of `relation`, has the
    same values in the columns of one of the `keys`. `columns` are all of them.
    """

    candidates: str
    relation: str | None
    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        keys = " and by ".join(", ".join(key) for key in self.keys)
        new = "" if self.relation is None else f" that are new to {self.relation}"
        return f"-- choose rows of {self.candidates}{new}, one for each {keys}"


Statement = str | Choice


@dataclass(frozen=True)
class Part:
    """One SELECT of a union, and what has to be there for it to select something."""

    sql: str
    needs: tuple[Need, ...]


@dataclass(frozen=True)
class Step:
    """Statements that compute relations; `loop` holds the parts of a driven iteration.

    Where there are both, the iteration is for a limit of rows, which only rounds can be held to.
    `parts` are what the relations start from. Where none can select anything, `empty` computes
    the step; of a step without recursion, those that can are enough.
    """

    relations: tuple[str, ...]
    recursive: bool
    statements: tuple[Statement, ...]
    parts: tuple[Part, ...]
    empty: tuple[str, ...]
    loop: Loop | None = None
    numbered: Numbered | None = None
    growing: tuple[Growth, ...] = ()


@dataclass(frozen=True)
class Growth:
    """A place where a recursion makes values of a relation, so that it may never end."""

    relation: str
    position: Place


@dataclass(frozen=True)
class Numbered:
    """Statements that do what a step's do with numbers in the place of symbols.

    They pay where the relations that are read hold many rows. `encode` comes between what makes the
    relations that the recursion starts from and the recursion.
    """

    reads: tuple[str, ...]
    start: tuple[str, ...]
    encode: tuple[str, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """A semi-naive iteration that one query can't express: subsumption, choices, limits of size.

    Each round runs `derive`, then `merge`; it ends when `count` gives 0, or `full` something true.
    """

    start: tuple[Statement, ...]
    derive: tuple[Statement, ...]
    merge: tuple[Statement, ...]
    count: str
    finish: tuple[str, ...]
    full: str | None = None


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def create(table: str, query: str) -> str:
    """Spell the statement that makes a temporary table."""
    return f"CREATE OR REPLACE TEMP TABLE {table} AS {query}"
