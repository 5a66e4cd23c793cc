"""Sparse programs, fused, against SciPy, at several sizes and densities: is fusing ever slower?

python -m benchmarks.fusion.sparse            all programs
python -m benchmarks.fusion.sparse --quick    small matrices: a check that it works
python -m benchmarks.fusion.sparse --only gradient

What is fused chooses by a race in its first calls (optimizer/fuse/tracing/region_race.py); these
are made before anything is timed. Then both take turns. The ratio is fused over plain, the median
of the rounds' ratios, with the interval of order statistics that has it with 96 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..environment import results
from ..rows import rows_file, write_rows
from .race import race

# Rounds, and the ratios left out at either end of the interval (binomial distribution, 96.1 %).
_ROUNDS, _OUTSIDE = 9, 1
# Calls that end every race: the first, the race's, and some of what came of it.
_FIRST = 26

PROGRAMS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "gradient": ("X.T @ (w * (X @ v))", lambda X, v, w: X.T @ (w * (X @ v))),
    "row quotient": (
        "X / rowSums(X != 0)",
        lambda X, v, w: X / (X != 0).sum(axis=1)[:, None],
    ),
    "count": ("(X > 0).sum()", lambda X, v, w: (X > 0).sum()),
    "row counts": ("(X > 0.5).sum(axis=1)", lambda X, v, w: (X > 0.5).sum(axis=1)),
    "comparison": ("X > 0.5", lambda X, v, w: X > 0.5),
    "scaled sum": ("X.multiply(w[:, None]).sum()", lambda X, v, w: X.multiply(w[:, None]).sum()),
}
SIZES = [(2_000, 1_000), (20_000, 2_000), (100_000, 4_000)]
DENSITIES = [0.001, 0.01, 0.1]
_MOST_ENTRIES = 500_000


def main() -> None:
    """Time the programs, print the table and keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion.sparse", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small matrices")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name has this")
    parser.add_argument("--out", type=rows_file, default=results("sparse"))
    arguments = parser.parse_args()
    rows = []
    for m, n in SIZES[:1] if arguments.quick else SIZES:
        for density in DENSITIES:
            if m * n * density > _MOST_ENTRIES:
                continue
            for name in PROGRAMS:
                if not arguments.only or any(part in name for part in arguments.only):
                    rows.append(measure(name, m, n, density))
                    print(_line(rows[-1]), flush=True)
    head = "# Sparse programs, fused over SciPy\n\n`python -m benchmarks.fusion.sparse`"
    table = "\n".join([_HEAD, *map(_line, rows)])
    write_rows(arguments.out, rows, head, table)


def measure(name: str, m: int, n: int, density: float) -> dict[str, Any]:
    """Return a program's seconds, plain and fused, their ratio with its interval, and what runs."""
    import scipy.sparse as sp

    from tensolog import fuse

    text, plain = PROGRAMS[name]
    rng = np.random.default_rng(0)
    X = sp.random_array((m, n), density=density, format="csr", rng=rng)
    operands = X, rng.normal(size=n), rng.normal(size=m)
    fused = fuse(plain)
    with np.errstate(all="ignore"):  # a row without entries is divided by 0, and has none
        for _ in range(_FIRST):
            fused(*operands)
        taken = race(
            {"plain": lambda: plain(*operands), "fused": lambda: fused(*operands)}, _ROUNDS
        )
    ratios = np.sort(taken["fused"] / taken["plain"])
    return {
        "program": text,
        "rows": m,
        "columns": n,
        "density": density,
        "plain_s": float(np.median(taken["plain"])),
        "fused_s": float(np.median(taken["fused"])),
        "ratio": float(np.median(ratios)),
        "low": float(ratios[_OUTSIDE]),
        "high": float(ratios[-1 - _OUTSIDE]),
        "runs": "a kernel" if fused.kernels else "SciPy",
    }


_HEAD = """\
| program | rows | columns | density | SciPy µs | fused µs | fused / SciPy (96 %) | what runs |
|---|---|---|---|---|---|---|---|"""


def _line(row: Mapping[str, Any]) -> str:
    times = f"{row['plain_s'] * 1e6:.0f} | {row['fused_s'] * 1e6:.0f}"
    ratio = f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
    size = f"{row['rows']} | {row['columns']} | {row['density']}"
    return f"| `{row['program']}` | {size} | {times} | {ratio} | {row['runs']} |"


if __name__ == "__main__":
    main()
