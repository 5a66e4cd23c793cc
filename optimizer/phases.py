"""Where an optimization is, and where its time went."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from .deadline import checkpoint

Progress = Callable[[str, int, int, str], None]
"""Called with (phase, done, total, detail); a total of 0 means that the end is not known."""

# What a report of progress is called that has the best plan so far as its detail.
BEST = "best so far"
# The same of a plan that nobody raced yet, with the gain that its kernels promise.
FORETOLD = "predicted"
# The steps of an optimization, in order, and the one that each phase is part of. Some phases come
# again in later steps.
STEPS = {
    "exporting": "read",
    "reading": "read",
    "running the original": "run",
    "first race": "run",
    "first kernels": "run",
    "searching": "search",
    "screening": "search",
    "predicting": "search",
    "verifying": "verify",
    "qualifying": "verify",
    "opening": "verify",
    "fusing": "kernels",
    "measuring kernels": "kernels",
    "racing": "race",
    "opening sessions": "race",
    "confirming": "race",
    "compiling": "write",
    "explaining": "write",
    "recording": "write",
    "writing": "write",
}


class Phases:
    """Seconds spent, phase by phase in order, and the caller's progress callback."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self.start = time.monotonic()
        self.seconds: dict[str, float] = {}
        self._whole = ""

    @contextlib.contextmanager
    def __call__(self, name: str, detail: str = "") -> Iterator[None]:
        """Time a phase."""
        self.tell(name, 0, 0, detail)
        start = time.monotonic()
        try:
            yield
        finally:
            name = self._whole or name
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    @contextlib.contextmanager
    def as_part_of(self, name: str) -> Iterator[None]:
        """Report and time the phases of the block as parts of one, which comes in another step."""
        self._whole = name
        try:
            yield
        finally:
            self._whole = ""

    def tell(self, phase: str, done: int, total: int, detail: str = "") -> None:
        """Report progress inside a phase."""
        if self._progress is not None:
            name = phase if phase in (BEST, FORETOLD) else self._whole or phase
            self._progress(name, done, total, detail)
        checkpoint()

    def mute(self) -> None:
        """Report nothing any more: who hears of it might end what is still to be done."""
        self._progress = None
