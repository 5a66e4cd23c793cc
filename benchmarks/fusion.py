"""Fused NumPy programs against NumPy and SciPy, and the planner against its heuristics.

python -m benchmarks.fusion            the programs at the sizes of the table, 1 and 2 threads
python -m benchmarks.fusion --quick    small arrays and few rounds: a check that it works

Every round times each contender once, in random order; ratios are medians over rounds, paired with
NumPy's time of the same round. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .environment import describe, markdown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
HEURISTICS = ("cost", "all", "no_redundancy")


@dataclass(frozen=True)
class Program:
    """A function over arrays, and how its arguments are drawn at a scale of 1 or less."""

    function: Callable[..., Any]
    draw: Callable[[Any, float], tuple[Any, ...]]


def programs() -> dict[str, Program]:
    """The programs by name; those with a sparse argument call it S."""
    import numpy as np
    import scipy.sparse

    def dense(rows: int, columns: int, count: int = 1) -> Callable[[Any, float], tuple[Any, ...]]:
        def draw(rng: Any, scale: float) -> tuple[Any, ...]:
            shape = (max(8, int(rows * scale)), columns)
            return tuple(rng.normal(size=shape) for _ in range(count))

        return draw

    def sparse(rng: Any, rows: int, columns: int, density: float) -> Any:
        return scipy.sparse.random_array(
            (rows, columns), density=density, format="csr", rng=rng, data_sampler=rng.random
        )

    def pattern_chain(X: Any, v: Any) -> Any:
        return X.T @ (X @ v)

    def weighted_chain(X: Any, v: Any, w: Any) -> Any:
        return X.T @ (w * (X @ v))

    def with_vectors(rows: int, columns: int, weights: bool, density: float = 1.0) -> Any:
        def draw(rng: Any, scale: float) -> tuple[Any, ...]:
            count = max(8, int(rows * scale))
            X = (
                rng.normal(size=(count, columns))
                if density == 1.0
                else sparse(rng, count, columns, density)
            )
            return (X, rng.normal(size=columns), *([rng.random(count)] if weights else []))

        return draw

    def mlogreg(X: Any, V: Any, P: Any) -> Any:
        Q = P * (X @ V)
        return X.T @ (Q - P * Q.sum(axis=1, keepdims=True))

    def mlogreg_draw(rng: Any, scale: float) -> tuple[Any, ...]:
        rows = max(8, int(200_000 * scale))
        return rng.normal(size=(rows, 100)), rng.normal(size=(100, 4)), rng.random((rows, 4))

    def cross_entropy(S: Any, U: Any, V: Any) -> Any:
        return S.multiply(np.log(U @ V.T + 1e-15)).sum()

    def factors(rank: int) -> Callable[[Any, float], tuple[Any, ...]]:
        def draw(rng: Any, scale: float) -> tuple[Any, ...]:
            size = max(50, int(5_000 * scale))
            S = sparse(rng, size, size, 0.01)
            return S, rng.random((size, rank)), rng.random((size, rank))

        return draw

    def sparse_product(S: Any, Y: Any, Z: Any) -> Any:
        return S.multiply(Y).multiply(Z).sum()

    def sparse_draw(rng: Any, scale: float) -> tuple[Any, ...]:
        rows = max(8, int(10_000 * scale))
        return (sparse(rng, rows, 1_000, 0.1), *dense(10_000, 1_000, 2)(rng, scale))

    return {
        "sum(X*Y*Z)": Program(lambda X, Y, Z: (X * Y * Z).sum(), dense(10_000, 1_000, 3)),
        "sum(S*Y*Z), S sparse .1": Program(sparse_product, sparse_draw),
        "sum(X*Y), sum(X*Z)": Program(
            lambda X, Y, Z: ((X * Y).sum(), (X * Z).sum()), dense(10_000, 1_000, 3)
        ),
        "sum((X-Y)^2*Z/(1+|X|))": Program(
            lambda X, Y, Z: ((X - Y) ** 2 * Z / (1 + np.abs(X))).sum(), dense(10_000, 1_000, 3)
        ),
        "X'(Xv)": Program(pattern_chain, with_vectors(100_000, 100, False)),
        "X'(w*(Xv))": Program(weighted_chain, with_vectors(100_000, 100, True)),
        "S'(w*(Sv)), S sparse .05": Program(
            weighted_chain, with_vectors(100_000, 1_000, True, 0.05)
        ),
        "MLogreg core, k=4": Program(mlogreg, mlogreg_draw),
        "sum(S*log(UV'+eps)), rank 20": Program(cross_entropy, factors(20)),
        "sum(S*log(UV'+eps)), rank 100": Program(cross_entropy, factors(100)),
        "exp(X)": Program(lambda X: np.exp(X), dense(4_000, 1_000)),
        "tanh(X*Y+1)*X": Program(lambda X, Y: np.tanh(X * Y + 1) * X, dense(4_000, 1_000, 2)),
    }


def measure(name: str, threads: int, scale: float, rounds: int) -> dict[str, Any]:
    """Time one program; run in a process whose BLAS has `threads` threads."""
    import numpy as np

    import tensolog

    program = programs()[name]
    arguments = program.draw(np.random.default_rng(0), scale)
    expected = _parts(program.function(*arguments))
    contenders: dict[str, Callable[..., Any]] = {"numpy": program.function}
    row: dict[str, Any] = {"program": name, "threads": threads}
    for heuristic in HEURISTICS:
        fused = tensolog.fuse(heuristic=heuristic, threads=threads)(program.function)  # type: ignore[call-overload]
        start = time.perf_counter()
        found = _parts(fused(*arguments))
        row[f"first_{heuristic}_s"] = time.perf_counter() - start
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-8 * np.abs(one).max())
        fused(*arguments)
        contenders[heuristic] = fused
        row[f"templates_{heuristic}"] = [
            template for (template,) in fused.sql("SELECT template FROM fusion_operator").fetchall()
        ]
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    order = list(contenders)
    shuffle = random.Random(0)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for contender in order:
            start = time.perf_counter()
            contenders[contender](*arguments)
            times[contender].append(time.perf_counter() - start)
    for contender, taken in times.items():
        row[f"{contender}_ms"] = 1e3 * float(np.median(taken))
        ratios = np.divide(times["numpy"], taken)
        row[f"{contender}_speedup"] = float(np.median(ratios))
    return row


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small arrays, few rounds")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name has this")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=RESULTS / "fusion.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    scale, rounds = (0.01, 3) if arguments.quick else (1.0, arguments.rounds)
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.threads[0], scale, rounds)))
        return
    rows = []
    for name in programs():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        for threads in arguments.threads:
            rows.append(_in_child(name, threads, arguments.quick, rounds))
            print(f"{name}, {threads}: {rows[-1].get('error', 'done')}", file=sys.stderr)
    write_results(rows, arguments.out)
    print(table(rows))


def _in_child(name: str, threads: int, quick: bool, rounds: int) -> dict[str, Any]:
    """Measure in a process of its own, whose BLAS has as many threads as the kernels."""
    command = [sys.executable, "-m", "benchmarks.fusion", "--one", name, "--rounds", str(rounds)]
    command += ["--threads", str(threads), *(["--quick"] if quick else [])]
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(limits, str(threads))}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode:
        reasons = [line for line in ran.stderr.splitlines() if line.strip()]
        return {"program": name, "threads": threads, "error": reasons[-1] if reasons else "failed"}
    row: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return row


def write_results(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the rows as JSON, and as Markdown beside it."""
    machine = describe()
    content = json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n"
    text = f"# Fusion\n\n`python -m benchmarks.fusion`; {markdown(machine)}.\n\n{table(rows)}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, written in ((path, content), (path.with_suffix(".md"), text)):
        temporary = target.with_name(target.name + ".part")
        temporary.write_text(written, encoding="utf-8")
        temporary.replace(target)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write the rows as a Markdown table; speedups are over NumPy and SciPy."""
    header = (
        "program",
        "threads",
        "NumPy",
        "fused",
        "speedup",
        "fuse-all",
        "no redundancy",
        "plan",
    )
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for row in rows:
        start = [row["program"].replace("|", "\\|"), str(row["threads"])]
        if "error" in row:
            cells = [*start, row["error"], *[""] * (len(header) - 3)]
        else:
            cells = [
                *start,
                f"{row['numpy_ms']:.2f} ms",
                f"{row['cost_ms']:.2f} ms",
                f"{row['cost_speedup']:.2f}",
                f"{row['all_speedup']:.2f}",
                f"{row['no_redundancy_speedup']:.2f}",
                ", ".join(row["templates_cost"]) or "NumPy",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
