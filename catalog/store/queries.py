"""Queries that only read unless told otherwise, and what a catalog holds."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ..errors import CatalogError
from .catalog import Catalog

_READING = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.RELATION})
_READING_PRAGMA = re.compile(
    r"\s*PRAGMA\s+(table_info|storage_info|show|show_tables|show_tables_expanded|database_list"
    r"|database_size|version|platform|functions|collations|metadata_info)\b",
    re.IGNORECASE,
)
# Settings of DuckDB name files that it writes to, such as those of logs and profiles.
_CONFIGURING = frozenset(
    {
        duckdb.StatementType.SET,
        duckdb.StatementType.PRAGMA,
        duckdb.StatementType.CALL,
        duckdb.StatementType.LOAD,
        duckdb.StatementType.ATTACH,
        duckdb.StatementType.EXTENSION,
    }
)
_ALLOW = "allow it with --allow-files (allow_files=True)"
_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(ANALYZE\b|\([^)]*\))?", re.IGNORECASE)


def query(catalog: Catalog, text: str, *, write: bool = False) -> pa.Table | None:
    """Run SQL statements and return the rows of the last one; None if it has none.

    Without `write` nothing is changed, neither the catalog nor any file (COPY ... TO, EXPORT,
    ATTACH); of a catalog opened without `allow_files`, no file is read or written in any case.
    Raises CatalogError for a statement that is refused or fails.
    """
    connection = catalog.connection
    if write:
        catalog.check_writable()
    try:
        statements = connection.extract_statements(text)
        for statement in statements:
            if not write:
                _check_reading(connection, statement)
            elif not catalog.allow_files and statement.type in _CONFIGURING:
                raise CatalogError(f"{statement.type.name} may reach files: {_ALLOW}")
        if not write:
            connection.execute("BEGIN TRANSACTION READ ONLY")
        else:
            connection.execute("BEGIN")
    except duckdb.Error as error:
        raise CatalogError(_reason(error)) from error
    result: pa.Table | None = None
    try:
        for statement in statements:
            relation = connection.sql(statement.query)
            result = None if relation is None else relation.to_arrow_table()
        connection.execute("COMMIT" if write else "ROLLBACK")
    except duckdb.Error as error:
        _rollback(connection)
        reason = _reason(error)
        if "read-only" in reason:
            reason = "the query changes the catalog: allow it with --write (write=True)"
        raise CatalogError(reason) from error
    except BaseException:
        _rollback(connection)
        raise
    return result


def _check_reading(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    kind = statement.type
    if kind in _READING:
        return
    # EXPLAIN ANALYZE runs its statement.
    if kind == duckdb.StatementType.EXPLAIN and (head := _EXPLAIN.match(statement.query)):
        for inner in connection.extract_statements(statement.query[head.end() :]):
            _check_reading(connection, inner)
        return
    if kind == duckdb.StatementType.PRAGMA and _READING_PRAGMA.match(statement.query):
        return
    # A PIVOT expands into several statements; the read-only transaction watches over them.
    if kind == duckdb.StatementType.MULTI and re.match(
        r"\s*(PIVOT|FROM|SELECT|WITH|\()", statement.query, re.IGNORECASE
    ):
        return
    raise CatalogError(
        f"{kind.name} is not a query that only reads: allow it with --write (write=True)"
    )


def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.Error):  # DuckDB has rolled back by itself after some errors
        connection.execute("ROLLBACK")


def _reason(error: Exception) -> str:
    """Return DuckDB's message without the quoted query below it."""
    reason = " ".join(str(error).split("\n\nLINE ")[0].split())
    if isinstance(error, duckdb.PermissionException):
        reason += f": a query reads and writes nothing but the catalog: {_ALLOW}"
    return reason


@dataclass(frozen=True)
class TableDescription:
    """A table of the catalog: what it holds and how many rows."""

    name: str
    comment: str
    rows: int
    columns: tuple[tuple[str, str, str], ...]  # name, type, comment


def describe(catalog: Catalog) -> list[TableDescription]:
    """Return the tables of the catalog in the order of schema.sql."""
    connection = catalog.connection
    tables = connection.execute(
        "SELECT table_name, coalesce(comment, '') FROM duckdb_tables() "
        "WHERE NOT internal AND NOT temporary ORDER BY table_oid"
    ).fetchall()
    columns: dict[str, list[tuple[str, str, str]]] = {}
    for table, *column in connection.execute(
        "SELECT table_name, column_name, data_type, coalesce(comment, '') FROM duckdb_columns() "
        "WHERE NOT internal ORDER BY table_oid, column_index"
    ).fetchall():
        columns.setdefault(table, []).append((column[0], column[1], column[2]))
    descriptions = []
    for name, comment in tables:
        quoted = name.replace('"', '""')
        ((rows,),) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchall()
        descriptions.append(TableDescription(name, comment, rows, tuple(columns.get(name, ()))))
    return descriptions
