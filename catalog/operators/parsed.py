"""Statements of specifications as parsed, kept on disk: building the parser takes a while.

An entry is named by the statement, its place, and the texts that say what parsing it gives.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib import resources

from ..disk_cache import cache_path, cached_on_disk
from .parser import parse
from .syntax import Statement

_MADE_OF = (("operators", "parser.py", "syntax.py", "grammar.lark"), ("terms", "syntax_tree.py"))


def parsed(text: str, path: str, line: int) -> Statement:
    """Return the one statement of a text that begins on a line of a file; see parse."""
    name = hashlib.sha256(f"{_version()}\n{path}:{line}\n{text}".encode()).hexdigest()
    entry = cache_path() / "specifications" / f"{name[:32]}.pickle"
    return cached_on_disk(entry, lambda: _only_statement(text, path, line))


def _only_statement(text: str, path: str, line: int) -> Statement:
    (statement,) = parse(text, path, line)
    return statement


@cache
def _version() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for folder, *names in _MADE_OF:
        package = resources.files(f"{__package__.rpartition('.')[0]}.{folder}")
        for name in names:
            digest.update((package / name).read_bytes())
    return digest.hexdigest()
