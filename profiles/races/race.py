"""End-to-end races: whole models timed against each other, interleaved, paired, in random order."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import onnx

from ...catalog.errors import TensologError
from ..machine import available_memory_bytes
from ..sessions.denormals import flushed_denormals
from ..sessions.session import (
    DEFAULTS,
    OWN_TIME,
    SPINNING_US,
    BoundRun,
    Execution,
    open_session,
)
from .heats import Field, Loader, Progress, Runner, Terms
from .statistics import Ratio, bootstrap_ratio, median_and_spread

Array = np.ndarray[Any, Any]
Verdict = Literal["faster", "slower", "noise"]
# A session holds the weights and, for most operators, a packed copy of them.
_MEMORY_FACTOR = 2
# Threads of a session that spins have come to rest so long after a run.
_SPINNING_S = 2e-6 * SPINNING_US
# In a run of so many nanoseconds it doesn't show that threads were woken, which takes 60 us.
_WAKING_SHOWS_NS = 2e7
# What an interval of 95 % leaves out on each side.
_TAIL = 0.025


class RaceError(TensologError):
    """A model in a race can't be loaded or run; `model` names it where it is one of them."""

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model


@dataclass(frozen=True)
class Lap:
    """One model's result: ns of a run, and the paired ratio to the reference with its interval.

    `ratio` below 1 is faster than the reference; `ratio_low` and `ratio_high` bound its 95 %
    bootstrap interval. `samples` counts timed laps, `spread_ns` is 1.4826 median absolute
    deviations.
    """

    median_ns: float
    spread_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float
    samples: int

    @property
    def verdict(self) -> Verdict:
        """Return "faster" or "slower" than the reference, "noise" where 1.0 can't be excluded."""
        return verdict(self)


def verdict(lap: Lap, margin: float = 0.01, among: int = 1) -> Verdict:
    """Judge a lap: the interval must leave out 1.0, and the ratio be off by more than `margin`.

    Of several laps of which any may win, `among` says how many: their intervals are widened so that
    all are right as often as one would be (Bonferroni's correction, for normal logarithms).
    """
    wider = _quantile(among) / _quantile(1)
    if (lap.ratio_high / lap.ratio) ** wider * lap.ratio < 1.0 and lap.ratio < 1.0 - margin:
        return "faster"
    if (lap.ratio_low / lap.ratio) ** wider * lap.ratio > 1.0 and lap.ratio > 1.0 + margin:
        return "slower"
    return "noise"


def _quantile(among: int) -> float:
    return NormalDist().inv_cdf(1 - _TAIL / among)


def race(
    models: Mapping[str, Path | str | bytes],
    feeds: Mapping[str, Array],
    *,
    threads: int,
    budget_s: float,
    reference: str,
    executions: Mapping[str, Execution] | None = None,
    spins: bool = False,
    progress: Progress | None = None,
    memory_budget: int | None = None,
    seats: int | None = None,
    finalists: int | None = None,
    least_rounds: int = 1,
    seed: int = 0,
    loader: Loader | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Lap]:
    """Time models against the one named `reference`, for about `budget_s` seconds.

    Every round times each model once, in random order, after a warm-up; ratios pair times of one
    round. `executions` says how models are opened; those not named, as the runtime does by itself.
    With `spins`, the reference is as it leaves ONNX Runtime, whose threads go on waiting busily
    between runs, and the others as tensolog.open_session opens them alone, whose threads rest then.
    Up to `seats` sessions are alive at once: by default all, or where they don't fit in
    `memory_budget` bytes (a quarter of the available memory if not given) a single one. Where there
    are fewer seats than models, the others race the reference in groups; where opening takes little
    of the time, or there is one seat, sessions are opened anew, one at a time, and timed in short
    blocks. With `finalists` the challengers race in heats, after each of which the slower half is
    out, as is at any time who is surely behind, until so many are left; that they are the best of
    many flatters their ratios. At least `least_rounds` are run, however small the budget.
    Returns the reference's lap and then the others', who came furthest first. RaceError, naming the
    model, where one can't be loaded or run. Denormals are flushed to zero. `loader` and `clock` are
    for tests.
    """
    if reference not in models:
        raise ValueError(f"the reference {reference!r} is none of the models")
    if seats is None:
        if memory_budget is None:
            memory_budget = available_memory_bytes() // 4
        needed = _MEMORY_FACTOR * sum(model_size(source) for source in models.values())
        seats = sys.maxsize if needed <= memory_budget else 1
    field = Field(
        reference,
        [name for name in models if name != reference],
        Terms(budget_s, seats, finalists, least_rounds, seed),
        load=loader
        or _SessionLoader(
            models, feeds, threads, executions or {}, spinning=reference if spins else None
        ),
        clock=clock,
        progress=progress,
    )
    with flushed_denormals():
        field.run()
    results = {}
    for name in (reference, *field.placing):
        laps = [(block[name], block[reference]) for block in field.blocks if name in block]
        samples = np.concatenate([times for times, _ in laps])
        ratio = Ratio(1.0, 1.0, 1.0) if name == reference else bootstrap_ratio(laps, seed=seed)
        median, spread = median_and_spread(samples)
        results[name] = Lap(median, spread, ratio.value, ratio.low, ratio.high, len(samples))
    return results


