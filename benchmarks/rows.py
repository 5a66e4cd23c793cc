"""Rows of a benchmark on disk: JSON to go on from, and the table in Markdown made of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .environment import describe, markdown


def rows_file(text: str) -> Path:
    """Read the argument of an option: a file for rows; the table goes beside it."""
    path = Path(text)
    if path.is_dir() or path.suffix != ".json":
        raise argparse.ArgumentTypeError(f"{text} is no file whose name ends with .json")
    return path


def load_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows that a file holds, without those that failed; none where there is no file."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if "error" not in row]


def write_rows(path: Path, rows: Sequence[dict[str, Any]], head: str, table: str) -> None:
    """Write rows as JSON, and beside it head, machine and table as Markdown; whole or not at all.

    `head` is a title and a command: "# Models\\n\\n`python -m …`".
    """
    machine = describe()
    content = json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n"
    text = f"{head}; {markdown(machine)}.\n\n{table}\n"
    write_whole(path, content)
    write_whole(path.with_suffix(".md"), text)


def table_row(cells: Iterable[object]) -> str:
    """Lay a row of a table out in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def table_head(names: Sequence[str]) -> list[str]:
    """Lay the head of a table out in Markdown: its names, and the line below them."""
    return [table_row(names), "|---" * len(names) + "|"]


def table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Lay rows of cells out in Markdown."""
    return "\n".join([*table_head(head), *map(table_row, rows)])


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all, and the folder it lies in where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
