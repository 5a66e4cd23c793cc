"""How well the sum of kernel medians predicts a model: each architecture, 1 and 2 threads.

python -m benchmarks.prediction           all architectures
python -m benchmarks.prediction --quick   tiny versions and few rounds: a check that it works

The kernels are those that ONNX Runtime runs after its full optimization, each timed alone, in the
same rounds as the model. The aim is a sum within 15 % of what is measured.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .child import StepError, run_step
from .rows import load_rows, write_rows
from .zoo import ARCHITECTURES

RESULTS = Path(__file__).resolve().parent / "results"
AIM = 0.15
HEADER = ("model", "threads", "kernels", "measured", "sum / measured", "dearest kernels")
SHOWN = 3


def main() -> None:
    arguments = parse_arguments()
    end = time.monotonic() + 60 * arguments.minutes
    rows = load_rows(arguments.out) if arguments.resume else []
    done = {(row["name"], row["threads"]) for row in rows}
    names = arguments.only or ARCHITECTURES
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
        task = progress.add_task("prediction", total=len(names) * len(arguments.threads))
        for name in names:
            with tempfile.TemporaryDirectory(prefix="tensolog-prediction-") as folder:
                for threads in arguments.threads:
                    if (name, threads) not in done and time.monotonic() < end:
                        progress.update(task, description=f"{name}, {threads} threads")
                        rows.append(measure(name, threads, arguments, Path(folder)))
                        write_rows(arguments.out, rows, HEAD, table(rows))
                    progress.advance(task)
    print(table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prediction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="tiny models, few rounds")
    parser.add_argument("--only", nargs="+", choices=ARCHITECTURES, metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no row after")
    parser.add_argument("--out", type=Path, default=RESULTS / "prediction.json")
    parser.add_argument("--resume", action="store_true", help="keep the rows that OUT holds")
    return parser.parse_args()


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    path = folder / "model.onnx"
    row: dict[str, Any] = {"name": name, "threads": threads}
    try:
        if not path.exists():
            run_step("build", name=name, source="onnx", path=str(path), tiny=arguments.quick)
        rounds = 3 if arguments.quick else arguments.rounds
        return row | run_step("predict", path=str(path), threads=threads, rounds=rounds)
    except StepError as error:
        return row | {"error": str(error)}


HEAD = "# Prediction\n\n`python -m benchmarks.prediction`"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as Markdown, and below how many keep the aim and which do not."""
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    known = [row for row in rows if "error" not in row]
    off = [row for row in known if abs(row["ratio"] - 1) > AIM]
    lines += ["", f"{len(known) - len(off)} of {len(known)} sums are within {AIM:.0%}."]
    lines += [f"- {row['name']}, {row['threads']} threads: {row['ratio'] - 1:+.0%}" for row in off]
    lines += [
        f"- {row['name']}, {row['threads']} threads: not timed alone: {', '.join(row['untimed'])}"
        for row in known
        if row["untimed"]
    ]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    start = [row["name"], str(row["threads"])]
    if "error" in row:
        return [*start, row["error"], "", "", ""]
    dearest = ", ".join(
        f"{share['count']}x {share['kernel']} {share['part']:.0%}"
        for share in row["shares"][:SHOWN]
    )
    measured = f"{row['measured_ms']:.2f} ms"
    return [*start, str(row["kernels"]), measured, f"{row['ratio']:.3f}", dearest]


if __name__ == "__main__":
    main()
