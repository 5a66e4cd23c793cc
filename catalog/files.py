"""Files that appear whole or not at all, and folders that only their user may write to."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def temporary_beside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a new file in the folder of `path`; it is removed unless the block moves it away."""
    name = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")  # names have a limit
    remove = partial(name.unlink, missing_ok=True)
    atexit.register(remove)  # a second interrupt ends the process before the block ends
    try:
        with name.open("xb") as file:
            yield file, name
    finally:
        remove()
        atexit.unregister(remove)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that takes the name of `path` when the block ends well, or vanishes.

    A symbolic link stays: the file behind it is replaced. So would a device be: check before.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    with temporary_beside(target) as (file, temporary):
        yield file
        file.close()
        temporary.replace(target)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for a folder, and keep others waiting.

    It takes a lock on the folder, which the system gives back however the process ends. Where there
    are no such locks, as on Windows, it waits for nobody.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def put_in_place(new: Path, target: Path) -> None:
    """Move a file or a folder to a name, in the place of what has it; on failure that is back."""
    if not os.path.lexists(target):
        new.rename(target)
        return
    older = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.old")
    target.rename(older)
    try:
        new.rename(target)
    except BaseException:
        older.rename(target)
        raise
    if older.is_dir():
        shutil.rmtree(older, ignore_errors=True)
    else:
        older.unlink(missing_ok=True)


def replace_together(moves: list[tuple[Path, Path]]) -> None:
    """Move each first path to the second one; on failure the old files are back in place."""
    saved: list[tuple[Path, Path]] = []
    replaced: list[Path] = []
    try:
        for new, target in moves[:-1]:  # the last move decides: it needs no way back
            if target.exists():
                backup = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
                target.rename(backup)
                saved.append((backup, target))
            replaced.append(target)
            new.replace(target)
        moves[-1][0].replace(moves[-1][1])
    except BaseException:
        for target in replaced:
            target.unlink(missing_ok=True)
        for backup, target in saved:
            backup.replace(target)
        raise
    for backup, _ in saved:
        backup.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder, with those above it, that nobody but the user can read or write."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def writable_by_others(path: Path) -> str:
    """Return who but this user may change a file or folder, and the mend; "" for nobody.

    Whoever may write to a folder can put a file of his own in the place of any file in it. Raises
    OSError where there is no such path. On Windows, where modes say nothing of it, it is nobody.
    """
    if os.name == "nt":
        return ""
    state = path.stat()
    if state.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {state.st_uid})"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {path}: chmod go-w it"
    return ""
