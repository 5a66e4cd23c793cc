"""When a part of the work has to end: a time of the clock, asked for wherever much may be done.

A block under `cut_at` ends by OutOfTimeError at the first `checkpoint` after its time, as blocks do
that are cancelled (the cancel scopes of Trio, by N. J. Smith, 2018). What is counted, such as the
rounds of a search, decides alike on any machine; the clock is for machines that are busy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(BaseException):
    """The time of a block is over. No Exception: what takes any for a refusal must not have it."""


@contextmanager
def cut_at(end: float) -> Iterator[None]:
    """Cut the block when time.monotonic() is beyond `end`, or where an outer block is cut."""
    token = _end.set(min(end, _end.get()))
    try:
        yield
    finally:
        _end.reset(token)


def checkpoint() -> None:
    """Raise OutOfTimeError where the block's time is over."""
    if time.monotonic() > _end.get():
        raise OutOfTimeError


def remaining_s() -> float:
    """Return the seconds that the block has left; infinity where nothing cuts it."""
    return max(0.0, _end.get() - time.monotonic())
