"""Seconds to be shared out among phases, with what is kept for the last of them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator


class Purse:
    """So many seconds: a phase is granted a share, and what it leaves is for those after it.

    `reserve` of them are kept for the last phase, however long the others took. At `end`, in the
    clock's time, nothing is left: work that nothing was granted for comes out of the shares, and
    in the end out of what is kept.
    """

    def __init__(
        self,
        seconds: float,
        *,
        reserve: float,
        end: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = self._left = seconds
        self._reserved = reserve * seconds
        self._end = end
        self._clock = clock

    @property
    def left(self) -> float:
        """Seconds that are left, those kept for the last phase among them."""
        return max(0.0, min(max(self._reserved, self._left), self._end - self._clock()))

    @property
    def end(self) -> float:
        """When the last phase has to begin, in the clock's time."""
        return self._end - self._reserved

    @contextlib.contextmanager
    def share(self, part: float) -> Iterator[float]:
        """Grant a part of the whole, as far as it is there; takes what the block took."""
        start = self._clock()
        try:
            yield max(0.0, min(part * self.seconds, self.left - self._reserved))
        finally:
            self._left -= self._clock() - start
