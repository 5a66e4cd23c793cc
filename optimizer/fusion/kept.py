"""Conditions kept on disk, so that a program is derived once on a machine, not in each process.

An entry is named by all that it depends on: the facts, templates.dl, and the engine that ran it.
One that can't be read or written is derived as if it weren't there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from .facts import Facts


def folder() -> Path:
    """Return where they are kept: $TENSOLOG_CONDITIONS, or the user's cache folder."""
    named = os.environ.get("TENSOLOG_CONDITIONS")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tensolog")) / "conditions"


@cache
def _rules() -> str:
    """Return what tells one state of the rules and of their engine from another."""
    found = [(resources.files(__package__) / "templates.dl").read_text(encoding="utf-8")]
    engine = resources.files(__package__.rpartition(".optimizer.")[0] + ".catalog.datalog")
    for one in sorted(engine.iterdir(), key=lambda one: one.name):
        if isinstance(one, Path) and one.suffix in (".py", ".lark"):
            about = one.stat()
            found.append(f"{one.name} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found)


def _entry(described: Facts) -> Path:
    text = "\0".join([_rules(), json.dumps(described)])
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.json"


def load(described: Facts) -> dict[str, Any] | None:
    """Return the relations that were kept for these facts, None where there are none."""
    try:
        found: dict[str, Any] = json.loads(_entry(described).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def keep(described: Facts, relations: dict[str, Any]) -> None:
    """Keep relations for these facts; they appear whole, so that processes may race."""
    entry = _entry(described)
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=entry.parent, suffix=".part", delete=False, encoding="utf-8"
        ) as part:
            json.dump(relations, part)
        Path(part.name).replace(entry)
