"""The seconds of a budget, shared out among passes that run one after the other.

The share of a pass is reserved while earlier passes run; it gets more where these used less than
theirs. What no pass used is for the last one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Schedule:
    """The seconds of all passes, and the time of the clock by which all has to be over.

    Work that is not charged, such as verifying, uses none of these seconds, only the time until
    `end`.
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

    def grant(self, share_s: float, most_s: float, reserved_s: float) -> float:
        """Return the seconds of a pass, while `reserved_s` are reserved for those after it.

        No less than its share, and up to `most_s` if earlier passes left so much. Where the end is
        too near for all shares, each is cut down in proportion.
        """
        wanted_s = max(share_s, min(most_s, self.seconds - self.spent_s - reserved_s))
        even_s = self.remaining_s * share_s / (share_s + reserved_s) if share_s else 0.0
        return min(wanted_s, max(even_s, self.remaining_s - reserved_s))

    def cut(self, reserved_s: float) -> float:
        """Return the time of the clock at which a pass is cut, finished or not.

        That is when it would begin to use what is reserved for later passes, but not before half of
        the remaining time is over.
        """
        return self.end - min(reserved_s, self.remaining_s / 2)

    def charge(self, seconds: float) -> None:
        """Subtract what a pass used from the seconds of all."""
        self.spent_s += seconds
