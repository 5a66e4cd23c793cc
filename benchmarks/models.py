"""The table: each architecture under ONNX Runtime's full optimization, before and after tensolog.

python -m benchmarks.models           all architectures, by both of torch's exporters if installed
python -m benchmarks.models --quick   tiny versions and short races: a check that it works
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .child import StepError, run_step
from .rows import load_rows, write_rows
from .zoo import ARCHITECTURES

RESULTS = Path(__file__).resolve().parent / "results"
MEMORY_FACTOR, MEMORY_EXTRA = 3, 500_000_000
SECONDS_ALLOWED = 60.0


@dataclass(frozen=True)
class Case:
    """One row of the table: a model, where it comes from, and a number of threads."""

    name: str
    source: str
    dynamic: bool
    threads: int

    @property
    def model(self) -> str:
        """Name the model's file."""
        return f"{self.name}-{self.source}{'-dynamic' if self.dynamic else ''}"


@dataclass(frozen=True)
class Plan:
    """What to run, and how long."""

    cases: tuple[Case, ...]
    tiny: bool
    budget: float | None
    race_budget: float


def main() -> None:
    arguments = parse_arguments()
    plan = make_plan(arguments)
    out: Path = arguments.out
    rows = load_rows(out) if arguments.resume else []
    done = {row["case"] for row in rows}
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(TextColumn("{task.description}"), *columns, console=console) as progress,
    ):
        task = progress.add_task("models", total=len(plan.cases))
        for case in plan.cases:
            key = f"{case.model}-{case.threads}"
            if key not in done:
                row: dict[str, Any] = {"case": key, **asdict(case)}
                try:
                    for step, values in measure(case, plan, Path(folder)):
                        progress.update(task, description=f"{key}: {step}")
                        row |= values
                except StepError as error:
                    row["error"] = str(error)
                rows.append(row)
                write_rows(out, rows, "# Models\n\n`python -m benchmarks.models`", table(rows))
            progress.advance(task)
    print(table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny models, short races")
    parser.add_argument("--only", nargs="+", choices=ARCHITECTURES, metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    sources = ["torchscript", "dynamo", "onnx"]
    parser.add_argument("--sources", nargs="+", choices=sources, metavar="SOURCE")
    parser.add_argument("--dynamic", action="store_true", help="leave batch and length open")
    parser.add_argument("--budget", type=float, help="seconds an optimization may measure")
    parser.add_argument("--race", type=float, help="seconds of the final race of each row")
    parser.add_argument("--out", type=Path, default=RESULTS / "models.json")
    parser.add_argument("--resume", action="store_true", help="keep the rows that OUT holds")
    return parser.parse_args()


def make_plan(arguments: argparse.Namespace) -> Plan:
    cases = tuple(
        Case(name, source, arguments.dynamic, threads)
        for name in (arguments.only or ARCHITECTURES)
        for source in arguments.sources or sources_of(name)
        for threads in arguments.threads
    )
    if arguments.quick:
        return Plan(cases, True, arguments.budget or 2.0, arguments.race or 1.0)
    return Plan(cases, False, arguments.budget, arguments.race or 20.0)


def sources_of(name: str) -> list[str]:
    """Name torch's exporters where torch is there and has a module of that name."""
    if importlib.util.find_spec("torch") is not None:
        from .torch_models import MODULES

        if name in MODULES:
            return ["torchscript", "dynamo"]
    return ["onnx"]


def measure(case: Case, plan: Plan, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (the next step, what the last one found); the last step is named done."""
    original = folder / f"{case.model}.onnx"
    optimized = folder / "optimized.onnx"
    for stale in folder.glob("*.onnx"):
        if stale != original:
            stale.unlink()
    yield "building", {}
    if not original.exists():
        run_step(
            "build",
            name=case.name,
            source=case.source,
            path=str(original),
            tiny=plan.tiny,
            dynamic=case.dynamic,
        )
    size = original.stat().st_size
    yield "optimizing", {"model_bytes": size}
    # A fresh catalog each: nothing measured for one row shortens the optimization of another.
    with tempfile.TemporaryDirectory(dir=folder) as catalog:
        found = run_step(
            "optimize",
            path=str(original),
            out=str(optimized),
            threads=case.threads,
            budget=plan.budget,
            catalog=f"{catalog}/catalog.duckdb",
        )
    found["allowed_bytes"] = MEMORY_FACTOR * size + MEMORY_EXTRA
    yield "comparing", found
    pair = {"original": str(original), "optimized": str(optimized)}
    found = run_step("compare", **pair)
    yield "racing", found
    found = run_step("race", **pair, threads=case.threads, budget=plan.race_budget)
    yield "done", found


HEADER = (
    "model",
    "from",
    "threads",
    "nodes",
    "original",
    "tensolog",
    "speedup",
    "opened with",
    "95 % interval",
    "optimized in",
    "peak memory",
    "deviation",
)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write the rows as a Markdown table, and below it what exceeds its bound."""
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    complaints = [complaint for row in rows for complaint in exceeded(row)]
    speedups = [row["speedup"] for row in rows if "speedup" in row]
    if speedups:
        product = 1.0
        for speedup in speedups:
            product *= speedup
        lines += ["", f"Geometric mean of the speedups: {product ** (1 / len(speedups)):.3f}."]
    return "\n".join([*lines, "", *(complaints or ["All rows keep their bounds."])])


def cells(row: dict[str, Any]) -> list[str]:
    origin = row["source"] + (", dynamic" if row["dynamic"] else "")
    start = [row["name"], origin, str(row["threads"])]
    if "error" in row:
        return [*start, row["error"], *[""] * (len(HEADER) - 4)]
    return [
        *start,
        f"{row['nodes_before']} → {row['nodes_after']}",
        f"{row['original_ms']:.2f} ms",
        f"{row['optimized_ms']:.2f} ms",
        f"{row['speedup']:.3f}" if row["chosen"] != "original" else "kept",
        row["opened"] + (f" (else {row['plain_speedup']:.3f})" if "plain_speedup" in row else ""),
        f"{row['speedup_low']:.3f} to {row['speedup_high']:.3f}",
        f"{row['seconds']:.1f} s",
        f"{row['peak_bytes'] / 1e6:.0f} of {row['allowed_bytes'] / 1e6:.0f} MB",
        f"{row['deviation']:.1e}",
    ]


def exceeded(row: dict[str, Any]) -> Iterator[str]:
    """Yield what a row breaks: slower beyond noise, too slow to optimize, too much memory."""
    if "error" in row:
        yield f"{row['case']}: {row['error']}"
        return
    # A kept model is the original itself: what its race shows is the noise of the method.
    if row["verdict"] == "slower" and row["chosen"] != "original":
        yield f"{row['case']}: slower beyond noise, {row['speedup']:.3f}"
    if row.get("plain_verdict") == "slower":
        yield f"{row['case']}: slower where opened by default, {row['plain_speedup']:.3f}"
    if row["seconds"] > SECONDS_ALLOWED:
        yield f"{row['case']}: optimized in {row['seconds']:.0f} s, allowed {SECONDS_ALLOWED:.0f}"
    if row["peak_bytes"] > row["allowed_bytes"]:
        peak, allowed = row["peak_bytes"] / 1e6, row["allowed_bytes"] / 1e6
        yield f"{row['case']}: peak memory {peak:.0f} MB, allowed {allowed:.0f}"


if __name__ == "__main__":
    main()
