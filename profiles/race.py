"""End-to-end races: whole models timed against each other, interleaved, paired, in random order."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import onnx

from ..catalog.errors import TensologError
from .denormals import flushed_denormals
from .machine import available_memory_bytes
from .session import DEFAULTS, BoundRun, Execution, open_session, release_memory
from .statistics import bootstrap_ratio, median_and_spread

Array = np.ndarray[Any, Any]
Verdict = Literal["faster", "slower", "noise"]
Progress = Callable[[float, str], None]
"""Called with (fraction of the budget used, what is being timed)."""

# A lap of a small model is repeated until it lasts this long.
_LAP_NS = 3e6
_MOST_RUNS = 200
_MOST_ROUNDS = 400
# Laps of one session while it is alive, when sessions take turns: at least so many, and as many
# more as fit in half of the time that loading it took.
_LEAST_BLOCK, _MOST_BLOCK = 5, 25
# Where a session's memory lies makes it faster or slower for its whole life, above all if its
# weights fill the cache. Sessions that can be opened this often in half of the time are opened anew
# for each block, so that the interval knows of it; others, too large for a cache, are opened once.
# In a short race there would be too few blocks: rounds of all models tell more there.
_FRESH_BLOCKS, _FRESH_LEAST_S = 10, 5.0
# A session holds the weights and, for most operators, a packed copy of them.
_MEMORY_FACTOR = 2


class RaceError(TensologError):
    """A model in a race can't be loaded or run."""


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


def verdict(lap: Lap, margin: float = 0.01) -> Verdict:
    """Judge a lap: the interval must leave out 1.0, and the ratio be off by more than `margin`."""
    if lap.ratio_high < 1.0 and lap.ratio < 1.0 - margin:
        return "faster"
    if lap.ratio_low > 1.0 and lap.ratio > 1.0 + margin:
        return "slower"
    return "noise"


class Runner(Protocol):
    """A loaded model; tests put a simulated one in its place."""

    def time(self, runs: int = 1) -> float:
        """Run it; returns nanoseconds per run."""
        ...


Loader = Callable[[str], Runner]


def race(
    models: Mapping[str, Path | str | bytes],
    feeds: Mapping[str, Array],
    *,
    threads: int,
    budget_s: float,
    reference: str,
    executions: Mapping[str, Execution] | None = None,
    progress: Progress | None = None,
    memory_budget: int | None = None,
    seed: int = 0,
    loader: Loader | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Lap]:
    """Time models against the one named `reference`, for about `budget_s` seconds.

    Every round times each model once, in random order, after a warm-up; ratios pair times of one
    round. `executions` says how models are opened; those not named, as the runtime does by itself.
    All sessions are held at once if they fit in `memory_budget` bytes (by default a quarter of the
    available memory), and opening them takes a good part of the time or there is little of it;
    otherwise they take turns, one session at a time, opened anew and timed in short blocks. At
    least one round is run, however small the budget.
    RaceError, naming the model, where one can't be loaded or run. Denormals are flushed to zero.
    `loader` and `clock` are for tests.
    """
    if reference not in models:
        raise ValueError(f"the reference {reference!r} is none of the models")
    load = loader or _SessionLoader(models, feeds, threads, executions or {})
    if memory_budget is None:
        memory_budget = available_memory_bytes() // 4
    needed = _MEMORY_FACTOR * sum(model_size(source) for source in models.values())
    names = list(models)
    field = _Field(names, load, clock, clock() + budget_s, budget_s, progress, seed)
    with flushed_denormals():
        laps = field.together() if needed <= memory_budget else field.in_turn()
    results = {}
    for name in names:
        samples = np.concatenate([block[name] for block in laps])
        blocks = [(block[name], block[reference]) for block in laps]
        ratio = bootstrap_ratio(blocks, seed=seed)
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
    """Loads a model into ONNX Runtime, runs it once, and says which one failed."""

    def __init__(
        self,
        models: Mapping[str, Path | str | bytes],
        feeds: Mapping[str, Array],
        threads: int,
        executions: Mapping[str, Execution],
    ) -> None:
        self._models = models
        self._feeds = feeds
        self._threads = threads
        self._executions = executions

    def __call__(self, name: str) -> Runner:
        try:
            execution = self._executions.get(name, DEFAULTS)
            session = open_session(self._models[name], threads=self._threads, execution=execution)
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            raise RaceError(
                f"ONNX Runtime can't load the {name} model: {_reason(error)}"
            ) from error
        missing = [entry.name for entry in session.get_inputs() if entry.name not in self._feeds]
        if missing:
            raise RaceError(f"no data for input {missing[0]!r} of the {name} model")
        try:
            return BoundRun(session, self._feeds)
        except Exception as error:
            raise RaceError(f"ONNX Runtime can't run the {name} model: {_reason(error)}") from error


