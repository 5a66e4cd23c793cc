"""What takes long to make and depends on nothing but the installed version, kept on disk."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def cache_path() -> Path:
    """Return the user's folder of what can be made anew."""
    import platformdirs

    return platformdirs.user_cache_path("tensolog")


def kept(entry: Path, make: Callable[[], T]) -> T:
    """Return what a file holds; made, and written whole, where it holds nothing that can be read.

    The entry's name tells all that its contents depend on. A folder that can't be written is no
    error: then it is made in each process.
    """
    try:
        held: T = pickle.loads(entry.read_bytes())
        return held
    except Exception:  # absent, or cut off
        made = make()
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        written = entry.with_suffix(f".{os.getpid()}")
        written.write_bytes(pickle.dumps(made))
        written.replace(entry)
    return made
