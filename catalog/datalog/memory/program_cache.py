"""The programs that come with tensolog, over few rows: their plans are kept on disk as made.

Reading and planning a program takes a fifth of a second, reading its plan a millisecond, and none
of what made it is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ... import terms
from ...disk_cache import cache_path, cached_on_disk, text_hash
from .execution import Evaluator
from .plan import ProgramPlan

if TYPE_CHECKING:
    from ..program import Program

T = TypeVar("T")

# Imported within functions: what reads and plans a program, which is done once.


def shipped(file: Traversable) -> Evaluator:
    """Return what derives all relations of a program file from rows of its inputs.

    Rows are as those of `derive` (derivation.py), and not looked at: who gives them knows the
    program. It is one that can be evaluated in memory, which a test sees to. What it includes lies
    beside it.
    """
    return Evaluator(_kept("datalog-plans", file, _planned))


def shipped_program(file: Traversable) -> Program:
    """Return a program file as it is parsed, for who asks about its clauses."""
    return _kept("datalog-programs", file, _parsed)


def _kept(folder: str, file: Traversable, make: Callable[[str, str], T]) -> T:
    text = file.read_text(encoding="utf-8")
    parts = text_hash(Path(str(file)).parent, (".dl",))
    name = hashlib.sha256(f"{_version()}\n{file.name}\n{text}\n{parts}".encode()).hexdigest()
    entry = cache_path() / folder / f"{name[:32]}.pickle"
    return cached_on_disk(entry, lambda: make(text, str(file)))


def _parsed(text: str, path: str) -> Program:
    from ..program import parse

    return parse(text, path)


def _planned(text: str, path: str) -> ProgramPlan:
    from .program_plans import plan_of

    return plan_of(_parsed(text, path))


@cache
def _version() -> str:
    """Return what a plan depends on besides the program: what reads, checks and plans it."""
    package = __package__.rpartition(".")[0]
    folder = resources.files(package)
    parts = [folder / name for name in ("language", "analysis", "memory")]
    sources = [text_hash(part, (".py", ".lark")) for part in parts]
    nodes = text_hash(resources.files(terms), ("syntax_tree.py", "comparisons.py"))
    return "".join([*sources, nodes, text_hash(folder, ("program.py", "steps.py"))])
