"""Conditions kept on disk, so that a program is derived once on a machine, not in each process.

An entry is named by all that it depends on: the facts, templates.dl, and the engine that ran it.
One that can't be read or written is derived as if it weren't there. Beside them templates.dl is
kept as it was parsed: to build the parser takes longer than to derive from what it gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import sys
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...catalog.datalog import Program, parse
from .facts import Facts


def folder() -> Path:
    """Return where they are kept: $TENSOLOG_CONDITIONS, or the user's cache folder."""
    named = os.environ.get("TENSOLOG_CONDITIONS")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tensolog")) / "conditions"


def _text() -> str:
    return (resources.files(__package__) / "templates.dl").read_text(encoding="utf-8")


@cache
def _version() -> str:
    """Return what tells one state of the rules and of their engine from another."""
    found = [_text()]
    engine = resources.files(__package__.rpartition(".optimizer.")[0] + ".catalog.datalog")
    for one in sorted(engine.iterdir(), key=lambda one: one.name):
        if isinstance(one, Path) and one.suffix in (".py", ".lark"):
            about = one.stat()
            found.append(f"{one.name} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found)


@cache
def rules() -> Program:
    """Return templates.dl parsed, by an earlier process where it was."""
    name = hashlib.sha256(f"{sys.version}\0{_version()}".encode()).hexdigest()[:40]
    entry = folder() / f"{name}.pickle"
    try:
        found = pickle.loads(entry.read_bytes())
    except Exception:  # absent, cut off, or not to be read
        found = None
    if not isinstance(found, Program):
        found = parse(_text())
        _write(entry, pickle.dumps(found))
    return found


def _entry(described: Facts) -> Path:
    text = "\0".join([_version(), json.dumps(described)])
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.json"


def load(described: Facts) -> dict[str, Any] | None:
    """Return the relations that were kept for these facts, None where there are none."""
    try:
        found: dict[str, Any] = json.loads(_entry(described).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def keep(described: Facts, relations: dict[str, Any]) -> None:
    """Keep relations for these facts."""
    _write(_entry(described), json.dumps(relations).encode())


def _write(entry: Path, content: bytes) -> None:
    """Write an entry; it appears whole, so that processes may race."""
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=entry.parent, suffix=".part", delete=False) as part:
            part.write(content)
        Path(part.name).replace(entry)
