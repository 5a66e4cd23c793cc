"""Which of two ways to compute a region is kept: a race in its first calls.

What a kernel over sparse values takes depends on where the entries are, and SciPy's own loops are
good: no model of costs says which is sooner. So each of the first calls runs both, in turns, and
what slows a whole turn leaves its ratio alone. The interval of the ratios' median is made of order
statistics, so that it holds for whatever distribution they have. The kernel has to win by more than
that interval; SciPy is kept otherwise. Regions of other shapes, or of another power of two of
entries, are others, and raced anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ....profiles.races.statistics import LOOKS, Ratio, median_ratio

Verdict = Literal["kernel", "SciPy", "open"]


@dataclass
class Race:
    """The seconds of both ways by turn; `overhead_s` is what a fused call takes beside the kernel.

    The first turn, which brings both ways' code and the arguments near, isn't counted.
    """

    overhead_s: float = 0.0
    kernel_s: list[float] = field(default_factory=list)
    scipy_s: list[float] = field(default_factory=list)
    warm: bool = False

    @property
    def kernel_first(self) -> bool:
        """Whether the kernel goes first in the next turn: each is to find the arguments near."""
        return len(self.kernel_s) % 2 == 0

    def add(self, kernel_s: float, scipy_s: float) -> None:
        """Take note of a turn."""
        if self.warm:
            self.kernel_s.append(kernel_s)
            self.scipy_s.append(scipy_s)
        self.warm = True

    @property
    def turns(self) -> int:
        """How many turns count: threads that race at once may take more."""
        return min(len(self.scipy_s), max(LOOKS))

    @property
    def verdict(self) -> Verdict:
        """Which way is kept; "open" while the race goes on."""
        if self.turns not in LOOKS:
            return "open"
        ratio = self.ratio
        if ratio.high < 1:
            return "kernel"
        return "SciPy" if ratio.low >= 1 or self.turns == max(LOOKS) else "open"

    @property
    def ratio(self) -> Ratio:
        """The kernel's time over SciPy's, at a turn of LOOKS."""
        kernel_s = [seconds + self.overhead_s for seconds in self.kernel_s[: self.turns]]
        return median_ratio(kernel_s, self.scipy_s[: self.turns])

    def __str__(self) -> str:
        ratio = self.ratio
        turns = f"({ratio.low:.2f} to {ratio.high:.2f}, {self.turns} turns)"
        return f"the kernel takes {ratio.value:.2f} of SciPy's time {turns}"
