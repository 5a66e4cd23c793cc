"""The catalog: one DuckDB file that holds everything tensolog knows."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Self

import duckdb
import platformdirs
import pyarrow as pa

from ..errors import CatalogError
from ..interruption import endable
from . import migrations
from .database_file import (
    Opening,
    connect_memory,
    damaged,
    make_file,
    not_ours,
    one_writer,
    open_file,
    release,
)
from .large_constants import Spool
from .schema_check import deviation

# Imported within functions: what only who opens a catalog for writing needs. Files of
# runs, which it merges, are catalogs themselves.

# What DuckDB raises when the disk is full or the file damaged, rather than the query wrong.
_BROKEN = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.OutOfMemoryException,
)


def default_path() -> Path:
    """Return where the catalog lies: $TENSOLOG_CATALOG, or the user's data folder."""
    if environment_path := os.environ.get("TENSOLOG_CATALOG"):
        return Path(environment_path)
    return platformdirs.user_data_path("tensolog", appauthor=False) / "catalog.duckdb"


class Catalog:
    """A catalog file, opened for one writer or for any number of readers.

    `path` is a file, ":memory:", or None for `default_path()`. A file that does not exist is made,
    unless `read_only`. Queries reach no other file, whoever made the catalog, unless `allow_files`.
    A file that another process holds is waited for, by default for ten seconds.
    Raises CatalogError for a file that is damaged, no catalog, from a newer release, or held by
    another process; such a file is left as it is.
    """

    path: str
    home: str  # where what is stored will be: `path`, but for a run that hands over at its end
    read_only: bool
    connection: duckdb.DuckDBPyConnection

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        read_only: bool = False,
        allow_files: bool = False,
        patience_s: float | None = None,
    ) -> None:
        self.path = str(default_path() if path is None else path)
        self.home = self.path
        self.read_only = read_only
        self.allow_files = allow_files
        self._depth = 0
        self.verified: dict[str, object] = {}  # constants in files whose hash was checked
        self.spool = Spool(self.path)
        self.side_files: dict[str, dict[str, int]] = {}  # path -> constant -> offset
        self._columns: dict[str, dict[str, pa.DataType]] = {}
        self._release: Callable[[], object] | None = None
        if self.path == ":memory:":
            self.connection = connect_memory(allow_files=allow_files)
        else:
            file = Path(self.path)
            new_catalog = (
                None if read_only or file.exists() else self._make(Path(os.path.realpath(file)))
            )
            self.connection, opening = new_catalog or open_file(
                file, read_only=read_only, allow_files=allow_files, patience_s=patience_s
            )
            self._release = weakref.finalize(self, release, self.path, opening)
        endable(self.connection, duckdb.DuckDBPyConnection.interrupt)
        try:
            self._prepare()
        except duckdb.Error as error:
            self.close()
            raise damaged(self.path, error) from error
        except BaseException:
            self.close()
            raise

    def _make(self, path: Path) -> tuple[duckdb.DuckDBPyConnection, Opening] | None:
        """Make the file; return its connection where it is open by that."""
        _create(path)
        return None

    def _prepare(self) -> None:
        """Make the tables, or bring them up to date."""
        if self.read_only and self.path != ":memory:":
            return
        from ..operators.operator_tables import fill_operators
        from .staging import adopt

        with one_writer:
            if not has_tables(self.connection):
                with self.transaction():
                    migrations.create(self.connection, installed_release())
            elif migrations.version_of(self.connection) < migrations.newest_version():
                with self.transaction():
                    migrations.migrate(self.connection, installed_release())
                    if (problem := deviation(self.connection)) is not None:
                        raise not_ours(self.path, problem)
            fill_operators(self)
            if self.path != ":memory:":
                adopt(self)

    def sql(
        self, query: str, parameters: Sequence[object] | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the relation that `query` describes (Arrow, pandas and polars from there)."""
        if parameters is None:
            return self.connection.sql(query)
        return self.connection.sql(query, params=list(parameters))

    def insert(
        self, table: str, columns: Mapping[str, Sequence[object]], *, replace: bool = False
    ) -> None:
        """Append rows, given as equally long columns, to `table` in one statement.

        Values are Python scalars, lists of them, None, or Arrow arrays; columns left out take their
        defaults. With `replace`, rows of the same primary key are replaced. Raises CatalogError
        when the catalog is read-only.
        """
        self.check_writable()
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of {table} differ in length: {lengths}")
        if not any(lengths.values()):
            return
        types = self._types(table)
        rows = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        names = ", ".join(f'"{name}"' for name in columns)
        self.connection.register("tensolog_rows", rows)
        try:
            self.connection.execute(
                f'INSERT {"OR REPLACE " if replace else ""}INTO "{table}" ({names}) '
                f"SELECT {names} FROM tensolog_rows"
            )
        finally:
            self.connection.unregister("tensolog_rows")

    def reserve(self, sequence: str, count: int) -> int:
        """Take `count` keys from a sequence and return the first; the others follow it."""
        self.check_writable()
        if not count:
            return 0
        ((first, last),) = self.connection.execute(
            "SELECT min(key), max(key) FROM (SELECT nextval(?) AS key FROM range(?))",
            [sequence, count],
        ).fetchall()
        assert last - first + 1 == count, f"{sequence} is used by another thread"
        return int(first)

    def check_writable(self) -> None:
        """Raise CatalogError when the catalog is open for reading only."""
        if self.read_only:
            raise CatalogError(f"the catalog {self.path} is open for reading only")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction: all of it is stored, or nothing. Blocks may nest."""
        if self._depth == 0:
            self.connection.execute("BEGIN")
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self.connection.execute("COMMIT")
        except BaseException as error:
            if self._depth == 1:
                with suppress(duckdb.Error):  # DuckDB has rolled back by itself after some errors
                    self.connection.execute("ROLLBACK")
            if isinstance(error, _BROKEN):
                raise CatalogError(
                    f"the catalog {self.path} can't be used ({' '.join(str(error).split())}): "
                    "check the disk, restore the file, or give another one with --catalog PATH"
                ) from error
            raise
        finally:
            self._depth -= 1

    @property
    def in_transaction(self) -> bool:
        """Whether a block of `transaction` is open: what it did may still be undone."""
        return self._depth > 0

    def _types(self, table: str) -> dict[str, pa.DataType]:
        if table not in self._columns:
            schema = self.connection.sql(f'SELECT * FROM "{table}" LIMIT 0').to_arrow_table().schema
            self._columns[table] = {field.name: _roomy(field.type) for field in schema}
        return self._columns[table]

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.connection.close()
        if self._release is not None:
            self._release()
        self.spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Catalog({self.path!r}{', read_only=True' if self.read_only else ''})"


class _NewCatalog(Catalog):
    """A catalog while it is made, in a folder of its own."""

    def _make(self, path: Path) -> tuple[duckdb.DuckDBPyConnection, Opening]:
        return make_file(path)


def _roomy(kind: pa.DataType) -> pa.DataType:
    # 32-bit offsets would limit the constants of one insert to 2 GB.
    return {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}.get(kind, kind)


def installed_release() -> str:
    """Return the release of tensolog that is installed."""
    try:
        return metadata.version("tensolog")
    except metadata.PackageNotFoundError:
        return "unknown"


def has_tables(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database holds any table."""
    query = "SELECT 1 FROM duckdb_tables() WHERE NOT internal LIMIT 1"
    return bool(connection.execute(query).fetchall())


def _create(path: Path) -> None:
    """Make a catalog, whole or not at all: another process may be making it now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError(
            f"can't make the folder of the catalog {path} ({error.strerror or error}): "
            "give another file with --catalog PATH (:memory: for none)"
        ) from error
    try:
        with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
            new_file = Path(folder) / "catalog.duckdb"
            with _NewCatalog(new_file):
                pass
            with suppress(FileExistsError):  # who came first has made the same
                _move_to_new(new_file, path)
    except OSError as error:
        raise CatalogError(
            f"can't make the catalog {path} ({error.strerror or error}): "
            "give another file with --catalog PATH (:memory: for none)"
        ) from error


def _move_to_new(new_file: Path, path: Path) -> None:
    """Give a file its name, unless there is one of this name. Raises OSError."""
    if os.name == "nt":
        new_file.rename(path)  # refuses there what os.replace does
        return
    try:
        path.hardlink_to(new_file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        new_file.rename(path)
