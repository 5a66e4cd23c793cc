"""What takes long to make and depends on nothing but the installed version, kept on disk.

An entry is read as data, never as a program: it can name dataclasses and named tuples of this
project and nothing else, and counts only where nobody but its user could have written it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from .files import make_private, replacing, writable_by_others

# Imported within functions: platformdirs, which asks the system; who keeps nothing needs no folder.

T = TypeVar("T")

_PROJECT = f"{__package__}".partition(".")[0] + "."


def cache_path() -> Path:
    """Return the user's folder of what can be made anew."""
    import platformdirs

    return platformdirs.user_cache_path("tensolog")


def text_hash(folder: Traversable, endings: tuple[str, ...]) -> str:
    """Return a hash of the files of a package, by the endings of their names: what reads an entry.

    Pickles also depend on the version of Python, which is in it.
    """
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(endings):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def cached_on_disk(entry: Path, make: Callable[[], T]) -> T:
    """Return what a file holds; made, and written whole, where it doesn't hold what was written.

    The entry's name tells all that its contents depend on. A folder that can't be written, or that
    others may write to, is no error: then it is made in each process.
    """
    try:
        if writable_by_others(entry.parent) or writable_by_others(entry):
            raise PermissionError("somebody else may have written it")
        value: T = load_data(_checked(entry.read_bytes()))
        return value
    except Exception:  # absent, damaged, or of somebody else
        new = make()
    with contextlib.suppress(OSError):
        make_private(entry.parent)
        if not writable_by_others(entry.parent):
            pickled = pickle.dumps(new)
            with replacing(entry) as file:
                Path(file.name).chmod(0o600)
                file.write(hashlib.sha256(pickled).digest() + pickled)
    return new


def load_data(pickled: bytes) -> Any:
    """Return pickled data: dataclasses and named tuples of this project, and what literals are.

    Raises pickle.UnpicklingError for what names anything else, which plain pickle would call.
    """
    return _DataUnpickler(io.BytesIO(pickled)).load()


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_PROJECT):
            allowed = super().find_class(module, name)
            if isinstance(allowed, type) and (is_dataclass(allowed) or _is_named_tuple(allowed)):
                return allowed
        raise pickle.UnpicklingError(f"{module}.{name} is no data")


def _checked(written: bytes) -> bytes:
    """Return what follows the checksum: a damaged pickle may be one of something else."""
    size = hashlib.sha256().digest_size
    stated, pickled = written[:size], written[size:]
    if hashlib.sha256(pickled).digest() != stated:
        raise ValueError("other bytes than were written")
    return pickled
