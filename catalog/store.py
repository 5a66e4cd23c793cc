"""The catalog: one DuckDB file that holds everything tensolog knows."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import platformdirs
import pyarrow as pa

from . import migrations
from .errors import CatalogError
from .spool import Spool

LOCK_PATIENCE_S = 3.0  # a command that only looks something up is done by then
# What DuckDB raises when the disk is full or the file damaged, rather than the query wrong.
_BROKEN = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.OutOfMemoryException,
)
_MAGIC_OFFSET, _MAGIC = 8, b"DUCK"


def default_path() -> Path:
    """Return where the catalog lies: $TENSOLOG_CATALOG, or the user's data folder."""
    if given := os.environ.get("TENSOLOG_CATALOG"):
        return Path(given)
    return platformdirs.user_data_path("tensolog", appauthor=False) / "catalog.duckdb"


class Catalog:
    """A catalog file, opened for one writer or for any number of readers.

    `path` is a file, ":memory:", or None for `default_path()`. A file that does not exist is made,
    unless `read_only`. Raises CatalogError for a file that is damaged, no catalog, from a newer
    release, or held by another process; such a file is left as it is.
    """

    path: str
    read_only: bool
    connection: duckdb.DuckDBPyConnection

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        self.path = str(default_path() if path is None else path)
        self.read_only = read_only
        self._depth = 0
        self.verified: dict[str, object] = {}  # constants in files whose hash was checked
        self.spool = Spool(self.path)
        self.side_files: dict[str, dict[str, int]] = {}  # path -> constant -> offset
        self._columns: dict[str, dict[str, pa.DataType]] = {}
        if self.path == ":memory:":
            self.connection = duckdb.connect(":memory:")
        else:
            self.connection = _open_file(Path(self.path), read_only)
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        # Nothing here may reach for the network.
        self.connection.execute("SET autoinstall_known_extensions = false")
        if self.read_only and self.path != ":memory:":
            return
        from .operators.table import fill_operators

        release = _release()
        if not _has_tables(self.connection):
            with self.transaction():
                migrations.create(self.connection, release)
        elif migrations.version_of(self.connection) < migrations.newest_version():
            with self.transaction():
                migrations.migrate(self.connection, release)
        fill_operators(self)

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
        self.spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Catalog({self.path!r}{', read_only=True' if self.read_only else ''})"


def _roomy(kind: pa.DataType) -> pa.DataType:
    # 32-bit offsets would limit the constants of one insert to 2 GB.
    return {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}.get(kind, kind)


def _release() -> str:
    try:
        return metadata.version("tensolog")
    except metadata.PackageNotFoundError:
        return "unknown"


def _has_tables(connection: duckdb.DuckDBPyConnection) -> bool:
    query = "SELECT 1 FROM duckdb_tables() WHERE NOT internal LIMIT 1"
    return bool(connection.execute(query).fetchall())


def _open_file(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    if path.exists():
        _check_file(path)
    elif read_only:
        raise CatalogError(f"there is no catalog at {path}; a command that writes makes one")
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CatalogError(
                f"can't make the folder of the catalog {path} ({error.strerror or error}): "
                "give another file with --catalog PATH (:memory: for none)"
            ) from error
    return _connect(path, read_only)


def _check_file(path: Path) -> None:
    """Refuse a file that is no catalog of this release, before DuckDB may write to it."""
    try:
        with path.open("rb") as file:
            head = file.read(_MAGIC_OFFSET + len(_MAGIC))
    except OSError as error:
        raise CatalogError(f"can't read the catalog {path}: {error.strerror or error}") from error
    if head[_MAGIC_OFFSET:] != _MAGIC:
        raise CatalogError(f"{path} is not a DuckDB file, so not a catalog; it was left as it is")
    try:
        connection = _connect(path, read_only=True)
    except _SamePathError:
        return  # this process has it open for writing, and checked it then
    try:
        _check_version(connection, path)
    except duckdb.Error as error:
        raise _damaged(path, error) from error
    finally:
        connection.close()


def _check_version(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
        ).fetchall()
    }
    if not tables:
        return
    if "catalog_version" not in tables:
        raise CatalogError(
            f"{path} is a DuckDB file but not a tensolog catalog; it was left as it is"
        )
    version, newest = migrations.version_of(connection), migrations.newest_version()
    if version > newest:
        raise CatalogError(
            f"the catalog {path} has schema version {version}, this release knows {newest}: "
            "upgrade tensolog, or give another file with --catalog PATH; it was left as it is"
        )


def _connect(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only)
        except duckdb.ConnectionException as error:
            raise _SamePathError(
                f"the catalog {path} is already open in this process, "
                f"{'for writing' if read_only else 'read-only'}: close it first, or share it"
            ) from error
        except duckdb.Error as error:
            if "set lock on file" not in str(error):
                raise _damaged(path, error) from error
            if time.monotonic() > deadline:
                raise _locked(path, read_only, error) from error
            time.sleep(0.05)


class _SamePathError(CatalogError):
    """The file is open in this process with another configuration."""


def _damaged(path: Path, error: Exception) -> CatalogError:
    reason = " ".join(str(error).split())
    return CatalogError(
        f"the catalog {path} can't be opened ({reason}); it was left as it is: "
        "restore it, or give another file with --catalog PATH"
    )


def _locked(path: Path, read_only: bool, error: Exception) -> CatalogError:
    held = re.search(r"held in (.*?\(PID \d+\))( by user \S+?)?\.", str(error))
    holder = held.group(1) if held else "another process"
    does = "written by" if read_only else "in use by"
    return CatalogError(
        f"the catalog {path} is {does} {holder}: wait until it ends, "
        "or give another file with --catalog PATH (:memory: for none)"
    )
