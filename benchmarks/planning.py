"""Milliseconds of planning fused NumPy functions: the algorithms of examples/, the expressions.

python -m benchmarks.planning            writes results/ too
python -m benchmarks.planning --quick    small arrays

Each runs in processes of its own, whose first plan finds nothing kept. Times are processor seconds
of the process, from a program of operators to its plan: conditions, prices, search. Kernels aren't
compiled, NumPy runs instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from .environment import describe, markdown, results
from .fusion.algorithms import ALGORITHMS
from .fusion.programs import PROGRAMS
from .rows import table_row, write_whole

ROOT = Path(__file__).resolve().parent.parent
HEADER = "| program | plans | nodes of the largest | first plan | later plans | bounds and plans |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small arrays")
    parser.add_argument("--runs", type=int, default=5, help="processes for each")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name has this")
    parser.add_argument("--out", type=Path, default=results("planning").with_suffix(".md"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(planned(arguments.one, "quick" if arguments.quick else "default")))
        return
    lines = [HEADER, "|---" * HEADER.count(" | ") + "|---|"]
    for name in [*ALGORITHMS, *PROGRAMS]:
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        runs = [_in_child(name, arguments.quick) for _ in range(arguments.runs)]
        lines.append(_line(name, runs))
        print(lines[-1], flush=True)
    caption = "CPU milliseconds: median over processes and, in brackets, the most."
    text = (
        f"# Planning\n\n`python -m benchmarks.planning`; {markdown(describe())}.\n\n{caption}\n\n"
    )
    write_whole(arguments.out, text + "\n".join(lines) + "\n")


def planned(name: str, size: str) -> list[dict[str, float]]:
    """Run a program once, fused by cost, and return what each of its plans took, in order."""
    from tensolog.catalog.errors import TensologError
    from tensolog.optimizer.fuse.codegen import compiled
    from tensolog.optimizer.fuse.planning import fusion_planner
    from tensolog.optimizer.fuse.planning.machine_rates import Machine
    from tensolog.optimizer.fuse.tracing import prepare

    import tensolog

    plans: list[dict[str, float]] = []
    plan = fusion_planner.plan

    def timed(program: Any, *arguments: Any, **options: Any) -> Any:
        begin = time.process_time()
        result = plan(program, *arguments, **options)
        took_s = time.process_time() - begin
        counted = result.counts.costed + result.counts.bounds
        plans.append({"nodes": len(program.nodes), "ms": 1e3 * took_s, "counted": counted})
        return result

    refused = mock.Mock(side_effect=TensologError("planned alone"))
    Machine.here(1)  # the rates are measured once for a processor, not for a program
    with (
        mock.patch.object(fusion_planner, "plan", timed),
        mock.patch.object(compiled, "compile_plan", refused),
        mock.patch.object(prepare, "TRACING_S", 0.0),  # plan what is too small to pay, too
    ):
        if name in ALGORITHMS:
            algorithm = ALGORITHMS[name]
            algorithm.contenders(algorithm.data(size), 2)["cost"]()
        else:
            program = PROGRAMS[name]
            rows = program.rows if size == "default" else max(300, program.rows // 100)
            drawn = program.draw(np.random.default_rng(0), rows)
            tensolog.fuse(threads=2)(program.make(np))(*drawn)
    return plans


def _in_child(name: str, quick: bool) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.planning", "--one", name]
    command += ["--quick"] if quick else []
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    rows: list[dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    return rows


def _line(name: str, runs: list[list[dict[str, float]]]) -> str:
    first = [run[0]["ms"] for run in runs]
    later = [run_later["ms"] for run in runs for run_later in run[1:]]
    largest = max(runs[0], key=lambda run: run["nodes"])
    counted = max(run["counted"] for run in runs[0])
    cells = [
        name.replace("|", "\\|"),
        len(runs[0]),
        int(largest["nodes"]),
        _spread(first),
        _spread(later),
        int(counted),
    ]
    return table_row(cells)


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} ({max(times):.1f})" if times else ""


if __name__ == "__main__":
    main()
