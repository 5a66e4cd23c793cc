"""A catalog's DuckDB file: opened without a way out of it, checked first, waited for.

DuckDB locks a file against other processes by a POSIX lock, which the process loses as soon as it
closes any descriptor of that file. So nothing here opens it but DuckDB.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ..errors import CatalogError
from . import migrations
from .schema_check import disguise, table_deviation

LOCK_PATIENCE_S = 10.0  # those who write hold the file for a moment only
_RETRY_S = 0.05

# By default a query reaches no file but the catalog, and nothing reaches for the network.
_Config = dict[str, str | bool | int | float | list[str]]
_NO_EXTENSIONS: _Config = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
SANDBOX: _Config = {**_NO_EXTENSIONS, "enable_external_access": "false"}


@dataclass(frozen=True)
class Opening:
    """Who has a file open in this process, and how."""

    thread: int
    read_only: bool
    allow_files: bool

    @property
    def mode(self) -> str:
        """Say how it is open."""
        return "read-only" if self.read_only else "for writing"


_open_here: dict[str, list[Opening]] = {}
_guard = threading.Lock()
# The threads of a process share DuckDB's lock on a file: what they write at once would conflict.
one_writer = threading.RLock()


def open_file(
    path: Path, *, read_only: bool, allow_files: bool, patience_s: float | None
) -> tuple[duckdb.DuckDBPyConnection, Opening]:
    """Open a file that is a catalog or an empty database; `release` it when it is closed.

    Raises CatalogError for another file, which is left as it is, and LockedError for one that is
    held for longer than `patience_s`, by default LOCK_PATIENCE_S.
    """
    patience_s = LOCK_PATIENCE_S if patience_s is None else patience_s
    if not path.exists():
        raise CatalogError(f"there is no catalog at {path}; a command that writes makes one")
    real = os.path.realpath(path)
    opening = Opening(threading.get_ident(), read_only, allow_files)
    if not is_open_here(real):  # else it was checked then
        connection = _connect(path, real, Opening(opening.thread, True, allow_files), patience_s)
        try:
            _check(connection, path)
        except duckdb.Error as error:
            connection.close()
            raise damaged(path, error) from error
        except BaseException:
            connection.close()
            raise
        if read_only:
            return connection, _registered(real, opening)
        connection.close()
    return _connect(path, real, opening, patience_s), _registered(real, opening)


def make_file(path: Path) -> tuple[duckdb.DuckDBPyConnection, Opening]:
    """Make a database without tables, open for writing; `release` it when it is closed.

    The name is one that nobody else gives. Raises CatalogError where it can't be made.
    """
    real = os.path.realpath(path)
    try:
        connection = duckdb.connect(real, config=dict(SANDBOX))
    except duckdb.Error as error:
        raise damaged(path, error) from error
    return connection, _registered(real, Opening(threading.get_ident(), False, False))


def connect_memory(*, allow_files: bool) -> duckdb.DuckDBPyConnection:
    """Open a database in memory."""
    return duckdb.connect(":memory:", config=dict(_NO_EXTENSIONS if allow_files else SANDBOX))


def release(path: str, opening: Opening) -> None:
    """Note that a file is closed."""
    real = os.path.realpath(path)
    with _guard:
        openings = _open_here.get(real, [])
        if opening in openings:
            openings.remove(opening)
        if not openings:
            _open_here.pop(real, None)


def _registered(real: str, opening: Opening) -> Opening:
    with _guard:
        _open_here.setdefault(real, []).append(opening)
    return opening


def is_open_here(real: str) -> bool:
    """Whether this process has a file open, given by its path without links."""
    with _guard:
        return real in _open_here


def opening_here(path: Path) -> Opening | None:
    """Say how this process has a file open; None if it has not."""
    with _guard:
        openings = _open_here.get(os.path.realpath(path))
        return openings[0] if openings else None


def _check(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal UNION ALL "
            "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    if not tables:
        return
    if "catalog_version" not in tables:
        raise CatalogError(
            f"{path} is a DuckDB file but not a tensolog catalog; it was left as it is"
        )
    if (problem := disguise(connection)) is not None:
        raise not_ours(path, problem)
    version, newest = migrations.version_of(connection), migrations.newest_version()
    if version > newest:
        raise NewerError(
            f"the catalog {path} has schema version {version}, this release knows {newest}: "
            "upgrade tensolog, or give another file with --catalog PATH; it was left as it is"
        )
    if version == newest and (problem := table_deviation(connection)) is not None:
        raise not_ours(path, problem)


def not_ours(path: Path | str, problem: str) -> CatalogError:
    """Return the error for a file whose tables are not those of a catalog."""
    return CatalogError(
        f"the tables of {path} are not those of a catalog ({problem}); it was left as it is: "
        "restore it, or give another file with --catalog PATH"
    )


def _connect(
    path: Path, real: str, opening: Opening, patience_s: float
) -> duckdb.DuckDBPyConnection:
    config = dict(_NO_EXTENSIONS if opening.allow_files else SANDBOX)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            _refuse_empty(path)
            return duckdb.connect(real, read_only=opening.read_only, config=config)
        except duckdb.Error as error:
            if _is_open_otherwise(error):
                # Another thread lets go of it as another process does; this one is busy waiting.
                if _is_mine(real) or time.monotonic() > deadline:
                    raise _open_otherwise(path, real) from error
            elif not _is_locked(error):
                raise damaged(path, error) from error
            elif time.monotonic() > deadline:
                raise _locked(path, opening.read_only, error) from error
        time.sleep(_RETRY_S * (0.5 + random.random()))


def _refuse_empty(path: Path) -> None:
    """Refuse what DuckDB would make a new database of, or hang on."""
    try:
        if path.is_dir():
            raise CatalogError(f"can't read the catalog {path}: it is a folder")
        if not path.is_file():
            raise CatalogError(f"{path} is no regular file, so not a catalog")
        if not path.stat().st_size:
            raise CatalogError(f"{path} is not a DuckDB file, so not a catalog: it is empty")
    except OSError as error:
        raise CatalogError(f"can't read the catalog {path}: {error.strerror or error}") from error
    if not os.access(path, os.R_OK):
        raise CatalogError(f"can't read the catalog {path}: permission denied")


def _is_mine(real: str) -> bool:
    with _guard:
        return any(entry.thread == threading.get_ident() for entry in _open_here.get(real, ()))


def _open_otherwise(path: Path, real: str) -> CatalogError:
    with _guard:
        modes = {database.mode for database in _open_here.get(real, ())} or {"otherwise"}
    return CatalogError(
        f"the catalog {path} is already open in this process, {' and '.join(sorted(modes))}: "
        "close it first, or share it"
    )


def _is_open_otherwise(error: Exception) -> bool:
    """Whether this process has the file open in another way, or just opens or closes it."""
    return isinstance(error, duckdb.ConnectionException) or "already attached" in str(error)


def _is_locked(error: Exception) -> bool:
    return any(words in str(error) for words in ("Conflicting lock", "used by another process"))


def damaged(path: Path | str, error: Exception) -> CatalogError:
    """Return the error for a file that DuckDB does not open."""
    reason = " ".join(str(error).split())
    if "not a valid DuckDB database file" in reason:
        return CatalogError(f"{path} is not a DuckDB file, so not a catalog; it was left as it is")
    if "set lock on file" in reason:
        return CatalogError(
            f"the catalog {path} lies on a file system without locks ({reason}): "
            "give a file on a local disk with --catalog PATH (:memory: for none)"
        )
    return CatalogError(
        f"the catalog {path} can't be opened ({reason}); it was left as it is: "
        "restore it, or give another file with --catalog PATH"
    )


def _locked(path: Path, read_only: bool, error: Exception) -> CatalogError:
    conflict = re.search(r"held in (.*?\(PID \d+\))( by user \S+?)?\.", str(error))
    holder = conflict.group(1) if conflict else "another process"
    does = "written by" if read_only else "in use by"
    return LockedError(
        f"the catalog {path} is {does} {holder}: wait until it ends, "
        "or give another file with --catalog PATH (:memory: for none)"
    )


class LockedError(CatalogError):
    """Another process has the file open, and does not let go of it."""


class NewerError(CatalogError):
    """A newer release has made the file."""
