"""Searches make many objects that live until their end, and look for garbage in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects until the youngest are looked at, and how many such looks until older ones are: all of
# them are a hundredth as often as by default.
_SELDOM = (70_000, 10, 10)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for cycles of garbage a hundredth as often meanwhile: they take a tenth of a search."""
    before = gc.get_threshold()
    if before[0]:  # 0: whoever calls has collections off
        gc.set_threshold(
            *(max(threshold, least) for threshold, least in zip(before, _SELDOM, strict=True))
        )
    try:
        yield
    finally:
        gc.set_threshold(*before)