def model_size(source: Path | str | bytes) -> int:
    """Return a model's bytes, external data included."""
    if isinstance(source, bytes):
        return len(source)
    path = Path(source)
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    if size > 64 << 20:  # weights lie inside, or it is too large to look
        return size
    files = set()
    with contextlib.suppress(Exception):  # what is wrong with it shows when it is loaded
        model = onnx.load(str(path), load_external_data=False)
        for tensor in model.graph.initializer:
            files |= {entry.value for entry in tensor.external_data if entry.key == "location"}
    for name in files:
        with contextlib.suppress(OSError):
            size += (path.parent / name).stat().st_size
    return size


class _SessionLoader:
    """Loads a model into ONNX Runtime, runs it once, and says which one failed.

    The one named `spinning` is opened with ONNX Runtime's default, and others run when its threads
    have come to rest.
    """

    def __init__(
        self,
        models: Mapping[str, Path | str | bytes],
        feeds: Mapping[str, Array],
        threads: int,
        executions: Mapping[str, Execution],
        *,
        spinning: str | None,
    ) -> None:
        self._models = models
        self._feeds = feeds
        self._executions = executions
        self._threads = {
            name: executions.get(name, DEFAULTS).threads_of(threads) for name in models
        }
        # The clock of a thread leaves out what others take: all are timed by it, or none.
        self._own_time = OWN_TIME and set(self._threads.values()) == {1}
        self._spinning = None if spinning is None or self._threads[spinning] == 1 else spinning
        self._spinner = _Spinner()

    def __call__(self, name: str) -> Runner:
        try:
            session = open_session(
                self._models[name],
                threads=self._threads[name],
                execution=self._executions.get(name, DEFAULTS),
                spins=name == self._spinning,
            )
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            raise RaceError(
                f"ONNX Runtime can't load the {name} model: {_reason(error)}", name
            ) from error
        missing = [entry.name for entry in session.get_inputs() if entry.name not in self._feeds]
        if missing:
            raise RaceError(f"no data for input {missing[0]!r} of the {name} model", name)
        try:
            run = BoundRun(session, self._feeds, own_time=self._own_time)
        except Exception as error:
            raise RaceError(
                f"ONNX Runtime can't run the {name} model: {_reason(error)}", name
            ) from error
        if self._spinning is None:
            return run
        return _Paced(run, self._spinner, spins=name == self._spinning)


@dataclass
class _Spinner:
    """When threads of the session that spins will have come to rest."""

    rests_at: float = 0.0


class _Paced:
    """A session in a race in which one spins: it is timed when it has just run.

    The one that `spins` runs at once, and in a row of its runs no thread has to be woken; others
    wait until nobody spins.
    """

    def __init__(self, run: Runner, spinner: _Spinner, *, spins: bool) -> None:
        self._run, self._spinner, self._spins = run, spinner, spins
        self._is_short = False

    def time(self, runs: int = 1) -> float:
        wait_s = max(0.0, self._spinner.rests_at - time.monotonic())
        has_paused = wait_s == 0.0 if self._spins else wait_s > 0.0
        if has_paused:
            time.sleep(wait_s)
            if self._is_short:
                self._run.time()
        time_ns = self._run.time(runs)
        self._is_short = time_ns < _WAKING_SHOWS_NS
        if self._spins:
            self._spinner.rests_at = time.monotonic() + _SPINNING_S
        return time_ns


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
