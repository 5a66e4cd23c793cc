"""How many instances, threads and rows: few settings are measured, and the best ones race.

First each number of threads is measured with as many instances as fit, at the smallest batch. The
batch of the best of these is doubled as long as that pays: a batch of b rows takes about a + b c,
but caches and the kernels that a runtime takes for a size make it more or less than that by as much
as half, so sizes are measured and not predicted. What comes near the best then races in turns
(serving_race.py): pairs of rounds tell who is ahead, each round leaves half of those behind, what
is surely behind drops out, and the race ends once nobody can be better than the leader by more than
a few percent. Neighbours of the winner that were not measured race it as well. One instance with
all cores and the smallest batch, what a session does by itself, takes part, so that nothing is
chosen that is slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ..deployment.settings import INDIFFERENCE, Goal, Limit, LimitError, Measured, Setting, best
from .serving_race import Contender, RunTimes, Terms, race

Tell = Callable[[str, int, int, str], None]

_TERMS = Terms(0.06, 1, most_rounds=20, good_enough=0.03, halves_from=2)
# What has less than this share of the best's throughput in one round, or so many times its time,
# is not raced: rounds differ by less even on a busy machine.
_NEAR = 0.65
# What has as little in one round gets another one, unless it has even less than this.
_DISTURBED = 0.35
# A number of threads with less than this share at the smallest batch is measured at no other: there
# threads may take as long to wake as to compute, which larger batches make up for.
_HOPEFUL = 0.4
# One with less than this is measured at the best batch of the first, and at others if it has this
# share of its throughput there.
_AS_GOOD = 0.95
# A batch beyond a limit by more than this in one round is not raced, and no larger one measured.
_LIMIT_SLACK = 1.15
# So many doublings of the batch that bring nothing end the climb.
_VAIN = 3


class Timer(Protocol):
    """What settings are measured with; tests put a simulated one in its place."""

    def time(self, setting: Setting, seconds: float, least_runs: int = 3) -> RunTimes:
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
        self._field: dict[Setting, Contender] = {}
        self._baseline = Setting(1, cores, self._batches[0])
        self._cut = False

    def run(self) -> Choice:
        """Screen, race, conclude."""
        self._screen()
        racing = self._race(self._near())
        leader = None
        while racing[0] is not leader and not self._late():
            leader = racing[0]
            rivals = [*map(self._time, self._neighbours(leader.setting))]
            racing = self._joined(racing, [rival for rival in rivals if self._is_near(rival)])
        return self._conclude(racing)

    # ------------------------------------------------------------------------------ measuring

    def _time_all(self, settings: Iterable[Setting]) -> None:
        """Time each setting that was not yet for a first round, as long as there is time."""
        for setting in settings:
            if setting not in self._field and not self._late():
                self._time(setting)

    def _time(self, setting: Setting) -> Contender:
        self._say(str(setting))
        contender = Contender(setting, partial(self._timer.time, setting))
        contender.rounds.append(contender.time(_TERMS.seconds, _TERMS.least_runs))
        contender.memory_bytes = self._timer.memory_bytes(setting)
        self._field[setting] = contender
        return contender

    def _time_again(self, contenders: Iterable[Contender]) -> None:
        """Time some for another round: what else runs here may have halved the first one."""
        for contender in contenders:
            if not self._late():
                contender.rounds.append(contender.time(_TERMS.seconds, _TERMS.least_runs))

    def _say(self, text: str) -> None:
        if self._tell is not None:
            self._tell("measuring", len(self._field), 0, text)

    def _late(self) -> bool:
        self._cut = self._cut or self._clock() >= self._end
        return self._cut

    # ------------------------------------------------------------------------------ screening

    def _screen(self) -> None:
        """Time what may be near the best for a round: each crew, then batches of good ones."""
        least = self._batches[0]
        self._time(self._baseline)
        self._time_all(self._crews(least))
        self._time_again(self._field.values())
        if self._goal == "latency":
            return
        best_first = self._ranked(self._field.values())
        lead_crew = best_first[0]
        self._climb(lead_crew.setting)
        for contender in best_first[1:]:
            if not self._keeps(lead_crew) or self._value(contender) >= _AS_GOOD * self._value(
                lead_crew
            ):
                self._climb(contender.setting)
            elif self._value(contender) >= _HOPEFUL * self._value(lead_crew):
                self._follow(contender.setting)

    def _crews(self, batch: int) -> Iterator[Setting]:
        """Give as many instances of each number of threads as there are cores for, and fewer."""
        needs_more = any(not limit.is_upper for limit in self._limits)
        for threads in thread_counts(self._cores):
            most = self._cores // threads
            yield Setting(most, threads, batch)
            if self._goal == "latency" or needs_more:
                yield Setting(1, threads, batch)
            full = self._field.get(Setting(most, threads, batch))
            for limit in self._limits:
                if full is not None and limit.field == "memory_bytes":
                    fitting = int(most / max(1.0, limit.excess(full.measured())))
                    yield Setting(max(1, fitting), threads, batch)

    def _climb(self, crew: Setting) -> None:
        """Time larger and larger batches, until they bring nothing more or break a limit."""
        most, vain = 0.0, 0
        of_time = [limit for limit in self._limits if limit.is_time]
        for rows in self._batches:
            setting = Setting(crew.instances, crew.threads, rows)
            self._time_all([setting])
            if setting not in self._field or self._is_beyond(self._field[setting], of_time):
                return
            value = self._value(self._field[setting])
            vain = 0 if value > (1 + INDIFFERENCE) * most else vain + 1
            most = max(most, value)
            if vain == _VAIN:
                return

    def _follow(self, crew: Setting) -> None:
        """Time a crew that is behind at the best batch so far; others only where that helps it."""
        first = self._ranked(self._field.values())[0]
        setting = Setting(crew.instances, crew.threads, first.setting.batch)
        self._time_all([setting])
        timed = self._field.get(setting)
        if timed is not None and self._value(timed) >= _AS_GOOD * self._value(first):
            self._climb(crew)

    def _value(self, contender: Contender) -> float:
        return max(contender.values(self._goal))

    def _keeps(self, contender: Contender) -> bool:
        return contender.keeps(self._limits)

    @staticmethod
    def _is_beyond(contender: Contender, limits: Sequence[Limit]) -> bool:
        """Tell whether it is beyond one of these limits by more than a round may be off."""
        return any(limit.excess(contender.measured()) > _LIMIT_SLACK for limit in limits)

    def _ranked(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Order contenders: those that keep the limits, the best first, then those nearest them."""

        def rank(contender: Contender) -> tuple[float, float]:
            return (
                0.0 if self._keeps(contender) else self._excess(contender.measured())
            ), -self._value(contender)

        return sorted(contenders, key=rank)

    def _excess(self, measured: Measured) -> float:
        return max((limit.excess(measured) for limit in self._limits), default=0.0)

    # ------------------------------------------------------------------------------ racing

    def _near(self) -> list[Contender]:
        """Give what may be the best, after a round or two, and what it has to be better than."""
        looked = [contender for contender in self._field.values() if len(contender.rounds) == 1]
        self._time_again(
            contender
            for contender in looked
            if not self._is_near(contender) and self._is_near(contender, _DISTURBED)
        )
        near = [contender for contender in self._field.values() if self._is_near(contender)]
        return [
            *near,
            *(contender for contender in [self._field[self._baseline]] if contender not in near),
        ]

    def _is_near(self, contender: Contender, share: float = _NEAR) -> bool:
        first = self._ranked(self._field.values())[0]
        if contender is first:
            return True
        if self._keeps(first) and self._is_beyond(contender, self._limits):
            return False
        return self._value(contender) >= share * self._value(first)

    def _race(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Race from the last round of each on; return the leader and those that may be as good."""
        anew = [replace(contender, rounds=contender.rounds[-1:]) for contender in contenders]
        racing, complete = race(
            anew,
            self._goal,
            self._limits,
            budget_s=max(0.0, self._end - self._clock()),
            terms=_TERMS,
            clock=self._clock,
            tell=self._say,
        )
        self._cut = self._cut or not complete
        for contender, raced in zip(contenders, anew, strict=True):
            contender.rounds += raced.rounds[1:]
        return [self._field[contender.setting] for contender in racing]

    def _joined(self, racing: list[Contender], rivals: Sequence[Contender]) -> list[Contender]:
        """Race rivals that come later against the leader."""
        if not rivals or self._late():
            return racing
        leader, *rest = racing
        still = self._race([leader, *rivals])
        return [*still, *rest] if still[0] is leader else still

    def _neighbours(self, leader: Setting) -> list[Setting]:
        """Give settings one step from the leader that were not measured: batch, or cores."""
        place = self._batches.index(leader.batch)
        rows = () if self._goal == "latency" else self._batches[max(0, place - 1) : place + 2]
        near = [Setting(leader.instances, leader.threads, batch) for batch in rows]
        near += [
            Setting(leader.instances + instances, leader.threads + threads, leader.batch)
            for instances, threads in ((-1, 0), (0, -1), (0, 1))
        ]
        return [
            contender
            for contender in near
            if contender not in self._field
            and min(contender.instances, contender.threads) >= 1
            and contender.instances * contender.threads <= self._cores
        ]

    # ------------------------------------------------------------------------------ concluding

    def _conclude(self, racing: Sequence[Contender]) -> Choice:
        measured = [contender.measured() for contender in self._field.values()]
        baseline = self._field[self._baseline].measured()
        raced = [contender.measured() for contender in racing]
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
