"""What takes long to make and depends on nothing but the installed version, kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def cache_path() -> Path:
    """Return the user's folder of what can be made anew."""
    import platformdirs

    return platformdirs.user_cache_path("tensolog")


def text_hash(folder: Traversable, endings: tuple[str, ...]) -> str:
    """Return a hash of the files of a package, by the endings of their names: what reads an entry.

    Pickles also depend on the version of Python, which is in it.
    """
    digest = hashlib.sha256(sys.version.encode())
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(endings):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def kept(entry: Path, make: Callable[[], T]) -> T:
    """Return what a file holds; made, and written whole, where it doesn't hold what was written.

    The entry's name tells all that its contents depend on. A folder that can't be written is no
    error: then it is made in each process.
    """
    try:
        held: T = pickle.loads(_checked(entry.read_bytes()))
        return held
    except Exception:  # absent, or damaged
        made = make()
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        written = entry.with_suffix(f".{os.getpid()}")
        pickled = pickle.dumps(made)
        written.write_bytes(hashlib.sha256(pickled).digest() + pickled)
        written.replace(entry)
    return made


def _checked(written: bytes) -> bytes:
    """Return what follows the checksum: a damaged pickle may be one of something else."""
    size = hashlib.sha256().digest_size
    stated, pickled = written[:size], written[size:]
    if hashlib.sha256(pickled).digest() != stated:
        raise ValueError("other bytes than were written")
    return pickled
