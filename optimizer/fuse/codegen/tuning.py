"""How the work of a fused program's kernel is divided: chosen by its own calls.

Each call is done once, in one of the configurations that are legal (configurations.dl): all give
the same to the bit, so nobody notices but by the clock. Each configuration has a few turns; the
fastest of them, if it isn't the default, then takes turns with the default, and is kept where it
wins beyond the interval of the median of the turns' ratios, as between a kernel and SciPy
(tracing/region_race.py), twice. A turn is some calls, one after the other: threads sleep while
one alone works, and a call that wakes them is no measure of those that find them awake. What others
do on the machine meanwhile slows both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any, Protocol

from ....profiles.races.statistics import LOOKS, Ratio, median_ratio
from ...native.configurations.fused_configuration import FusedConfiguration, FusedSizes
from .launch import Function

# Imported within functions: what derives configurations, for kernels that are called often.

# The first calls, which bring code and arguments near; and the seconds of a call that are worth it.
WARM, LEAST_S = 3, 10e-6
# Turns of each configuration before the best of them goes on, and calls of a turn, the first of
# which is not counted.
TURNS, CALLS = 3, 3
# What the whole interval has to be below, and how often.
WON, WINS = 0.98, 2


class Tunable(Protocol):
    """A kernel whose work may be divided in several ways."""

    @property
    def configuration(self) -> FusedConfiguration:
        """How it is where nothing else is chosen."""

    def work_sizes(self, threads: int) -> FusedSizes:
        """Return what configurations depend on."""

    def run(
        self,
        function: Function,
        values: Mapping[int, Any],
        threads: int,
        how: FusedConfiguration = ...,
    ) -> dict[int, Any]:
        """Return the outputs, the work divided so, or as `configuration` has it."""


@dataclass
class Tuning:
    """The configurations of a kernel, and what its calls took in each; `chosen` is taken then."""

    kernel: Tunable
    calls: int = 0
    chosen: FusedConfiguration | None = None  # None while calls take turns
    ways: Sequence[FusedConfiguration] = ()
    seconds: dict[FusedConfiguration, list[float]] = field(default_factory=dict)
    final: bool = False  # the default and one other are left
    wins: int = 0
    turn: list[float] = field(default_factory=list)  # seconds of the calls of this turn
    way: FusedConfiguration | None = None  # of this turn
    ratio: Ratio | None = None  # of what won over the default

    def run(self, function: Function, values: Mapping[int, Any], threads: int) -> dict[int, Any]:
        """Return the outputs of a call, which is timed as long as nothing is chosen."""
        if self.chosen is not None:
            return self.kernel.run(function, values, threads, self.chosen)
        how = self.next(threads)
        begun = perf_counter()
        results = self.kernel.run(function, values, threads, how)
        self.add(how, perf_counter() - begun)
        return results

    def next(self, threads: int) -> FusedConfiguration:
        """Return the configuration of the next call."""
        self.calls += 1
        if self.calls <= WARM:
            return self.kernel.configuration
        if not self.ways:
            from ...native.configurations.legal import legal_fused

            self.ways = legal_fused(self.kernel.work_sizes(threads), self.kernel.configuration)
            if len(self.ways) == 1:
                self.chosen = self.ways[0]
        if self.way is None:
            self.way = min(self.ways, key=lambda way: len(self.seconds.get(way, ())))
        return self.way

    def add(self, how: FusedConfiguration, seconds: float) -> None:
        """Take note of a call, and choose where enough is known."""
        if self.calls < WARM or self.chosen is not None:
            return
        if self.calls == WARM:
            if seconds < LEAST_S:
                self.chosen = self.kernel.configuration
            return
        if how != self.way:
            return  # another thread has ended this turn
        self.turn.append(seconds)
        if len(self.turn) < CALLS:
            return
        self.seconds.setdefault(how, []).append(min(self.turn[1:]))
        self.turn, self.way = [], None
        turns = min(len(self.seconds.get(way, ())) for way in self.ways)
        if not self.final and turns >= TURNS:
            self._reduce()
        elif self.final and turns in LOOKS:
            self._decide(turns)

    def _reduce(self) -> None:
        """Leave the default and what is the fastest so far."""
        default = self.kernel.configuration
        best = min(self.ways, key=lambda way: median(self.seconds[way]))
        if best == default:
            self.chosen = default
            return
        self.final, self.ways, self.seconds = True, (default, best), {}

    def _decide(self, turns: int) -> None:
        default, other = self.ways
        ratio = median_ratio(self.seconds[other][:turns], self.seconds[default][:turns])
        if ratio.high < WON:
            self.wins, self.ratio = self.wins + 1, ratio
            if self.wins == WINS:
                self.chosen = other
            else:
                self.seconds = {}
        elif ratio.low >= WON or turns == max(LOOKS):
            self.chosen, self.ratio = default, None
