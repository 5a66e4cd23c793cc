"""What may be chosen freely of a pair of convolutions (convolution/convolution_pair.py)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from .chosen import Chosen

# Lines of an image that a unit of work has at least.
LEAST_LINES = 8


@dataclass(frozen=True, order=True)
class PairConfiguration:
    """How the work of a pair of convolutions is divided.

    block       float32 numbers of what lies between that are held at a time, for two blocks of
                channels
    run         units of work of an image that there are at least, where it has lines enough
    loop_order  1 where parts of the image follow one another for the same channels, 0 where
                channels do for the same part
    """

    block: int = 32 << 10
    run: int = 6
    loop_order: int = 0

    @property
    def description(self) -> str:
        """Say it for people."""
        texts = [f"{self.block >> 10} Ki held between"]
        texts += [f"{self.run} units of work at least"] * (self.run != 6)
        texts += ["all parts of an image for some channels"] * bool(self.loop_order)
        return ", ".join(texts)


@dataclass(frozen=True, order=True)
class PairSizes:
    """A pair of convolutions, on so many threads.

    `kernel` is a digest of what it computes, `depth` the channels read, `panels` those between,
    two blocks each, of which a line has so many `numbers`; `lines` are those of the result, each
    made of `taps` lines between, `step` further than those of the line before.
    """

    kernel: int
    images: int
    depth: int
    panels: int
    lines: int
    numbers: int
    taps: int
    step: int
    threads: int = 1

    def divided(self, how: PairConfiguration) -> tuple[int, int]:
        """Return how many lines of the result are made at once, and how many a unit of work has."""
        parts = max(1, min(ceil(how.run / self.panels), self.lines // LEAST_LINES))
        rows = ceil(self.lines / parts)
        most = (how.block // self.numbers - self.taps) // self.step + 1
        return max(1, min(rows, most)), rows


ChosenPair = Chosen[PairConfiguration, PairSizes]
