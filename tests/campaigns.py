"""Campaigns: one claim on many cases. A run of all tests tries a twelfth of these.

`pytest -n 2` alone is such a run. Whoever names tests gets all of their cases, and so does
`TENSOLOG_CAMPAIGNS=1 pytest -n 2`. What is sliced is the number of cases, never the claims: each
test runs in every run. Searches that are to find nothing last a quarter as long.
"""

import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

# Set in the environment by conftest.py, so that workers know of it.
SLICED = "TENSOLOG_SLICED"
WHOLE = "TENSOLOG_CAMPAIGNS"
ALL = SLICED not in os.environ  # conftest.py decides, in a process that is no worker
# One case of so many is tried; a test with fewer cases or examples than these is no campaign.
SHARE, LEAST_EXAMPLES, LEAST_CASES = 12, 3, 5


def examples(count: int) -> int:
    """Return how many examples hypothesis draws where a campaign has `count`."""
    return count if ALL else max(min(count, LEAST_EXAMPLES), count // SHARE)


def search_s(seconds: float) -> float:
    """Return how long a search lasts that is to find nothing, and has `seconds` in a campaign."""
    return seconds if ALL else seconds / 4


def left_out(items: Sequence[Any]) -> Iterator[Any]:
    """Yield the collected tests that a slice leaves out: of each family other numbers."""
    families = Counter(map(_family, items))
    places: Counter[str] = Counter()
    for item in items:
        family = _family(item)
        if families[family] < LEAST_CASES or item.get_closest_marker("whole"):
            continue
        places[family] += 1
        share = min(SHARE, families[family])  # of a family of fewer cases one is tried
        if places[family] % share != zlib.crc32(family.encode()) % share:
            yield item


def _family(item: Any) -> str:
    return str(item.nodeid.partition("[")[0])
