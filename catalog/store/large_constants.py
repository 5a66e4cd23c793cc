"""The file beside a catalog that takes the large constants that lie in no other file."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import CatalogError


class Spool:
    """An append-only file of bytes; that of a catalog in memory goes with the catalog.

    DuckDB would take several times the size of a model in memory to store its weights as BLOBs.
    """

    def __init__(self, catalog_path: str) -> None:
        self._path: Path | None = None
        self._temporary = catalog_path == ":memory:"
        if not self._temporary:
            self._path = Path(catalog_path + ".constants").absolute()
        self.offsets: dict[str, int] | None = None  # constant -> offset

    @property
    def location(self) -> str | None:
        """Absolute path of the file; None while there is none."""
        return None if self._path is None else str(self._path)

    def append(self, chunks: Iterable[bytes | memoryview]) -> int:
        """Write bytes to the end and return where they start. Raises CatalogError."""
        if self._path is None:
            descriptor, name = tempfile.mkstemp(prefix="tensolog-", suffix=".constants")
            os.close(descriptor)
            self._path = Path(name)
            self._remove = weakref.finalize(self, _remove, name)
        try:
            with self._path.open("ab") as file:
                start = file.tell()
                padding = -start % 64  # arrays mapped from here are aligned
                file.write(bytes(padding))
                for chunk in chunks:
                    file.write(chunk)
        except OSError as error:
            raise CatalogError(f"can't write {self._path}: {error.strerror or error}") from error
        return start + padding

    def close(self) -> None:
        """Remove a temporary file; that of a catalog file stays."""
        if self._temporary and self._path is not None:
            self._remove()


def _remove(name: str) -> None:
    with suppress(OSError):
        Path(name).unlink()
