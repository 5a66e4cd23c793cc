"""What commands over models have in common: options, rows that are kept, time that ends, progress.

A row is a dictionary: its case, and what was found out about it. Rows are written after each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .child import StepError
from .environment import results
from .rows import load_rows, rows_file
from .zoo import ARCHITECTURES

Row = dict[str, Any]
Steps = Iterator[tuple[str, Mapping[str, Any]]]
"""The steps of a row: the name of the next one, and what the last one found."""


def options(
    command: str,
    about: str | None,
    threads: Sequence[int],
    names: Collection[str] = ARCHITECTURES,
) -> argparse.ArgumentParser:
    """Return a parser of the options that all commands have; rows are kept in COMMAND.json.

    `names` are those of models that may be asked for.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{command}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="tiny models, little time for each")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=list(threads))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no row after")
    parser.add_argument("--out", type=rows_file, default=results(command))
    parser.add_argument("--resume", action="store_true", help="keep the rows that OUT holds")
    return parser


def collect(
    cases: Sequence[Row],
    measure: Callable[[Row], Steps],
    write: Callable[[Sequence[Row]], None],
    arguments: argparse.Namespace,
) -> list[Row]:
    """Measure each case that is not kept yet, until time is up; return all rows.

    A row whose steps raise StepError gets its message as `error`.
    """
    end = time.monotonic() + 60 * arguments.minutes
    rows = load_rows(arguments.out) if arguments.resume else []
    left = [case for case in cases if not any(case.items() <= row.items() for row in rows)]
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task("", total=len(left))
        for case in left:
            label = f"{case['name']}, {case['threads']} threads"
            if time.monotonic() > end:
                console.print(f"time is up before {label}: go on with --resume")
                break
            row = dict(case)
            try:
                for step, measured in measure(case):
                    progress.update(task, description=f"{label}: {step}")
                    row |= measured
            except StepError as error:
                row["error"] = str(error)
            rows.append(row)
            write(rows)
            progress.advance(task)
    return rows
