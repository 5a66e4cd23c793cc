"""One plan as it was measured, which verdicts, tables and reports tell."""

from __future__ import annotations

from dataclasses import dataclass

# Of fewer rounds than this an interval is so wide that it says nothing.
FEW_ROUNDS = 5


@dataclass(frozen=True)
class Candidate:
    """One plan measured end to end; times in nanoseconds, ratios to the original's time."""

    candidate: str
    nodes: int
    verdict: str
    predicted_ns: float | None = None
    median_ns: float | None = None
    spread_ns: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    samples: int = 0
