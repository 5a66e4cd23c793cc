"""The table: each architecture under ONNX Runtime's full optimization, before and after tensolog.

python -m benchmarks.models           all architectures, by both of torch's exporters if installed
python -m benchmarks.models --quick   tiny versions and short races: a check that it works
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from .child import run_step
from .frame import Row, Steps, collect, options
from .rows import table_head, table_row, write_rows
from .zoo import ARCHITECTURES

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
    cases = [{"case": f"{c.model}-{c.threads}", **asdict(c)} for c in plan.cases]

    def write(rows: Sequence[Row]) -> None:
        head = "# Models\n\n`python -m benchmarks.models`"
        write_rows(arguments.out, rows, head, table(rows))

    with tempfile.TemporaryDirectory() as folder:
        rows = collect(cases, partial(measure, plan, Path(folder)), write, arguments)
    print(table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = options("models", __doc__, threads=(1, 2))
    sources = ["torchscript", "dynamo", "onnx"]
    parser.add_argument("--sources", nargs="+", choices=sources, metavar="SOURCE")
    parser.add_argument("--dynamic", action="store_true", help="leave batch and length open")
    parser.add_argument("--budget", type=float, help="seconds an optimization may measure")
    parser.add_argument("--race", type=float, help="seconds of the final race of each row")
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


def measure(plan: Plan, folder: Path, row: Row) -> Steps:
    """Build, optimize, compare and race one case; the last step is named done."""
    case = Case(row["name"], row["source"], row["dynamic"], row["threads"])
    original = folder / f"{case.model}.onnx"
    optimized = folder / "optimized.onnx"
    for stale in folder.glob("*.onnx"):
        if stale.is_dir():
            shutil.rmtree(stale)
        elif stale != original:
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
        step_result = run_step(
            "optimize",
            path=str(original),
            out=str(optimized),
            threads=case.threads,
            budget=plan.budget,
            catalog=f"{catalog}/catalog.duckdb",
        )
    step_result["allowed_bytes"] = MEMORY_FACTOR * size + MEMORY_EXTRA
    yield "comparing", step_result
    pair = {"original": str(original), "optimized": str(optimized)}
    step_result = run_step("compare", **pair)
    yield "racing", step_result
    step_result = run_step("race", **pair, threads=case.threads, budget=plan.race_budget)
    yield "done", step_result


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
    "session opens in",
    "optimized in",
    "peak memory",
    "deviation",
)


def table(rows: Sequence[Row]) -> str:
    """Write the rows as a Markdown table, and below it what exceeds its bound."""
    lines = [*table_head(HEADER), *(table_row(cells(row)) for row in rows)]
    complaints = [complaint for row in rows for complaint in exceeded(row)]
    speedups = [row["speedup"] for row in rows if "speedup" in row]
    if speedups:
        product = 1.0
        for speedup in speedups:
            product *= speedup
        lines += ["", f"Geometric mean of the speedups: {product ** (1 / len(speedups)):.3f}."]
    return "\n".join([*lines, "", *(complaints or ["All rows keep their bounds."])])


def cells(row: Row) -> list[str]:
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
        f"{row['opening_before_ms']:.1f} → {row['opening_ms']:.1f} ms"
        if "opening_ms" in row
        else "",
        f"{row['seconds']:.1f} s",
        f"{row['peak_bytes'] / 1e6:.0f} of {row['allowed_bytes'] / 1e6:.0f} MB",
        f"{row['deviation']:.1e}",
    ]


def exceeded(row: Row) -> Iterator[str]:
    """Yield what a row breaks: slower beyond noise, too slow to optimize, too much memory."""
    if "error" in row:
        yield f"{row['case']}: {row['error']}"
        return
    # A kept model is the original itself: what its race shows is the noise of the method.
    if row["verdict"] == "slower" and row["chosen"] != "original":
        yield f"{row['case']}: slower beyond noise, {row['speedup']:.3f}"
    if row.get("plain_verdict") == "slower":
        yield f"{row['case']}: slower where opened by default, {row['plain_speedup']:.3f}"
    if row.get("opening_verdict") == "slower" and row["chosen"] != "original":
        ratio = row["opening_ms"] / row["opening_before_ms"]
        yield f"{row['case']}: opens slower beyond noise, {ratio:.2f}"
    if row["seconds"] > SECONDS_ALLOWED:
        yield f"{row['case']}: optimized in {row['seconds']:.0f} s, allowed {SECONDS_ALLOWED:.0f}"
    if row["peak_bytes"] > row["allowed_bytes"]:
        peak, allowed = row["peak_bytes"] / 1e6, row["allowed_bytes"] / 1e6
        yield f"{row['case']}: peak memory {peak:.0f} MB, allowed {allowed:.0f}"


if __name__ == "__main__":
    main()
