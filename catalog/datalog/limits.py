"""What an evaluation may take before it is ended with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import duckdb

from .steps import Step

GROWTH_S = 60.0
_AGAIN_S = 0.05  # a query that begins just after an interruption forgets it


@dataclass(frozen=True)
class Limits:
    """Limits in seconds and rows; None is no limit.

    `seconds` is for a whole evaluation. `growth_s` is for each recursion that makes values, the
    only kind that may never end, where `seconds` is None. `rows` is for a relation, or for all that
    are recursive with each other.
    """

    seconds: float | None = None
    growth_s: float | None = GROWTH_S
    rows: int | None = None

    def apply_to(self, steps: Iterable[Step]) -> bool:
        """Say whether steps may have to be ended; only a database can be while it runs."""
        if self.seconds is not None or self.rows is not None:
            return True
        return self.growth_s is not None and any(step.growing for step in steps)


DEFAULT_LIMITS = Limits()
NO_LIMITS = Limits(growth_s=None)


@contextmanager
def interrupted_after(
    connection: duckdb.DuckDBPyConnection, seconds: float | None
) -> Iterator[Callable[[], bool]]:
    """Interrupt what a connection runs, from so many seconds on; says whether they have passed."""
    if seconds is None:
        yield lambda: False
        return
    expired, finished = Event(), Event()

    def watch() -> None:
        if finished.wait(seconds):
            return
        expired.set()
        while not finished.wait(_AGAIN_S):
            connection.interrupt()

    thread = Thread(target=watch, name="tensolog-datalog-limit", daemon=True)
    thread.start()
    try:
        yield expired.is_set
    finally:
        finished.set()
        thread.join()
