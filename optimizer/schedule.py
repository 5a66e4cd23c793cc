"""The seconds of a budget, shared out among passes that run one after the other.

A pass has a share that is kept for it while those before it run, and may take more where these left
some. What nobody took is for the last one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Schedule:
    """So many seconds for all passes, and the time of the clock by which all has to be over.

    Seconds that a pass was not granted, such as those of verifying, are no part of them: they come
    out of the time until `end`.
    """

    def __init__(
        self,
        seconds: float,
        *,
        end: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self.end = seconds, end
        self.spent_s = 0.0
        self._clock = clock

    @property
    def remaining_s(self) -> float:
        """Seconds until the end."""
        return max(0.0, self.end - self._clock())

    def grant(self, share_s: float, most_s: float, kept_s: float) -> float:
        """Give the seconds that a pass may plan with, while `kept_s` are kept for those after it.

        No less than its share, and up to `most_s` if those before it left so much; where the end is
        too near for all shares, as much less of each.
        """
        wanted_s = max(share_s, min(most_s, self.seconds - self.spent_s - kept_s))
        even_s = self.remaining_s * share_s / (share_s + kept_s) if share_s else 0.0
        return min(wanted_s, max(even_s, self.remaining_s - kept_s))

    def cut(self, kept_s: float) -> float:
        """Give the time of the clock at which a pass is cut, however much it still has to do.

        That is when it would take what is kept for those after it, but not before half of the time
        is over.
        """
        return self.end - min(kept_s, self.remaining_s / 2)

    def charge(self, seconds: float) -> None:
        """Take what a pass took out of what is left for the others."""
        self.spent_s += seconds
