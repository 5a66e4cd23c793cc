"""A race in one process: contenders take turns in random order, and each turn begins at rest.

Thread pools of OpenMP, BLAS and JAX go on looking for work for milliseconds after a call, on the
processors of whoever comes next: one timed run a turn measures the contender before it, too. So
before a turn this waits until the process takes no CPU time. Then the contender runs once untimed,
which wakes its own threads and brings its arguments nearer, and then a few times timed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Timed runs of a turn: so many at the most, and none is begun after so long.
_TIMED = 5
_TIMED_S = 0.025
# A look is longer than the ticks by which systems count the time of threads that run. At rest less
# than that share of it is used; so long is waited at the most.
_LOOK_S = 0.012
_AT_REST = 0.1
_LONGEST_S = 0.2

Run = Callable[[], Any]


def race(
    contenders: Mapping[str, Run],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    rest: Callable[[], None] | None = None,
) -> dict[str, np.ndarray]:
    """Return each contender's seconds by round: the median of its timed runs there.

    `clock` tells seconds; `rest` waits until nothing of the contender before runs any longer.
    """
    medians: dict[str, list[float]] = {contender: [] for contender in contenders}
    order, shuffle = list(contenders), random.Random(0)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for contender in order:
            (rest or _rest)()
            contenders[contender]()
            medians[contender].append(_median(contenders[contender], clock))
    return {contender: np.array(taken) for contender, taken in medians.items()}


def _median(run: Run, clock: Callable[[], float]) -> float:
    taken: list[float] = []
    while len(taken) < _TIMED and (not taken or sum(taken) < _TIMED_S):
        start = clock()
        run()
        taken.append(clock() - start)
    return float(np.median(taken))


def _rest() -> None:
    """Wait until no thread of this process runs."""
    end = time.monotonic() + _LONGEST_S
    used_s = _LOOK_S
    while used_s > _AT_REST * _LOOK_S and time.monotonic() < end:
        before = time.process_time()
        time.sleep(_LOOK_S)
        used_s = time.process_time() - before
