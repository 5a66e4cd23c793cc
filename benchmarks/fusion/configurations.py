"""What configurations of fused programs' kernels are worth beside the constants.

    python -m benchmarks.fusion.configurations
    python -m benchmarks.fusion.configurations --threads 1 --programs 12

Programs and sizes are drawn. Of each, calls choose how the kernel's work is divided, as they do in
use; being the best of several flatters a time, so what was chosen then takes turns with the default
once more: the gain is the median of the turns' ratios there, and 1 where the default stays.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.fuse.codegen.compiled import Step
from tensolog.optimizer.fuse.codegen.tuning import CALLS, Tunable, Tuning
from tensolog.optimizer.fuse.tracing.prepare import Prepared
from tensolog.optimizer.native.configurations.fused_configuration import (
    FusedConfiguration,
    FusedSizes,
)
from tensolog.profiles.races.statistics import bootstrap_ratio

import tensolog

from ..environment import RESULTS
from ..rows import rows_file, write_rows

CELLS = tuple(1 << power for power in range(11, 21))
WIDTHS = (8, 16, 40, 64, 100, 256, 512, 1000, 2048)
# Turns of the last race, and calls until a configuration is chosen at most.
TURNS, MOST_CALLS = 60, 600


def update(x: Any, y: Any) -> Any:
    return x - 0.01 * (x * y + 0.5 * x)


def bounded(x: Any, y: Any) -> Any:
    return np.minimum(np.maximum(x * y, 0.0), 6.0) + x


def sigmoid(x: Any, y: Any) -> Any:
    return y / (1.0 + np.exp(-x))


def angle(x: Any, y: Any) -> Any:
    return np.sqrt(np.sin(x) ** 2 + np.log1p(y * y)) * np.tanh(x)


def distance(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).sum()


def softmax(x: Any, y: Any) -> Any:
    e = np.exp(x * y - (x * y).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normalized(x: Any, y: Any) -> Any:
    c = x - x.mean(axis=1, keepdims=True)
    return y * c / np.sqrt((c * c).mean(axis=1, keepdims=True) + 1e-5)


def row_sums(x: Any, y: Any) -> Any:
    return np.abs(x - y).sum(axis=1)


def column_sums(x: Any, y: Any) -> Any:
    return (x * y + 1.0).sum(axis=0)


PROGRAMS: Sequence[Callable[[Any, Any], Any]] = (
    *(update, bounded, sigmoid, angle, distance),
    *(softmax, normalized, row_sums, column_sums),
)


class Timed:
    """A kernel that says what its last call took, where it is called: from a function in use."""

    def __init__(self, kernel: Tunable) -> None:
        self.kernel, self.configuration = kernel, kernel.configuration
        self.seconds = 0.0

    def work_sizes(self, threads: int) -> FusedSizes:
        return self.kernel.work_sizes(threads)

    def run(self, function: Any, values: Mapping[int, Any], threads: int, how: Any) -> Any:
        begun = perf_counter()
        results = self.kernel.run(function, values, threads, how)
        self.seconds = perf_counter() - begun
        return results


def kernels(fused: Any) -> list[Step]:
    """Return the steps of a function's regions that are kernels."""
    prepared = [
        region for region in fused._engine.prepared_regions() if isinstance(region, Prepared)
    ]
    compiled = [region.compiled for region in prepared if region.compiled is not None]
    return [step for plan in compiled for step in plan.steps if step.kernel is not None]


def measure(
    function: Callable[[Any, Any], Any], shape: tuple[int, int], dtype: str, threads: int
) -> dict[str, Any] | None:
    """Let calls of a program choose, and race what they chose; None where there is no kernel."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    fused = tensolog.fuse(function, threads=threads)
    fused(x, y)
    steps = kernels(fused)
    if len(steps) != 1 or steps[0].tuning is None:
        return None
    tuning = steps[0].tuning
    for _ in range(MOST_CALLS):
        if tuning.chosen is not None:
            break
        fused(x, y)
    row: dict[str, Any] = {
        "program": function.__name__,
        "shape": list(shape),
        "dtype": dtype,
        "calls": tuning.calls,
        "gain": 1.0,
        "slower": False,
    }
    if tuning.ratio is not None and tuning.chosen is not None:
        row |= {
            "chosen": tuning.chosen.description,
            **race(tuning, tuning.chosen, lambda: fused(x, y)),
        }
    print(row, file=sys.stderr, flush=True)
    return row


def race(tuning: Tuning, chosen: FusedConfiguration, call: Callable[[], object]) -> dict[str, Any]:
    """Let what was chosen and the default take turns, in calls of the function."""
    tuning.kernel = kernel = Timed(tuning.kernel)
    ways = (chosen, kernel.configuration)
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        for way in (0, 1) if turn % 2 else (1, 0):
            tuning.chosen = ways[way]
            taken = []
            for _ in range(CALLS):
                call()
                taken.append(kernel.seconds)
            seconds[way].append(min(taken[1:]))
    blocks = [((first,), (other,)) for first, other in zip(*seconds, strict=True)]
    ratio = bootstrap_ratio(blocks)
    return {
        "default_us": round(1e6 * median(seconds[1]), 2),
        "gain": round(1 / ratio.value, 4),
        "low": round(1 / ratio.high, 4),
        "high": round(1 / ratio.low, 4),
        "slower": ratio.low > 1.0,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown, below what they come to."""
    gains = np.array([row["gain"] for row in rows])
    lines = [
        f"- kernels: {len(rows)}",
        f"- gain, geometric mean: {np.exp(np.log(gains).mean()):.3f}, least {gains.min():.3f}, "
        f"most {gains.max():.3f}",
        f"- slower beyond noise: {sum(row['slower'] for row in rows)}; default kept: "
        f"{sum('chosen' not in row for row in rows)}",
        f"- calls until one is chosen, median: {median(row['calls'] for row in rows):.0f}",
        "",
        "| program | shape | type | default | gain | interval | chosen |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        interval = f"{row['low']:.3f} to {row['high']:.3f}" if "low" in row else ""
        default = f"{row['default_us']} µs" if "default_us" in row else ""
        lines.append(
            f"| {row['program']} | {' x '.join(map(str, row['shape']))} | {row['dtype']} "
            f"| {default} | {row['gain']:.3f} | {interval} | {row.get('chosen', 'default kept')} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.configurations", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--programs", type=int, default=36)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    out = arguments.out or RESULTS / native_level() / "fused_configurations.json"
    command = f"python -m benchmarks.fusion.configurations --threads {arguments.threads} "
    command += f"--programs {arguments.programs}"
    rows: list[dict[str, Any]] = []
    for _ in range(arguments.programs):
        width = int(random.choice(WIDTHS))
        shape = (max(4, int(random.choice(CELLS)) // width), width)
        function = PROGRAMS[random.integers(len(PROGRAMS))]
        dtype = str(random.choice(["float32", "float64"]))
        row = measure(function, shape, dtype, arguments.threads)
        if row is not None:
            rows.append(row)
            write_rows(out, rows, f"# Configurations: fused programs\n\n`{command}`", table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
