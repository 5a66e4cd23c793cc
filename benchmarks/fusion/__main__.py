"""Fused NumPy programs against NumPy, SciPy and others, and the planner against its heuristics.

python -m benchmarks.fusion            the programs at the sizes of the table, 1 and 2 threads
python -m benchmarks.fusion --full     at the sizes of the paper's evaluation
python -m benchmarks.fusion --quick    small arrays and few rounds: a check that it works
python -m benchmarks.fusion --systemds also SystemDS, in processes of its own, after the rows
python -m benchmarks.fusion --resume   only the rows that an interrupted run left out; with
                                       --systemds also SystemDS's times that rows are without

What says most comes first: all rows with two threads, expressions before algorithms. numexpr, JAX,
PyTorch and SystemDS take part where they are installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..environment import results
from ..rows import rows_file, write_rows
from .algorithms import ALGORITHMS
from .measure import limit_processors, measure
from .programs import PROGRAMS
from .table import notes, table

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small arrays, few rounds")
    parser.add_argument("--full", action="store_true", help="the paper's sizes")
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name has this")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--no-peers", action="store_true", help="NumPy and SciPy alone")
    parser.add_argument("--systemds", action="store_true", help="SystemDS too")
    parser.add_argument("--resume", action="store_true", help="keep the rows that --out has")
    parser.add_argument("--minutes", type=float, help="begin no row after so many minutes")
    parser.add_argument("--out", type=rows_file, default=results("fusion"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = "quick" if arguments.quick else "full" if arguments.full else "default"
    rounds = 3 if arguments.quick else arguments.rounds
    if arguments.one:
        threads = arguments.threads[0]
        limit_processors(threads)
        row = measure(arguments.one, threads, size, rounds, not arguments.no_peers)
        print(json.dumps(row))
        return
    rows = _kept(arguments.out, size) if arguments.resume else []
    known = {(row["program"], row["threads"]) for row in rows}
    names = [*PROGRAMS, *ALGORITHMS]
    if arguments.only:
        names = [name for name in names if any(part in name for part in arguments.only)]
    end = math.inf if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    for threads, name in itertools.product(arguments.threads, names):
        if (name, threads) in known:
            continue
        if time.monotonic() > end:
            print("time is up: --resume goes on from here", file=sys.stderr)
            break
        row = _in_child(name, threads, size, rounds, arguments.no_peers)
        rows.append(row)
        print(f"{name}, {threads}: {row.get('error', 'done')}", file=sys.stderr, flush=True)
        write_results(rows, arguments.out)
    if arguments.systemds:
        _add_systemds(rows, names, arguments.out)
    print(table(rows))


def _kept(path: Path, size: str) -> list[dict[str, Any]]:
    """Return the rows of an interrupted run; those that failed are measured again."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if "error" not in row and row.get("size") == size]


def _in_child(name: str, threads: int, size: str, rounds: int, alone: bool) -> dict[str, Any]:
    """Measure in a process of its own, whose BLAS has as many threads as the kernels."""
    command = [sys.executable, "-m", "benchmarks.fusion", "--one", name, "--rounds", str(rounds)]
    command += ["--threads", str(threads)]
    command += [] if size == "default" else [f"--{size}"]
    command += ["--no-peers"] if alone else []
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(limits, str(threads))}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode:
        reasons = [line for line in ran.stderr.splitlines() if line.strip()]
        return {"program": name, "threads": threads, "error": reasons[-1] if reasons else "failed"}
    row: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return row


def _add_systemds(rows: Sequence[dict[str, Any]], names: Sequence[str], path: Path) -> None:
    """Add SystemDS's times to the rows of these programs that don't have them, and write all."""
    from .systemds import add_systemds

    for threads in dict.fromkeys(row["threads"] for row in rows):
        without = [
            row
            for row in rows
            if row["threads"] == threads
            and row["program"] in names
            and "error" not in row
            and "systemds_ms" not in row
        ]
        add_systemds(without, threads)
        print(f"SystemDS, {threads}: done", file=sys.stderr, flush=True)
        write_results(rows, path)


def write_results(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the rows as JSON, and as Markdown beside it, a program's together."""
    order = [*PROGRAMS, *ALGORITHMS]
    rows = sorted(rows, key=lambda row: (order.index(row["program"]), -row["threads"]))
    head = "# Fusion\n\n`python -m benchmarks.fusion`"
    write_rows(path, rows, head, f"{table(rows)}\n\n{notes(rows)}")


if __name__ == "__main__":
    main()
