"""How soon a good plan is found: budgets of 5, 10 and 30 s, costs measured and predicted.

    python -m benchmarks.anytime                            # small models of the second list
    python -m benchmarks.anytime --zoo both --resume        # of both lists, going on where it ended
    python -m benchmarks.anytime --only bert_half resnet50 --budgets 5 10

Each model is optimized anew for each budget, with an empty catalog, by measured costs and by
predicted ones in turns; the model of costs that ships was trained on none of these architectures.
All results then race the original in one race. Told are times over the original's, and after how
many seconds of the plan with the largest budget and measured costs a plan within 2 % was found.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from .child import run_step
from .frame import Row, Steps, collect, options
from .rows import table_head, table_row, write_rows
from .zoo import ARCHITECTURES, SECOND

ZOOS = {"first": [*ARCHITECTURES], "second": [*SECOND], "both": [*ARCHITECTURES, *SECOND]}
COSTS = ("measured", "predicted")
WITHIN = 0.02
HEAD = "# Sooner\n\n`python -m benchmarks.anytime`"


def main() -> None:
    parser = options("anytime", __doc__, threads=(1,), names=[*ARCHITECTURES, *SECOND])
    parser.add_argument("--zoo", choices=list(ZOOS), default="second", help="where none are named")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--budgets", nargs="+", type=float, default=[5.0, 10.0, 30.0])
    parser.add_argument("--race", type=float, default=15.0, help="seconds for the race of all")
    arguments = parser.parse_args()
    names = arguments.only or ZOOS[arguments.zoo]
    cases = [{"name": name, "threads": count} for name in names for count in arguments.threads]

    def write(rows: Sequence[Row]) -> None:
        write_rows(arguments.out, rows, HEAD, table(rows, arguments.budgets))

    with tempfile.TemporaryDirectory(prefix="tensolog-anytime-") as folder:
        rows = collect(cases, partial(measure, arguments, Path(folder)), write, arguments)
    print(table(rows, arguments.budgets))


def measure(arguments: argparse.Namespace, folder: Path, case: Row) -> Steps:
    path = folder / f"{case['name']}.onnx"
    yield "building", {}
    run_step(
        "build", name=case["name"], source="onnx", path=str(path), tiny=arguments.size == "small"
    )
    results, parts_of = {}, {}
    for place, budget in enumerate(arguments.budgets):
        for costs in COSTS[:: -1 if place % 2 else 1]:
            name = key(budget, costs)
            yield name, {}
            results[name] = str(folder / f"{case['name']} {case['threads']} {name}")
            optimized = run_step(
                "optimize",
                path=str(path),
                out=results[name],
                threads=case["threads"],
                budget=budget,
                catalog=f"{results[name]}.duckdb",
                costs=costs,
            )
            parts_of[name] = {part: optimized[part] for part in ("seconds", "first_s", "chosen")}
    yield "racing", {"found": parts_of}
    yield (
        "done",
        run_step(
            "race_results",
            original=str(path),
            results=results,
            threads=case["threads"],
            budget=arguments.race,
        ),
    )


def key(budget: float, costs: str) -> str:
    """Name a result."""
    return f"{costs} {budget:g} s"


def table(rows: Sequence[Row], budgets: Sequence[float]) -> str:
    """Write rows as Markdown, and below them what they come to."""
    names = [key(budget, costs) for budget in budgets for costs in COSTS]
    head = ["model", "threads", "original", *names]
    lines = table_head(head)
    known = [row for row in rows if "laps" in row]
    for row in rows:
        cells = [row["name"], str(row["threads"])]
        if "error" in row:
            cells += [row["error"]]
        elif row in known:
            cells += [f"{row['original_ms']:.2f} ms"]
            cells += [_ratio(row["laps"][name]) for name in names]
        lines.append(table_row(cells))
    lines.append("")
    best = key(max(budgets), COSTS[0])
    for name in names if known else ():
        more = median(row["laps"][name]["ratio"] / row["laps"][best]["ratio"] for row in known)
        near = sum(
            row["laps"][name]["ratio"] <= (1 + WITHIN) * row["laps"][best]["ratio"] for row in known
        )
        slower = [row["name"] for row in known if row["laps"][name]["low"] > 1]
        firsts = [row["found"][name]["first_s"] for row in known]
        reached = [first for first in firsts if first is not None]
        lines.append(
            f"- {name}: {more:.3f} of the time of {best} (median), within {WITHIN:.0%} of it "
            f"{near} of {len(known)}, slower than the original: {', '.join(slower) or 'none'}; a "
            f"first plan with a gain told for {len(reached)}"
            + (f", after {median(reached):.1f} s (median)" if reached else "")
        )
    return "\n".join(lines)


def _ratio(lap: Row) -> str:
    return f"{lap['ratio']:.3f} ({lap['low']:.2f} to {lap['high']:.2f})"


if __name__ == "__main__":
    main()