class _Field:
    """The models on the track: rounds of one lap each, until the time is up."""

    def __init__(
        self,
        names: list[str],
        load: Loader,
        clock: Callable[[], float],
        deadline: float,
        budget_s: float,
        progress: Progress | None,
        seed: int,
    ) -> None:
        self._names = names
        self._load = load
        self._clock = clock
        self._deadline = deadline
        self._budget_s = budget_s
        self._progress = progress
        self._random = random.Random(seed)

    def together(self) -> list[dict[str, list[float]]]:
        """All sessions alive, and a block is one round; in turn if opening them costs little."""
        runners = {}
        start = self._clock()
        for name in self._names:
            self._tell(name)
            runners[name] = self._load(name)
        opening = (self._clock() - start) * _FRESH_BLOCKS
        if self._budget_s >= _FRESH_LEAST_S and 0 < opening <= self._budget_s / 2:
            runners.clear()
            release_memory()
            return self.in_turn()
        runs = {name: _runs_per_lap(runner) for name, runner in runners.items()}
        blocks: list[dict[str, list[float]]] = []
        while not blocks or (self._clock() < self._deadline and len(blocks) < _MOST_ROUNDS):
            times: dict[str, list[float]] = {}
            for name in self._order():
                if runs[name] > 1:
                    runners[name].time()  # the others have emptied the caches
                times[name] = [runners[name].time(runs[name])]
            blocks.append(times)
            self._tell(f"round {len(blocks)}")
        del runners
        release_memory()
        return blocks

    def in_turn(self) -> list[dict[str, list[float]]]:
        """One session alive at a time; a block is one turn of every model."""
        blocks: list[dict[str, list[float]]] = []
        while not blocks or (self._clock() < self._deadline and len(blocks) < _MOST_ROUNDS):
            times: dict[str, list[float]] = {}
            for name in self._order():
                self._tell(name)
                start = self._clock()
                runner = self._load(name)
                runs = _runs_per_lap(runner)
                half = self._clock() + (self._clock() - start) / 2
                laps = [runner.time(runs) for _ in range(_LEAST_BLOCK)]
                while len(laps) < _MOST_BLOCK and self._clock() < half:
                    laps.append(runner.time(runs))
                times[name] = laps
                del runner
                release_memory()  # before the next one is loaded
            least = min(map(len, times.values()))  # pairs need as many of each
            times = {name: laps[:least] for name, laps in times.items()}
            blocks.append(times)
        return blocks

    def _order(self) -> list[str]:
        order = list(self._names)
        self._random.shuffle(order)
        return order

    def _tell(self, label: str) -> None:
        if self._progress is not None:
            left = max(0.0, self._deadline - self._clock())
            used = 1.0 if self._budget_s <= 0 else 1.0 - left / self._budget_s
            self._progress(min(1.0, max(0.0, used)), label)


def _runs_per_lap(runner: Runner) -> int:
    """Warm up, and return how many runs make a lap long enough to be timed."""
    once = max(1.0, min(runner.time(), runner.time()))
    return max(1, min(_MOST_RUNS, round(_LAP_NS / once)))


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
