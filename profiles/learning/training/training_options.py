"""How long, and on how much at a time, a graph network is trained; said without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]
"""Called with (done, total)."""


@dataclass(frozen=True)
class Training:
    """How long and on how much at a time a network is trained.

    A step takes `graphs` graphs, of each as many configurations as all of them have, at most
    `configurations`. A segment has `segment_nodes` nodes at most; of a graph of more than `fresh`
    segments, so many have gradients, and each of the others counts with probability `kept` (see
    segments.py). None: all have gradients, one after another.
    """

    steps: int = 300
    graphs: int = 48
    configurations: int = 24
    rate: float = 4e-3
    ranking: float = 1.0
    segment_nodes: int = 1000
    fresh: int | None = None
    kept: float = 0.5
