"""How well the sum of kernel medians predicts a model: each architecture, 1 and 2 threads.

python -m benchmarks.prediction           all architectures
python -m benchmarks.prediction --quick   tiny versions and few rounds: a check that it works

The kernels are those that ONNX Runtime runs after its full optimization, each timed alone, in the
same rounds as the model. The aim is a sum within 15 % of what is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .child import run_step
from .frame import Row, Steps, collect, options
from .rows import table_head, table_row, write_rows
from .zoo import ARCHITECTURES

AIM = 0.15
HEADER = ("model", "threads", "kernels", "measured", "sum / measured", "dearest kernels")
SHOWN = 3


def main() -> None:
    parser = options("prediction", __doc__, threads=(1, 2))
    parser.add_argument("--rounds", type=int, default=5, help="of each opening")
    arguments = parser.parse_args()
    names = arguments.only or ARCHITECTURES
    cases = [{"name": name, "threads": count} for name in names for count in arguments.threads]

    def write(rows: Sequence[Row]) -> None:
        write_rows(arguments.out, rows, HEAD, table(rows))

    with tempfile.TemporaryDirectory(prefix="tensolog-prediction-") as folder:
        rows = collect(cases, partial(measure, arguments, Path(folder)), write, arguments)
    print(table(rows))


def measure(arguments: argparse.Namespace, folder: Path, case: Row) -> Steps:
    path = folder / f"{case['name']}.onnx"
    if not path.exists():
        for stale in folder.glob("*.onnx"):
            stale.unlink()
        yield "building", {}
        run_step("build", name=case["name"], source="onnx", path=str(path), tiny=arguments.quick)
    yield "measuring", {}
    rounds = 2 if arguments.quick else arguments.rounds
    yield "done", run_step("predict", path=str(path), threads=case["threads"], rounds=rounds)


HEAD = "# Prediction\n\n`python -m benchmarks.prediction`"


def table(rows: Sequence[Row]) -> str:
    """Write rows as Markdown, and below how many keep the aim and which do not."""
    lines = [*table_head(HEADER), *(table_row(_cells(row)) for row in rows)]
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


def _cells(row: Row) -> list[str]:
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
