"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def temporary_beside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a new file in the folder of `path`; it is removed unless the block moves it away."""
    name = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")  # names have a limit
    try:
        with name.open("xb") as file:
            yield file, name
    finally:
        with suppress(FileNotFoundError):
            name.unlink()


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


def replace_together(moves: list[tuple[Path, Path]]) -> None:
    """Move each first path to the second one; on failure the old files are back in place."""
    saved: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for new, target in moves[:-1]:  # the last move decides: it needs no way back
            if target.exists():
                backup = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
                target.rename(backup)
                saved.append((backup, target))
            made.append(target)
            new.replace(target)
        moves[-1][0].replace(moves[-1][1])
    except BaseException:
        for target in made:
            target.unlink(missing_ok=True)
        for backup, target in saved:
            backup.replace(target)
        raise
    for backup, _ in saved:
        backup.unlink(missing_ok=True)
