"""Where an optimization is, and where its time went."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

Progress = Callable[[str, int, int, str], None]
"""Called with (phase, done, total, detail); a total of 0 means that the end is not known."""


class Phases:
    """Seconds spent, phase by phase in order, and the caller's progress callback."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, name: str, detail: str = "") -> Iterator[None]:
        """Time a phase."""
        self.tell(name, 0, 0, detail)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    def tell(self, phase: str, done: int, total: int, detail: str = "") -> None:
        """Report progress inside a phase."""
        if self._progress is not None:
            self._progress(phase, done, total, detail)
