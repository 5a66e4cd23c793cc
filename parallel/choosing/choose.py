"""How many instances, threads and rows: few settings are measured, and the best ones race.

First each number of threads is measured with as many instances as fit, at the smallest batch and a
larger one. A batch of b rows takes about a + b c, which says what other sizes would give. The most
promising settings then race in turns; after each heat the slower half drops out and the rest is
timed for longer (sequential halving, Karnin, Koren and Somekh, ICML 2013). Before the last heats
the neighbours of the leader join: caches make larger batches slower than the line says.
One instance with all cores and the smallest batch, what a session does by itself, is measured to
the end, so that nothing is chosen that is slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .settings import INDIFFERENCE, Goal, Limit, LimitError, Measured, Setting, best, summarize

Tell = Callable[[str, int, int, str], None]

_SCREEN_S, _SCREEN_RUNS, _SCREENED_ROWS = 0.05, 2, 8
# How often, how long, and in how many runs at least a setting is timed in each heat.
_HEATS = ((2, 0.06, 2), (2, 0.12, 2), (4, 0.25, 3))
_STARTERS, _FINALISTS = 5, 2
# By this factor the best finalist is ahead for sure after two rounds.
_SURELY = 1.1
# What the line predicts is this much too low or too high at times: such settings stay in.
_PREDICTION_SLACK = 0.15


class Timer(Protocol):
    """What settings are measured with; tests put a simulated one in its place."""

    def time(self, setting: Setting, seconds: float, least_runs: int = 3) -> list[list[float]]:
        """Run a setting; nanoseconds of each run of each instance."""
        ...

    def memory_bytes(self, setting: Setting) -> int:
        """Return the memory that the setting has."""
        ...


@dataclass
class Choice:
    """What was chosen, what it was compared with, and all that was measured.

    `reasons` says in words why; `complete` is False where the budget ended the race.
    """

    chosen: Measured
    baseline: Measured
    measured: list[Measured]
    reasons: list[str]
    complete: bool
    predicted: dict[Setting, float] = field(default_factory=dict)


def choose(
    timer: Timer,
    cores: int,
    batches: Sequence[int],
    goal: Goal,
    limits: Sequence[Limit] = (),
    *,
    budget_s: float = 60.0,
    tell: Tell | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Choice:
    """Choose the setting that serves a goal best within limits.

    Raises LimitError where no setting that was measured keeps the limits: the nearest is named.
    """
    return _Search(timer, cores, batches, goal, limits, budget_s, tell, clock).run()


class _Search:
    def __init__(
        self,
        timer: Timer,
        cores: int,
        batches: Sequence[int],
        goal: Goal,
        limits: Sequence[Limit],
        budget_s: float,
        tell: Tell | None,
        clock: Callable[[], float],
    ) -> None:
        self._timer, self._cores = timer, cores
        self._batches = tuple(sorted(batches))
        self._goal, self._limits = goal, tuple(limits)
        self._clock, self._tell = clock, tell
        self._end = clock() + budget_s
        self._rounds: dict[Setting, list[list[list[float]]]] = {}
        self._predicted: dict[Setting, float] = {}
        self._baseline = Setting(1, cores, self._batches[0])
        self._cut = False

    def run(self) -> Choice:
        """Screen, race, conclude."""
        self._screen()
        if self._goal == "throughput":
            racing = self._promising()
        else:
            racing = sorted(self._rounds, key=lambda setting: self._measured(setting).p50_ms)
        racing = self._race(racing[:_STARTERS])
        return self._conclude(racing)

    # ------------------------------------------------------------------------------ measuring

    def _time(self, setting: Setting, seconds: float, runs: int) -> None:
        if self._tell is not None:
            self._tell("measuring", len(self._rounds), 0, str(setting))
        self._rounds.setdefault(setting, []).append(self._timer.time(setting, seconds, runs))

    def _measured(self, setting: Setting) -> Measured:
        memory = self._timer.memory_bytes(setting)
        return summarize(setting, self._rounds[setting], memory)

    def _late(self) -> bool:
        self._cut = self._cut or self._clock() >= self._end
        return self._cut

    def _screen(self) -> None:
        """Measure each number of threads at the smallest batch, and at a larger one."""
        least = self._batches[0]
        larger = max(rows for rows in self._batches if rows <= _SCREENED_ROWS or rows == least)
        self._time(self._baseline, _SCREEN_S, _SCREEN_RUNS)
        for threads in thread_counts(self._cores):
            most = self._cores // threads
            counts = {1, most} if self._goal == "latency" or self._needs_throughput() else {most}
            for instances in sorted(counts, reverse=True):
                small = Setting(instances, threads, least)
                if self._late():
                    return
                if small not in self._rounds:
                    self._time(small, _SCREEN_S, _SCREEN_RUNS)
                if self._goal == "latency" or larger == least or self._late():
                    continue
                if self._surely_beyond(small):
                    continue
                self._time(Setting(instances, threads, larger), _SCREEN_S, _SCREEN_RUNS)

    def _needs_throughput(self) -> bool:
        return any(not limit.is_upper for limit in self._limits)

    def _surely_beyond(self, setting: Setting) -> bool:
        """Tell whether even the smallest batch takes far longer than a limit allows."""
        measured = self._measured(setting)
        return any(limit.excess(measured) > 2 for limit in self._limits if limit.is_upper)

    # ------------------------------------------------------------------------------ predicting

    def _promising(self) -> list[Setting]:
        """Order all settings of the crews that were screened by the throughput they promise."""
        promised: dict[Setting, float] = {}
        for instances, threads in {(s.instances, s.threads) for s in self._rounds}:
            known = [s for s in self._rounds if (s.instances, s.threads) == (instances, threads)]
            fixed_ms, row_ms = self._line(known)
            for batch in self._batches:
                setting = Setting(instances, threads, batch)
                batch_ms = fixed_ms + row_ms * batch
                if self._predicts_beyond(batch_ms):
                    continue
                promised[setting] = 1e3 * instances * batch / batch_ms
        self._predicted = promised
        if not promised:  # limits that nothing keeps: measured what there is, and said so
            return list(self._rounds)
        # A larger batch that promises hardly more would only answer later.
        order = sorted(promised, key=lambda setting: -promised[setting])
        most = promised[order[0]]
        near = [s for s in order if promised[s] >= (1 - INDIFFERENCE) * most]
        near.sort(key=lambda setting: setting.batch)
        rest = [s for s in order if s not in near and promised[s] >= (1 - _PREDICTION_SLACK) * most]
        spread = _one_of_each_crew(order)
        return list(dict.fromkeys([*spread[:2], *near[:3], *rest, *near[3:], *spread]))

    def _line(self, known: Sequence[Setting]) -> tuple[float, float]:
        """Return the milliseconds of a batch of no rows, and those of a further row."""
        points = sorted((s.batch, self._measured(s).p50_ms) for s in known)
        (small, small_ms), (large, large_ms) = points[0], points[-1]
        if large == small:
            return 0.0, small_ms / small
        row_ms = max((large_ms - small_ms) / (large - small), 0.01 * small_ms / small)
        return max(0.0, small_ms - row_ms * small), row_ms

    def _predicts_beyond(self, batch_ms: float) -> bool:
        return any(
            limit.is_upper
            and limit.field in ("p50_ms", "p90_ms", "p99_ms")
            and batch_ms > limit.value * (1 + _PREDICTION_SLACK)
            for limit in self._limits
        )

    # ------------------------------------------------------------------------------ racing

    def _race(self, racing: list[Setting]) -> list[Setting]:
        """Time settings in turns; after each heat the worse half drops out."""
        for heat, (times, seconds, runs) in enumerate(_HEATS):
            if heat == 1:
                racing = [*racing, *(s for s in self._neighbours(racing[0]) if s not in racing)]
            is_last = heat == len(_HEATS) - 1
            timed = [*dict.fromkeys([*racing, self._baseline])] if is_last else racing
            for number in range(times):
                for setting in timed:
                    if not self._late():
                        self._time(setting, seconds, runs)
                if is_last and number and self._is_decided(timed):
                    break
            racing = self._ranked(setting for setting in racing if setting in self._rounds)
            if self._late():
                break
            racing = racing[: _FINALISTS if heat else max(_FINALISTS, (len(racing) + 1) // 2)]
        return racing

    def _is_decided(self, timed: Sequence[Setting]) -> bool:
        """Tell whether the best setting is so far ahead that more rounds would not tell more."""
        order = self._ranked(setting for setting in timed if setting in self._rounds)
        if len(order) < 2:
            return True
        first, second = map(self._measured, order[:2])
        if self._goal == "latency":
            return first.p50_ms * _SURELY < second.p50_ms
        return first.rows_per_s > _SURELY * second.rows_per_s

    def _ranked(self, settings: Iterable[Setting]) -> list[Setting]:
        """Order settings, those that keep the limits first, the best of them at the front."""
        measured = {setting: self._measured(setting) for setting in settings}
        order: list[Setting] = []
        while measured:
            first = best(list(measured.values()), self._goal, self._limits)
            if first is None:
                return order + sorted(measured, key=lambda s: self._excess(measured[s]))
            order.append(first.setting)
            del measured[first.setting]
        return order

    def _excess(self, measured: Measured) -> float:
        return max((limit.excess(measured) for limit in self._limits), default=0.0)

    def _neighbours(self, leader: Setting) -> list[Setting]:
        """Give settings one step from the leader that were not measured: batch, then instances."""
        near = []
        if self._goal == "throughput":
            place = self._batches.index(leader.batch)
            rows = (
                *self._batches[max(0, place - 1) : place],
                *self._batches[place + 1 : place + 2],
            )
            near = [Setting(leader.instances, leader.threads, batch) for batch in rows]
        for instances, threads in (
            (leader.instances - 1, leader.threads),
            (leader.instances, leader.threads - 1),
            (leader.instances, leader.threads + 1),
        ):
            if instances >= 1 and threads >= 1 and instances * threads <= self._cores:
                near.append(Setting(instances, threads, leader.batch))
        known = self._predicted
        limit = max(known.values(), default=0.0) * (1 - 2 * _PREDICTION_SLACK)
        return [
            s for s in near if len(self._rounds.get(s, ())) <= 1 and known.get(s, limit) >= limit
        ]

    # ------------------------------------------------------------------------------ concluding

    def _conclude(self, racing: Sequence[Setting]) -> Choice:
        measured = [self._measured(setting) for setting in self._rounds]
        baseline = self._measured(self._baseline)
        raced = [entry for entry in measured if entry.setting in (*racing, self._baseline)]
        chosen = best(raced, self._goal, self._limits) or best(measured, self._goal, self._limits)
        if chosen is None:
            nearest = min(measured, key=self._excess)
            broken = max(self._limits, key=lambda limit: limit.excess(nearest))
            raise LimitError(
                f"no setting of this machine keeps '{broken.text}': nearest is {nearest.setting} "
                f"(p50 {nearest.p50_ms:.3g} ms, p99 {nearest.p99_ms:.3g} ms, "
                f"{nearest.rows_per_s:.3g} rows/s, {nearest.memory_bytes / 1e6:.0f} MB)"
            )
        return Choice(
            chosen,
            baseline,
            sorted(measured, key=lambda entry: -entry.rows_per_s),
            self._reasons(chosen, baseline, measured),
            not self._cut,
            self._predicted,
        )

    def _reasons(
        self, chosen: Measured, baseline: Measured, measured: Sequence[Measured]
    ) -> list[str]:
        reasons = []
        if chosen.setting == baseline.setting:
            reasons.append("one instance with all cores was not beaten: it is what is deployed")
        elif self._goal == "throughput":
            gain = chosen.rows_per_s / baseline.rows_per_s
            reasons.append(f"{gain:.2f} times the throughput of one instance, {baseline.setting}")
        else:
            gain = baseline.p50_ms / chosen.p50_ms
            reasons.append(f"answers in 1/{gain:.2f} of the time of {baseline.setting}")
        kept = [entry for entry in measured if all(limit.holds(entry) for limit in self._limits)]
        if self._goal == "throughput":
            most = max(kept, key=lambda entry: entry.rows_per_s)
            if most.setting != chosen.setting and most.rows_per_s <= chosen.rows_per_s * 1.05:
                share = chosen.rows_per_s / most.rows_per_s - 1
                reasons.append(
                    f"{most.setting} differs by {abs(share):.1%} in throughput, and takes "
                    f"{most.p50_ms / chosen.p50_ms:.2g} times as long for a batch"
                )
        for limit in self._limits:
            out = [entry for entry in measured if not limit.holds(entry)]
            if out:
                fastest = max(out, key=lambda entry: entry.rows_per_s)
                reasons.append(f"'{limit.text}' rules out {len(out)}, such as {fastest.setting}")
        if self._cut:
            reasons.append("the budget ended the measuring: a larger one may find better")
        return reasons


def thread_counts(cores: int) -> list[int]:
    """Give the numbers of threads of an instance that are tried: powers of two, and all cores."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return list(dict.fromkeys([*counts, cores]))


def _one_of_each_crew(order: Sequence[Setting]) -> list[Setting]:
    """Keep of settings in order the first one of each instances and threads."""
    crews: dict[tuple[int, int], Setting] = {}
    for setting in order:
        crews.setdefault((setting.instances, setting.threads), setting)
    return list(crews.values())
