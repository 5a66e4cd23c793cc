"""The schema's version, and the steps that bring an older catalog up to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from ..errors import CatalogError

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Migration:
    """SQL that turns schema `version - 1` into schema `version`, comments included."""

    version: int
    sql: str


def _step(version: int) -> Migration:
    file = resources.files(__package__) / f"migration_{version}.sql"
    return Migration(version, file.read_text(encoding="utf-8"))


# Version 1 is the first release's schema.sql. A change of schema.sql adds a step here that leads to
# the same tables; catalogs made from scratch run schema.sql alone.
MIGRATIONS: tuple[Migration, ...] = tuple(map(_step, range(2, 17)))


def newest_version() -> int:
    """Return the schema version that schema.sql stands for."""
    return MIGRATIONS[-1].version if MIGRATIONS else 1


def create(connection: duckdb.DuckDBPyConnection, release: str, *, comments: bool = True) -> None:
    """Create every table of schema.sql in an empty database; most of the time goes to comments."""
    text = (resources.files(__package__) / "schema.sql").read_text(encoding="utf-8")
    if not comments:
        text = re.sub(r"^COMMENT ON .*\n", "", text, flags=re.MULTILINE)
    connection.execute(text)
    record(connection, newest_version(), release)


def migrate(connection: duckdb.DuckDBPyConnection, release: str) -> None:
    """Apply the steps that the catalog has not seen yet; the caller holds the transaction."""
    reached = version_of(connection)
    for step in MIGRATIONS:
        if step.version > reached:
            connection.execute(step.sql)
            record(connection, step.version, release)


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version in force. Raises CatalogError where none is stated."""
    ((version,),) = connection.execute("SELECT max(version) FROM catalog_version").fetchall()
    if not isinstance(version, int):
        raise CatalogError("the table catalog_version states no version: restore the catalog")
    return version


def record(connection: duckdb.DuckDBPyConnection, version: int, release: str) -> None:
    """Note that the catalog reached `version`."""
    connection.execute(
        "INSERT INTO catalog_version VALUES (?, ?, now()::TIMESTAMPTZ AT TIME ZONE 'UTC')",
        [version, release],
    )
