"""Ways to serve a model that race in turns: who is ahead, how surely, and who drops out.

`choose.py` races settings that `ready_instances.py` times; `over_devices.py` races what is open at
the same time and runs requests as it serves them: all of what each has is kept busy by threads of
this process, so that what a request takes on its way there and back counts as well.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from ...profiles.races.statistics import Ratio, winsorized_ratio
from ..deployment.settings import INDIFFERENCE, Goal, Limit, Measured, Setting, summarize
from ..serving.instance import Array
from ..serving.runner_sources import Runner

Feeds = Mapping[str, Array]
RunTimes = list[list[float]]
"""The nanoseconds of each run of each instance, or lane, of what was timed for a while."""

_WARM_RUNS = 3
# How surely one is ahead of another before that counts, and from how many rounds on.
_CONFIDENCE, _LEAST_ROUNDS = 0.99, 3
# So many are left beside the leader where each round halves the others.
_LEAST_RIVALS = 2


@dataclass(frozen=True)
class Terms:
    """How long each is timed in a round, in how many runs at least, and in how many rounds at most.

    With `good_enough` a race ends as well once nobody can be better than the leader by more than
    this share. From `halves_from` rounds on, each round leaves no more than half of the others in
    the race, those that are ahead of the rest in pairs of rounds (successive halving: Karnin, Koren
    and Somekh, ICML 2013): what is wrongly left out then was hardly better.
    """

    seconds: float = 0.2
    least_runs: int = 3
    most_rounds: int = 40
    good_enough: float | None = None
    halves_from: int | None = None


DEFAULT_TERMS = Terms()


@dataclass
class Contender:
    """A way to serve a model: what times it, and what each round gave."""

    setting: Setting
    time: Callable[[float, int], RunTimes]
    memory_bytes: int = 0
    close: Callable[[], None] = lambda: None
    rounds: list[RunTimes] = field(default_factory=list)

    def measured(self) -> Measured:
        """Sum up all rounds."""
        return summarize(self.setting, self.rounds, self.memory_bytes)

    def values(self, goal: Goal) -> list[float]:
        """Return how good each round was: the larger, the better."""
        return [_value(self.setting, times, goal) for times in self.rounds]

    def keeps(self, limits: Sequence[Limit]) -> bool:
        """Tell whether it keeps to limits, by all rounds so far."""
        return not limits or all(limit.holds(self.measured()) for limit in limits)


def _value(setting: Setting, times: RunTimes, goal: Goal) -> float:
    if goal == "latency":
        return 1 / median(itertools.chain(*times))
    return setting.batch * sum(1e9 / median(runs) for runs in times)


def lead(first: Contender, other: Contender, goal: Goal) -> Ratio:
    """Return by which factor one is better than another, by the rounds that both took part in."""
    pairs = zip(first.values(goal), other.values(goal), strict=False)
    return winsorized_ratio([a / b for a, b in pairs], _CONFIDENCE)


class Outcome(NamedTuple):
    """Who is in the race at its end, the leader first, and whether it was decided in time."""

    racing: list[Contender]
    complete: bool


def race(
    contenders: Sequence[Contender],
    goal: Goal,
    limits: Sequence[Limit] = (),
    *,
    budget_s: float,
    terms: Terms = DEFAULT_TERMS,
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Time contenders in turns until the leader is sure, or all that is left is as good.

    Each gets a round at least, whatever the time. The leader is the best that keeps to the limits;
    what is surely worse drops out.
    """
    end = clock() + budget_s
    shuffle = random.Random(0).shuffle
    racing = list(contenders)
    while True:
        order = list(racing)
        shuffle(order)
        for contender in order:
            if clock() >= end and all(contender.rounds for contender in order):
                return Outcome(_still_racing(racing, goal, limits), complete=False)
            tell(str(contender.setting))
            contender.rounds.append(contender.time(terms.seconds, terms.least_runs))
        rounds = min(len(contender.rounds) for contender in racing)
        if terms.halves_from is not None and rounds >= terms.halves_from:
            racing = _better_half(racing, goal, limits)
        if rounds < _LEAST_ROUNDS:
            continue
        racing = _still_racing(racing, goal, limits)
        rivals = [contender for contender in racing[1:] if contender.keeps(limits)] or racing[1:]
        if all(_is_settled(lead(racing[0], rival, goal), terms.good_enough) for rival in rivals):
            return Outcome(racing, complete=True)
        if rounds >= terms.most_rounds:
            return Outcome(racing, complete=True)


def _leader(racing: Sequence[Contender], goal: Goal, limits: Sequence[Limit]) -> Contender:
    """Return the best of those that keep the limits, or of all where none does."""
    kept = [contender for contender in racing if contender.keeps(limits)] or racing
    return max(kept, key=lambda contender: median(contender.values(goal)))


def _still_racing(
    racing: Sequence[Contender], goal: Goal, limits: Sequence[Limit]
) -> list[Contender]:
    """Return the leader, and those that may be as good."""
    first = _leader(racing, goal, limits)
    others = [
        contender
        for contender in racing
        if contender is not first and not lead(first, contender, goal).is_above_one
    ]
    return [first, *others]


def _better_half(
    racing: Sequence[Contender], goal: Goal, limits: Sequence[Limit]
) -> list[Contender]:
    """Return the leader, and of the others the half that comes nearest to it, two at least."""
    first = _leader(racing, goal, limits)
    others = [contender for contender in racing if contender is not first]
    others.sort(key=lambda contender: lead(first, contender, goal).value)
    return [first, *others[: max(_LEAST_RIVALS, math.ceil(len(others) / 2))]]


def _is_settled(lead: Ratio, good_enough: float | None) -> bool:
    """Tell whether it does not matter any more who is better."""
    if good_enough is not None and lead.low >= 1 / (1 + good_enough):
        return True
    return lead.high <= 1 + INDIFFERENCE and lead.low >= 1 - INDIFFERENCE


def warm(runners: Sequence[Runner], feeds: Feeds, limit_s: float) -> None:
    """Run each runner a few times; raises what that raises."""
    request = {name: [array] for name, array in feeds.items()}
    for runner in runners:
        for _ in range(_WARM_RUNS):
            runner.run(request, limit_s)


def timed(
    runners: Sequence[Runner], feeds: Feeds, seconds: float, least_runs: int, limit_s: float
) -> RunTimes:
    """Keep runners busy for so long; nanoseconds of each run of each of them."""
    request = {name: [array] for name, array in feeds.items()}
    laps: RunTimes = [[] for _ in runners]
    errors: list[BaseException] = []
    ready = threading.Barrier(len(runners))

    def serve(number: int) -> None:
        runner, times = runners[number], laps[number]
        try:
            ready.wait()
            end = time.monotonic() + seconds
            while len(times) < least_runs or time.monotonic() < end:
                start = time.perf_counter_ns()
                runner.run(request, limit_s)
                times.append(float(time.perf_counter_ns() - start))
        except BaseException as error:
            errors.append(error)

    if len(runners) == 1:
        serve(0)
    else:
        threads = [threading.Thread(target=serve, args=(number,)) for number in range(len(runners))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return laps


@contextlib.contextmanager
def closing(contenders: Sequence[Contender]) -> Iterator[None]:
    """End the processes of all contenders in the end."""
    try:
        yield
    finally:
        for contender in contenders:
            contender.close()
