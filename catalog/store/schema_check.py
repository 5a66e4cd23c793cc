"""Whether a file's tables are those of schema.sql: a catalog may come from a stranger.

Whoever writes a file can put a view, a generated column, a default or a macro where a table, a
column or a function is expected, and have tensolog run it. None of that passes here. Views, tables
and macros of other names are nobody's business but their owner's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources

import duckdb

_TABLE = re.compile(r"^CREATE TABLE (\w+) \((.*?)\);$", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"(\w+) ([A-Z]+(?:\[\])?)(.*)", re.DOTALL)
_DEFAULT = re.compile(r"DEFAULT (\w+\('\w+'\))")
_KEY = re.compile(r"PRIMARY KEY \((.*)\)")
# Functions that the queries below call are named in full: a file may have macros of these names.
_TABLES = """
    SELECT table_name, true FROM system.main.duckdb_tables()
    WHERE NOT internal AND NOT temporary AND schema_name = 'main'
    UNION ALL SELECT view_name, false FROM system.main.duckdb_views()
    WHERE NOT internal AND NOT temporary AND schema_name = 'main'"""
_COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default, is_generated
    FROM system.main.duckdb_columns()
    WHERE NOT internal AND schema_name = 'main' ORDER BY table_name, column_index"""
_KEYS = """
    SELECT table_name, constraint_column_names FROM system.main.duckdb_constraints()
    WHERE schema_name = 'main' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"""
_FUNCTIONS = "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal"
_SHADOWED = """
    SELECT function_name FROM system.main.duckdb_functions() WHERE internal
    INTERSECT SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal
    ORDER BY ALL LIMIT 1"""
_TRIGGERS = "SELECT table_name FROM system.main.duckdb_triggers() WHERE schema_name = 'main'"


@dataclass(frozen=True)
class Column:
    """A column as DuckDB describes it; `default` is an expression, None for none."""

    name: str
    type: str
    nullable: bool
    default: str | None = None
    generated: bool = False


@dataclass(frozen=True)
class Table:
    """A table's columns in order, and the columns of each of its keys."""

    columns: tuple[Column, ...]
    keys: frozenset[tuple[str, ...]]


@functools.cache
def schema_tables() -> dict[str, Table]:
    """Return the tables that schema.sql states, by name."""
    text = (resources.files(__package__) / "schema.sql").read_text(encoding="utf-8")
    return {name: _table(body) for name, body in _TABLE.findall(text)}


def _table(body: str) -> Table:
    columns, keys = [], []
    items = re.split(r",\s*(?![^(]*\))", body.strip())
    for item in items:
        if key := _KEY.fullmatch(item):
            keys.append(tuple(key.group(1).split(", ")))
    of_keys = {name for key in keys for name in key}
    for item in items:
        if _KEY.fullmatch(item):
            continue
        match = _COLUMN.fullmatch(item)
        assert match is not None, f"schema.sql: {item!r} is no column"
        name, kind, rest = match.groups()
        default = _DEFAULT.search(rest)
        required = "NOT NULL" in rest or "PRIMARY KEY" in rest or name in of_keys
        columns.append(Column(name, kind, not required, default and default.group(1)))
        if "PRIMARY KEY" in rest or "UNIQUE" in rest:
            keys.append((name,))
    return Table(tuple(columns), frozenset(keys))


def stored_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, Table]:
    """Return the tables of an open file, by name."""
    columns: dict[str, list[Column]] = {}
    for table, *column in connection.execute(_COLUMNS).fetchall():
        columns.setdefault(table, []).append(Column(*column))
    keys: dict[str, list[tuple[str, ...]]] = {}
    for table, names in connection.execute(_KEYS).fetchall():
        keys.setdefault(table, []).append(tuple(names))
    return {
        name: Table(tuple(columns.get(name, ())), frozenset(keys.get(name, ())))
        for name, is_table in connection.execute(_TABLES).fetchall()
        if is_table
    }


def disguise(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Say what a file puts in the place of a table or of a function of DuckDB; None for nothing."""
    for name, is_table in connection.execute(_TABLES).fetchall():
        if not is_table and name in schema_tables():
            return f"{name} is a view, not a table"
    has_macros = bool(connection.execute(_FUNCTIONS).fetchall())  # few have: the rest takes time
    if has_macros and (shadowed := connection.execute(_SHADOWED).fetchall()):
        return f"it redefines {shadowed[0][0]}(), a function of DuckDB"
    with suppress(duckdb.CatalogException):  # DuckDB has triggers from 2.0 on
        for (name,) in connection.execute(_TRIGGERS).fetchall():
            if name in schema_tables():
                return f"{name} has a trigger"
    return None


def deviation(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Say in what an open file differs from schema.sql; None where it holds all of its tables."""
    return disguise(connection) or table_deviation(connection)


def table_deviation(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Say in what the tables of a file that disguises nothing differ from schema.sql."""
    stored = stored_tables(connection)
    for name, expected in schema_tables().items():
        if name not in stored:
            return f"it has no table {name}"
        if (problem := _difference(name, stored[name], expected)) is not None:
            return problem
    return None


def _difference(name: str, stored: Table, expected: Table) -> str | None:
    if stored == expected:
        return None
    columns = {column.name: column for column in stored.columns}
    for column in expected.columns:
        if column.name not in columns:
            return f"{name} has no column {column.name}"
        if columns[column.name] != column:
            return f"{name}.{column.name} is {_text(columns[column.name])}, not {_text(column)}"
    known = {column.name for column in expected.columns}
    if more := [column.name for column in stored.columns if column.name not in known]:
        return f"{name} has a column {more[0]} that is none of its own"
    if stored.keys != expected.keys:
        return f"the keys of {name} are {_keys(stored)}, not {_keys(expected)}"
    return f"the columns of {name} are in another order"


def _text(column: Column) -> str:
    if column.generated:
        return f"{column.type}, generated"
    default = f" DEFAULT {column.default}" if column.default else ""
    return f"{column.type}{'' if column.nullable else ' NOT NULL'}{default}"


def _keys(table: Table) -> str:
    keys: Sequence[str] = sorted("(" + ", ".join(key) + ")" for key in table.keys)
    return ", ".join(keys) or "none"
