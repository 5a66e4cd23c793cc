"""How long sessions take to be opened: raced like runs, each lap of which opens one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..sessions.execution import DEFAULTS, Execution
from ..sessions.session import OWN_TIME, open_session
from .heats import Loader, Runner
from .race import Lap, race


def race_openings(
    models: Mapping[str, Path | bytes],
    *,
    threads: int,
    budget_s: float,
    reference: str,
    executions: Mapping[str, Execution] | None = None,
    loader: Loader | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Lap]:
    """Open sessions of models in turn, for about `budget_s` seconds; ratios are to the reference's.

    What counts is the time of the thread that opens them, which stands still while others have the
    processor. `loader` and `clock` are for tests. Raises what `race` raises.
    """
    return race(
        models,
        {},
        threads=threads,
        budget_s=budget_s,
        reference=reference,
        seats=len(models),
        loader=loader or _Openings(models, threads, executions or {}),
        clock=clock,
    )


class _Openings:
    """Loads nothing: what it gives opens a session whenever it is timed."""

    def __init__(
        self, models: Mapping[str, Path | bytes], threads: int, executions: Mapping[str, Execution]
    ) -> None:
        self._models, self._threads, self._executions = models, threads, executions

    def __call__(self, name: str) -> Runner:
        execution = self._executions.get(name, DEFAULTS)
        return _Opening(self._models[name], self._threads, execution)


class _Opening:
    def __init__(self, model: Path | bytes, threads: int, execution: Execution) -> None:
        self._model, self._threads, self._execution = model, threads, execution

    def time(self, runs: int = 1) -> float:
        """Open a session so many times, one after the other; returns nanoseconds of each."""
        clock = time.thread_time_ns if OWN_TIME else time.perf_counter_ns
        taken = 0
        for _ in range(runs):
            start = clock()
            session = open_session(self._model, threads=self._threads, execution=self._execution)
            taken += clock() - start
            del session
        return taken / runs
