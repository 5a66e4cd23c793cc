"""Who stays in a race: half of the challengers after each heat, and nobody who is surely behind.

Time spent on what can't win is lost to what can: with every heat the field halves, so that the few
that are close to each other get most of the laps. Source: Karnin, Koren and Somekh, Almost optimal
exploration in multi-armed bandits, ICML 2013 (sequential halving). Which one is left says nothing
of the noise: that it is faster than the reference has to be shown by laps of its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .statistics import swiftest

# Standard errors by which a challenger is surely behind, and the rounds from which on it is known.
_SURELY, _LEAST_ROUNDS = 4.0, 3


def number_of_heats(challengers: int, finalists: int) -> int:
    """Return how many heats leave `finalists` of so many challengers; at least one."""
    return max(1, math.ceil(math.log2(max(1, challengers) / finalists)))


@dataclass
class _Score:
    """A challenger's times beside the reference's, and the moments of their ratio's logarithm."""

    times: list[float] = field(default_factory=list)
    bases: list[float] = field(default_factory=list)
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / len(self.times)

    @property
    def scatter(self) -> float:
        """Sum of squared differences from the mean."""
        return max(0.0, self.squares - self.total**2 / len(self.times))


class Scores:
    """How challengers fare against the reference, round by round."""

    def __init__(self, names: Sequence[str]) -> None:
        self._of = {name: _Score() for name in names}

    def add(self, block: Mapping[str, Sequence[float]], reference: str) -> None:
        """Count a round; several laps of one model in it count as their median."""
        base = statistics.median(block[reference])
        for name, laps in block.items():
            if name != reference:
                score, time = self._of[name], statistics.median(laps)
                score.times.append(time)
                score.bases.append(base)
                log = math.log(time / base)
                score.total += log
                score.squares += log**2

    def ratio(self, name: str) -> float:
        """Return a challenger's time over the reference's, both undisturbed; inf if not timed."""
        score = self._of[name]
        return swiftest(score.times) / swiftest(score.bases) if score.times else math.inf

    def ranked(self, names: Iterable[str]) -> list[str]:
        """Order challengers, the fastest first."""
        return sorted(names, key=self.ratio)

    def surely_slower(self, names: Iterable[str], factor: float = 1.0) -> set[str]:
        """Name those surely slower than the best of them, or the reference, and by a factor.

        By the logarithms of their ratios, whose spread is taken to be the same for all.
        """
        known = {
            name: score for name in names if len((score := self._of[name]).times) >= _LEAST_ROUNDS
        }
        if not known:
            return set()
        freedom = sum(len(score.times) - 1 for score in known.values())
        variance = sum(score.scatter for score in known.values()) / freedom
        best = min(known.values(), key=lambda score: score.mean)
        least, error = best.mean, variance / len(best.times)
        if least > 0.0:
            least, error = 0.0, 0.0  # the reference is ahead of all
        return {
            name
            for name, score in known.items()
            if score.mean - least
            > max(_SURELY * math.sqrt(error + variance / len(score.times)), math.log(factor))
        }
