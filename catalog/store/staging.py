"""Long runs store what they find beside the shared catalog, and merge it in a moment.

DuckDB lets one process write to a file, and no other read it meanwhile. A run of a minute would
shut all others out. So it writes to a file of its own, `CATALOG.staged-TOKEN`, which begins with
the measurements and proofs that the catalog has, and whose rows join the catalog when the run ends.

What is stored is on disk at once. The file of a run that was killed, or that could not get at the
catalog, is merged by whoever opens the catalog for writing next; DuckDB's lock on it, which goes
with its process, tells whether a run still needs it. The catalog notes the tokens that it has
merged, so that a crash between merging and removing a file repeats nothing.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from ..errors import CatalogError, CatalogWarning
from . import migrations
from .catalog import Catalog, default_path, has_tables, installed_release
from .database_file import (
    LockedError,
    NewerError,
    Opening,
    is_open_here,
    make_file,
    not_ours,
    one_writer,
    opening_here,
)
from .merging import Keys, insert_rows, merge
from .schema_check import deviation

_INFIX = ".staged-"
_MARK = "staged "  # begins the property that notes a merged token
_ABANDONED_S = 3600.0  # a file without rows that is older is nobody's beginning
RUN_PATIENCE_S = 30.0  # others that merge are done by then, also on a busy machine
_FAILED_PATIENCE_S = 1.0  # who is interrupted does not wait long
# What a run knows, with keys below 1 in the order of the shared ones. Times have to be numbers: a
# catalog may come from a stranger.
_MACHINES = """
    SELECT -row_number() OVER (ORDER BY device_id DESC) AS device_id, fingerprint, name, cores,
        memory_bytes, instruction_set, bandwidth_bytes_per_s, peak_flops_per_s, measured_at,
        device_id AS shared_id
    FROM device
    WHERE isfinite(bandwidth_bytes_per_s) AND bandwidth_bytes_per_s > 0
        AND isfinite(peak_flops_per_s) AND peak_flops_per_s > 0"""
_KNOWN = {
    "device": f"SELECT * EXCLUDE (shared_id) FROM ({_MACHINES})",
    "measurement": f"""
        SELECT -row_number() OVER (ORDER BY measurement_id DESC) AS measurement_id,
            machine.device_id, measurement.* EXCLUDE (measurement_id, device_id)
        FROM measurement JOIN ({_MACHINES}) AS machine ON measurement.device_id = shared_id
        WHERE (median_ns IS NULL AND failure IS NOT NULL)
            OR (isfinite(median_ns) AND median_ns > 0 AND isfinite(spread_ns) AND spread_ns >= 0
                AND isfinite(minimum_ns) AND minimum_ns > 0)""",
    "kernel_configuration": f"""
        SELECT -row_number() OVER (ORDER BY kernel_configuration_id DESC)
            AS kernel_configuration_id,
            machine.device_id, kernel_configuration.* EXCLUDE (kernel_configuration_id, device_id)
        FROM kernel_configuration
        JOIN ({_MACHINES}) AS machine ON kernel_configuration.device_id = shared_id
        WHERE isfinite(median_ns) AND median_ns > 0 AND isfinite(ratio) AND ratio > 0
            AND isfinite(ratio_low) AND isfinite(ratio_high)""",
    "proof": "FROM proof",
    "proof_specification": "FROM proof_specification",
}


class StageFile(Catalog):
    """A file of rows that are not in the shared catalog yet."""

    def _make(self, path: Path) -> tuple[duckdb.DuckDBPyConnection, Opening]:
        return make_file(path)

    def _prepare(self) -> None:
        """Make the tables, without what only people look up: comments and operators."""
        with self.transaction():
            if not has_tables(self.connection):
                migrations.create(self.connection, installed_release(), comments=False)
            elif migrations.version_of(self.connection) < migrations.newest_version():
                migrations.migrate(self.connection, installed_release())
                if (problem := deviation(self.connection)) is not None:
                    raise not_ours(self.path, problem)


class Scratch(StageFile):
    """A catalog in memory for one piece of work: nobody sees its rows afterwards."""

    def __init__(self) -> None:
        super().__init__(":memory:")


class Stage(StageFile):
    """A catalog for one run: it knows what the shared one does, and hands over what it finds.

    `shared` is the path of the catalog, None for the default; it is made if it does not exist.
    Where nothing can be written beside it, the rows stay in memory, and a CatalogWarning says so.
    Raises CatalogError for a shared catalog that can't be used.
    """

    def __init__(self, shared: str | Path | None = None) -> None:
        path = default_path() if shared is None else Path(shared)
        home = str(path)
        self.token = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._merged = False
        if not path.exists():
            _make(path)
        shared_tables = _read_shared_tables(path)
        beside = Path(os.path.realpath(path))
        beside = beside.with_name(f"{beside.name}{_INFIX}{self.token}")
        self._hands_over = os.access(path, os.W_OK) and os.access(beside.parent, os.W_OK)
        if not self._hands_over:
            _warn(f"the catalog {path} can't be written: what is measured now is not kept")
        try:
            super().__init__(beside if self._hands_over else ":memory:")
            with self.transaction():
                for table, rows in shared_tables.items():
                    insert_rows(self, table, rows)
        except BaseException:
            _remove(beside)
            raise
        self.home = home

    def merge(self, *, patience_s: float | None = None) -> Keys | None:
        """Move what was found into the shared catalog, and close this one; return the keys there.

        None, and a CatalogWarning, where that can't be done now. This one stays open then; once it
        is closed, whoever writes to the shared catalog next merges it.
        """
        if self._merged or not self._hands_over:
            return None
        try:
            patience_s = RUN_PATIENCE_S if patience_s is None else patience_s
            with _open_shared(Path(self.home), read_only=False, patience_s=patience_s) as shared:
                keys = _merge_once(self, shared, self.token)
        except (CatalogError, duckdb.Error, OSError) as error:
            self._hands_over = False
            _warn(
                f"what was measured waits in {self.path}, and joins the catalog when that is next "
                f"written: {' '.join(str(error).split())}"
            )
            return None
        self._merged = True
        super().close()
        _remove(Path(self.path))
        return keys

    def __exit__(self, *raised: object) -> None:
        """Hand over what was found, also by a run that failed or was interrupted."""
        fails = raised[0] is not None or sys.exc_info()[0] is not None  # the latter in a `finally`
        self.merge(patience_s=_FAILED_PATIENCE_S if fails else None)
        self.close()


def stage(path: str | Path | None = None) -> Catalog:
    """Return the catalog for a run on the catalog `path`; one in memory is its own."""
    return Catalog(path) if str(path) == ":memory:" else Stage(path)


def has_staged(path: Path) -> bool:
    """Whether files of runs lie beside a catalog: of those that are under way, or of dead ones."""
    return any(True for _ in _staged_files(path))


def adopt(shared: Catalog) -> None:
    """Merge the files that runs have left beside a catalog that is open for writing."""
    path = Path(os.path.realpath(shared.path))
    tokens = set()
    for file, token in _staged_files(path):
        tokens.add(token)
        if not is_open_here(str(file)):
            _adopt(shared, file, token)
    noted = shared.connection.execute(
        "SELECT name FROM catalog_property WHERE starts_with(name, ?)", [_MARK]
    ).fetchall()
    if done := [name for (name,) in noted if name.removeprefix(_MARK) not in tokens]:
        shared.connection.execute(
            "DELETE FROM catalog_property WHERE name IN (SELECT unnest(?::VARCHAR[]))", [done]
        )


def _adopt(shared: Catalog, file: Path, token: str) -> None:
    try:
        if not file.stat().st_size:  # a run begins, or died as it began
            _remove_abandoned(file, token)
            return
        staged = StageFile(file, patience_s=0.0)
    except (LockedError, NewerError, FileNotFoundError):
        return  # its run is under way, its release will take it, or somebody else was faster
    except CatalogError as error:
        if not file.exists():  # its run has just handed it over
            return
        aside = file.with_name(file.name.replace(_INFIX, ".damaged-"))
        with suppress(OSError):
            file.replace(aside)
        _warn(f"what a run has left can't be used, and was set aside as {aside}: {error}")
        return
    with staged:
        if _is_empty(staged):
            _remove_abandoned(file, token)
            return
        try:
            _merge_once(staged, shared, token)
        except (CatalogError, duckdb.Error, OSError) as error:
            reason = " ".join(str(error).split())
            _warn(f"what a run has left in {file} can't be merged, remove or restore it: {reason}")
            return
    _remove(file)


def _merge_once(staged: Catalog, shared: Catalog, token: str) -> Keys | None:
    """Merge a file unless that was done; None if it was."""
    with one_writer, shared.transaction():
        noted = [_MARK + token]
        if shared.sql("SELECT name FROM catalog_property WHERE name = ?", noted).fetchall():
            return None
        keys = merge(staged, shared)
        shared.insert("catalog_property", {"name": noted, "value": ["merged"]})
        return keys


def _read_shared_tables(path: Path) -> dict[str, pa.Table]:
    """Read what a run wants to know of the shared catalog; nothing where that is held for long."""
    try:
        shared = _open_shared(path, read_only=True, patience_s=RUN_PATIENCE_S)
    except LockedError as error:
        _warn(f"nothing that was measured before is used: {error}")
        return {}
    with shared:
        is_old = migrations.version_of(shared.connection) < migrations.newest_version()
        if not is_old:
            return {table: shared.sql(query).to_arrow_table() for table, query in _KNOWN.items()}
    Catalog(path, patience_s=RUN_PATIENCE_S).close()  # brings it up to date
    return _read_shared_tables(path)


def _make(path: Path) -> None:
    with suppress(LockedError):  # who else has made it has it open
        Catalog(path).close()


def _open_shared(path: Path, *, read_only: bool, patience_s: float) -> Catalog:
    """Open the shared catalog; as this process has it open, where it has."""
    here = opening_here(path)
    if here is None:
        return Catalog(path, read_only=read_only, patience_s=patience_s)
    return Catalog(
        path,
        read_only=read_only and here.read_only,
        allow_files=here.allow_files,
        patience_s=patience_s,
    )


def _is_empty(staged: Catalog) -> bool:
    tables = ("model", "rule", "(FROM measurement WHERE measurement_id > 0)", "generation_run")
    return not any(staged.sql(f"SELECT 1 FROM {table} LIMIT 1").fetchall() for table in tables)


def _staged_files(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that runs have beside a catalog, with their tokens."""
    path = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(path.name + _INFIX) + r"(\d+-[0-9a-f]{16})")
    with suppress(OSError):
        for file in sorted(path.parent.iterdir()):
            if match := pattern.fullmatch(file.name):
                yield file, match.group(1)


def _remove_abandoned(file: Path, token: str) -> None:
    """Remove a file without rows, unless its run has just begun."""
    with suppress(OSError):
        is_old = time.time() - file.stat().st_mtime > _ABANDONED_S
        if is_old or _has_ended(int(token.partition("-")[0])):
            _remove(file)


def _has_ended(process: int) -> bool:
    """Whether no process of this number runs; False where that can't be asked harmlessly."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _remove(file: Path) -> None:
    for ending in (".constants", ".wal", ""):
        with suppress(OSError):
            file.with_name(file.name + ending).unlink()


def _warn(text: str) -> None:
    warnings.warn(text, CatalogWarning, stacklevel=3)
