"""Races of the configurations of one kernel beside its default, each in sessions of its own.

Where a session's memory lies makes it faster or slower as long as it lives. So sessions are opened
anew for each race, every second time in the opposite order: what one race says of another is the
ceiling of any ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensolog.optimizer.native.configurations.timed import Timed, beside
from tensolog.optimizer.native.kernel import RegionKernel, supply
from tensolog.optimizer.native.kernel_trial import KERNEL, measured_forms
from tensolog.optimizer.native.library import Library
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.profiles.races.race import Lap


def races(
    meanings: Meanings,
    kernels: Sequence[RegionKernel],
    library: Library,
    *,
    budget_s: float,
    threads: int = 1,
    count: int = 2,
) -> list[list[Lap]]:
    """Return the laps of kernels of one region in each of `count` races; none where one fails.

    Each lap is beside the operators of the region. All races share `budget_s` seconds.
    """
    graph, region = meanings.graph, kernels[0].region
    forms = [kernel.kernel for kernel in kernels]
    supply(graph, forms)
    raced = []
    for number in range(count):
        laps = measured_forms(
            graph,
            region,
            forms[::-1] if number % 2 else forms,
            library,
            graph.types,
            threads=threads,
            budget_s=budget_s / count,
        )
        if any(form.name not in laps for form in forms):
            return []
        raced.append([laps[form.name][KERNEL] for form in forms])
    return raced


def beside_default(laps: Sequence[Lap]) -> list[Timed]:
    """Return the times of one race over that of its first kernel, the default."""
    return [beside(lap, laps[0]) for lap in laps]


# Columns of a row where the default stays.
KEPT: Mapping[str, Any] = {"gain": 1.0, "slower": False}


def gained(timed: Timed) -> dict[str, Any]:
    """Return the columns of a row where another one is chosen: what that gains, how surely."""
    return {
        "gain": round(1.0 / timed.ratio, 4),
        "low": round(1.0 / timed.ratio_high, 4),
        "high": round(1.0 / timed.ratio_low, 4),
        "slower": timed.ratio_low > 1.0,
    }


def interval(row: Mapping[str, Any]) -> str:
    """Return the interval of a row's gain, for people."""
    return f"{row['low']:.3f} to {row['high']:.3f}" if "low" in row else "default kept"


def gains(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what rows gain, and of how many the default is faster after all."""
    row_gains = np.array([row["gain"] for row in rows])
    return (
        f"gain {np.exp(np.log(row_gains).mean()):.3f} (geometric mean), {row_gains.min():.3f} to "
        f"{row_gains.max():.3f}; slower beyond noise: {sum(row['slower'] for row in rows)}; "
        f"default kept: {sum('low' not in row for row in rows)}"
    )
