"""What a shell completes: names of rules and tables, read as text, so that nothing heavy loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
REJECTED = "rejected.rules"


def one_of(*known: str) -> Completer:
    """Complete one of some words."""
    return lambda _context, _parameter, incomplete: named(known, incomplete)


def shipped_rule(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a shipped rule."""
    return named(rule_names(rejected=False), incomplete)


def any_rule(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a rule, refused ones among them, or a file of rules."""
    rules = named(rule_names(), incomplete)
    # Files come first: bash forgets the names that it was given before them.
    return [_files(incomplete), *rules]


def table(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a table of the catalog."""
    return named(table_names(), incomplete)


def file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell to complete a file."""
    return [_files(incomplete)]


def rule_names(*, rejected: bool = True) -> list[str]:
    """Name the shipped rules, and those that were refused unless they are left out."""
    files = sorted([*_folder("rules").glob("*.rules"), *_folder("rules").glob("found/*.rules")])
    return _names_in(r"^rule (\w+)", (file for file in files if rejected or file.name != REJECTED))


def table_names() -> list[str]:
    """Name the tables that a catalog has."""
    return _names_in(r"^CREATE TABLE (\w+)", [_folder("catalog") / "store" / "schema.sql"])


def named(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Give the names that begin as what was typed."""
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _files(incomplete: str) -> CompletionItem:
    return CompletionItem(incomplete, type="file")


def _folder(name: str) -> Path:
    """Find a folder of tensolog without importing what is in it."""
    spec = find_spec(f"{__name__.partition('.')[0]}.{name}")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def _names_in(pattern: str, files: Iterable[Path]) -> list[str]:
    return [
        name
        for file in files
        for name in re.findall(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
