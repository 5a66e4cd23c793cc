"""Seconds to be shared out among phases, with what is kept for the last of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class Purse:
    """So many seconds: a phase is granted a share, and what it leaves is for those after it.

    `reserve` of them are kept for the last phase, however long the others took.
    """

    def __init__(
        self, seconds: float, *, reserve: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = self.left = seconds
        self._reserved = reserve * seconds
        self._clock = clock

    @contextlib.contextmanager
    def share(self, part: float) -> Iterator[float]:
        """Grant a part of the whole, as far as it is there; takes what the block took."""
        start = self._clock()
        try:
            yield max(0.0, min(part * self.seconds, self.left - self._reserved))
        finally:
            self.left = max(self._reserved, self.left - (self._clock() - start))
