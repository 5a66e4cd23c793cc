"""Ways to serve a model that are open at the same time and race in turns, as they serve requests.

All of what each has is kept busy by threads of this process, so that what a request takes on its
way there and back counts as well.
"""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..serving.instance import Array
from ..serving.source import Runner
from .settings import INDIFFERENCE, Goal, Measured, Setting, summarize

Feeds = Mapping[str, Array]

_WARM_RUNS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 40
_SECONDS, _LEAST_RUNS = 0.2, 3
# So many standard errors a mean of logarithms has to be from nothing.
_SURE = 2.5


@dataclass
class Contender:
    """A way to serve a model: what runs its requests, and what each round gave."""

    setting: Setting
    runners: Sequence[Runner]
    memory_bytes: int = 0
    rounds: list[list[list[float]]] = field(default_factory=list)

    def measured(self) -> Measured:
        """Sum up all rounds."""
        return summarize(self.setting, self.rounds, self.memory_bytes)

    def values(self, goal: Goal) -> list[float]:
        """Return how good each round was: the larger, the better."""
        one_by_one = (summarize(self.setting, [found], 0) for found in self.rounds)
        if goal == "latency":
            return [1 / entry.p50_ms for entry in one_by_one]
        return [entry.rows_per_s for entry in one_by_one]

    def close(self) -> None:
        """End its processes."""
        for runner in self.runners:
            runner.close()


@dataclass(frozen=True)
class Lead:
    """By which factor one is better than another, with its interval."""

    factor: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Tell whether the one is better for sure."""
        return self.low > 1


def lead(one: Contender, other: Contender, goal: Goal) -> Lead:
    """Compare two by the rounds that both took part in, round by round."""
    pairs = zip(one.values(goal), other.values(goal), strict=False)
    logs = np.array([math.log(a / b) for a, b in pairs])
    mean = float(np.mean(logs))
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    slack = _SURE * error
    return Lead(math.exp(mean), math.exp(mean - slack), math.exp(min(mean + slack, 700.0)))


def race(
    contenders: Sequence[Contender],
    feeds: Feeds,
    goal: Goal,
    *,
    budget_s: float,
    limit_s: float = 600.0,
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = lambda text: None,
) -> bool:
    """Time contenders in turns until the leader is sure, or all that is left is as good.

    Returns False where the budget ended it. What is surely worse drops out.
    """
    end = clock() + budget_s
    shuffle = random.Random(0).shuffle
    racing = list(contenders)
    for number in range(_MOST_ROUNDS):
        order = list(racing)
        shuffle(order)
        for contender in order:
            tell(str(contender.setting))
            runners = contender.runners[:1] if goal == "latency" else contender.runners
            contender.rounds.append(timed(runners, feeds, _SECONDS, _LEAST_RUNS, limit_s))
        if number + 1 >= _LEAST_ROUNDS:
            racing = _still_racing(racing, goal)
            if len(racing) == 1:
                return True
            if all(_is_alike(racing[0], other, goal) for other in racing[1:]):
                return True
        if clock() >= end:
            return False
    return False


def _still_racing(racing: Sequence[Contender], goal: Goal) -> list[Contender]:
    """Return the leader, and those that may be as good."""
    first = max(racing, key=lambda one: float(np.median(one.values(goal))))
    others = [one for one in racing if one is not first and not lead(first, one, goal).is_sure]
    return [first, *others]


def _is_alike(one: Contender, other: Contender, goal: Goal) -> bool:
    found = lead(one, other, goal)
    return found.high <= 1 + INDIFFERENCE and found.low >= 1 - INDIFFERENCE


def warm(contender: Contender, feeds: Feeds, limit_s: float) -> None:
    """Run each runner a few times; raises what that raises."""
    given = {name: [array] for name, array in feeds.items()}
    for runner in contender.runners:
        for _ in range(_WARM_RUNS):
            runner.run(given, limit_s)


def timed(
    runners: Sequence[Runner], feeds: Feeds, seconds: float, least_runs: int, limit_s: float
) -> list[list[float]]:
    """Keep runners busy for so long; nanoseconds of each run of each of them."""
    given = {name: [array] for name, array in feeds.items()}
    found: list[list[float]] = [[] for _ in runners]
    errors: list[BaseException] = []
    ready = threading.Barrier(len(runners))

    def serve(number: int) -> None:
        runner, times = runners[number], found[number]
        try:
            ready.wait()
            end = time.monotonic() + seconds
            while len(times) < least_runs or time.monotonic() < end:
                start = time.perf_counter_ns()
                runner.run(given, limit_s)
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
    return found


@contextlib.contextmanager
def closing(contenders: Sequence[Contender]) -> Iterator[None]:
    """End the processes of all contenders in the end."""
    try:
        yield
    finally:
        for contender in contenders:
            contender.close()
