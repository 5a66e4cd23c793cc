"""Campaigns: one claim on many cases. A run tries a slice of them; TENSOLOG_CAMPAIGNS=1 all.

What is sliced is the number of cases, never the claims: each test runs in every run.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

ALL = os.environ.get("TENSOLOG_CAMPAIGNS", "0") not in ("", "0")
# One case of so many is tried in a slice, but at least a few.
SHARE, LEAST = 3, 8


def examples(count: int) -> int:
    """Return how many examples hypothesis draws where a campaign has `count`."""
    return count if ALL else max(min(count, LEAST), count // SHARE)


def sliced(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases of a campaign that this run tries: every third one."""
    return cases if ALL else cases[::SHARE]
