"""Heats: which models are timed when, whose sessions are alive meanwhile, and who drops out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..sessions.session import trim_memory
from .sequential_halving import Scores, number_of_heats

Progress = Callable[[float, str], None]
"""Called with (fraction of the budget used, what is being timed)."""
Block = dict[str, list[float]]
"""One round: the laps of each model that took part, in nanoseconds."""

# A lap of a small model is repeated until it lasts this long.
_LAP_NS = 3e6
_MOST_RUNS = 200
_MOST_ROUNDS = 400
# Laps of one session while it is alive, when sessions take turns: at least so many, and as many
# more as fit in half of the time that loading it took; fewer of long laps: another turn tells more.
_LEAST_BLOCK, _MOST_BLOCK = 5, 25
_LONG_NS, _LEAST_OF_LONG = 1e8, 3
# Where a session's memory lies makes it faster or slower for its whole life, above all if its
# weights fill the cache. Where there is time for so many blocks, sessions are opened anew for each,
# so that the interval knows of it; others, too large for a cache, are opened once. In a short race
# rounds of all models tell more.
_FRESH_BLOCKS, _FRESH_LEAST_S = 20, 5.0
# What else runs on the machine slows one model and not another for longer than a few rounds of
# small models take. Until rounds go on for so long, in seconds and of a heat, only those drop out
# that are behind by more than such a factor.
_STEADY_S, _STEADY_SHARE, _FAR_BEHIND = 3.0, 0.5, 2.0


class Runner(Protocol):
    """A loaded model; tests put a simulated one in its place."""

    def time(self, runs: int = 1) -> float:
        """Run it; returns nanoseconds per run."""
        ...


Loader = Callable[[str], Runner]


@dataclass(frozen=True)
class Terms:
    """What a race is run under.

    `seats` sessions may be alive at once. Challengers drop out until `finalists` are left, or never
    if that is None. Everybody who has not dropped out gets `least_rounds`, whatever the time.
    """

    budget_s: float
    seats: int
    finalists: int | None
    least_rounds: int
    seed: int


class Field:
    """The reference and its challengers on the track: rounds of a lap each, until the time is up.

    `blocks` holds the rounds, each with the reference; `placing` the challengers, the fastest of
    those that came furthest first.
    """

    def __init__(
        self,
        reference: str,
        challengers: Sequence[str],
        terms: Terms,
        *,
        load: Loader,
        clock: Callable[[], float],
        progress: Progress | None,
    ) -> None:
        self._reference = reference
        self._racing = list(challengers)
        self._terms = terms
        self._load = load
        self._clock = clock
        self._deadline = clock() + terms.budget_s
        self._progress = progress
        self._random = random.Random(terms.seed)
        self._scores = Scores(challengers)
        self._alive: dict[str, Runner] = {}
        self._runs: dict[str, int] = {}
        self._lap_ns: dict[str, float] = {}
        self._out: list[str] = []
        self._in_turn = terms.seats < 2
        self.blocks: list[Block] = []

    @property
    def placing(self) -> list[str]:
        """Name the challengers, the winner first."""
        return [*self._scores.ranked(self._racing), *reversed(self._out)]

    def run(self) -> None:
        """Run heat after heat."""
        if self._terms.seats > len(self._racing) and self._terms.budget_s >= _FRESH_LEAST_S:
            self._in_turn = self._opens_cheaply()
        finalists = self._terms.finalists
        while True:
            now, heats = self._clock(), 1
            if finalists is not None:
                heats = number_of_heats(len(self._racing), finalists)
            self._heat(now + (self._deadline - now) / heats)
            if finalists is None:
                break
            half = max(finalists, (len(self._racing) + 1) // 2)
            self._drop(self._scores.ranked(self._racing)[half:])
            if len(self._racing) <= finalists or self._clock() >= self._deadline:
                break
        self._seat([])

    def _heat(self, end: float) -> None:
        """Time everybody who is left, at once as far as there are seats, until `end`."""
        size = len(self._racing) if self._in_turn else self._terms.seats - 1
        size = max(1, size)
        groups = [
            self._racing[start : start + size] for start in range(0, len(self._racing), size)
        ] or [[]]
        for number, group in enumerate(groups):
            if self._in_turn:
                self._rounds(group, end, self._turn)
                continue
            self._seat([*group, self._reference])
            now = self._clock()
            self._rounds(group, now + (end - now) / (len(groups) - number), self._round)

    def _rounds(self, group: Sequence[str], end: float, time: Callable[[str], list[float]]) -> None:
        """Time a group and the reference, round after round, each in random order."""
        done, finalists, start = 0, self._terms.finalists, self._clock()
        steady = start + min(_STEADY_S, _STEADY_SHARE * (end - start))
        while done < self._terms.least_rounds or (self._clock() < end and done < _MOST_ROUNDS):
            order = [self._reference, *(name for name in group if name in self._racing)]
            self._random.shuffle(order)
            block = {name: time(name) for name in order}
            least = min(map(len, block.values()))  # pairs need as many of each
            block = {name: laps[:least] for name, laps in block.items()}
            self.blocks.append(block)
            self._scores.add(block, self._reference)
            done += 1
            self._tell(f"round {len(self.blocks)}")
            if finalists is None:
                continue
            factor = 1.0 if self._clock() >= steady else _FAR_BEHIND
            behind = self._scores.surely_slower(self._racing, factor)
            self._drop(self._scores.ranked(behind))
            if behind and (len(self._racing) <= finalists or not set(group) & set(self._racing)):
                break

    def _drop(self, names: Sequence[str]) -> None:
        """Take challengers out of the race; of those in `names` the last one comes in last."""
        self._out += reversed(names)
        self._racing = [name for name in self._racing if name not in names]

    # ------------------------------------------------------------------------------ sessions

    def _opens_cheaply(self) -> bool:
        """Open everybody; tell whether that can be repeated often enough, and then close them."""
        start = self._clock()
        self._seat([*self._racing, self._reference])
        turns_s = self._clock() - start + _LEAST_BLOCK * 1e-9 * sum(self._lap_ns.values())
        cheap = _FRESH_BLOCKS * turns_s <= self._terms.budget_s
        if cheap:
            self._seat([])
        return cheap

    def _seat(self, names: Sequence[str]) -> None:
        """Have the sessions of these models alive, warm, and no others, opened in this order.

        Of the same large model several times, the one opened first was slower by 1 to 2 % as long
        as it lived: the reference comes last, so that nobody wins by that.
        """
        stale = [name for name in self._alive if name not in names]
        for name in stale:
            del self._alive[name], self._runs[name], self._lap_ns[name]
        if stale:
            trim_memory()
        opened = [name for name in names if name not in self._alive]
        for name in opened:
            self._tell(name)
            self._alive[name] = self._load(name)
            trim_memory()  # opening one takes more than it keeps
        for name in opened:
            self._runs[name], self._lap_ns[name] = warm(self._alive[name])

    def _round(self, name: str) -> list[float]:
        """Time a lap of a session that is alive."""
        runner, runs = self._alive[name], self._runs[name]
        if runs > 1:
            runner.time()  # the others have emptied the caches
        return [runner.time(runs)]

    def _turn(self, name: str) -> list[float]:
        """Open a session, time laps of it, and close it."""
        self._tell(name)
        start = self._clock()
        runner = self._load(name)
        runs, lap_ns = warm(runner)
        half = self._clock() + (self._clock() - start) / 2
        least = _LEAST_BLOCK if lap_ns < _LONG_NS else _LEAST_OF_LONG
        laps = [runner.time(runs) for _ in range(least)]
        while len(laps) < _MOST_BLOCK and self._clock() < half:
            laps.append(runner.time(runs))
        del runner
        trim_memory()  # before the next one is loaded
        return laps

    def _tell(self, label: str) -> None:
        if self._progress is not None:
            budget_s = self._terms.budget_s
            remaining_s = max(0.0, self._deadline - self._clock())
            used = 1.0 if budget_s <= 0 else 1.0 - remaining_s / budget_s
            self._progress(min(1.0, max(0.0, used)), label)


def warm(runner: Runner) -> tuple[int, float]:
    """Warm up; return the runs that make a lap long enough to be timed, and its nanoseconds.

    It has run before, to learn shapes; one more run tells that a lap is long.
    """
    once = runner.time()
    if once < _LONG_NS:
        once = min(once, runner.time())
    once = max(1.0, once)
    runs = max(1, min(_MOST_RUNS, round(_LAP_NS / once)))
    return runs, runs * once
