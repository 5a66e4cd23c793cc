"""The configuration of a fused NumPy program's kernel: how its work is divided when it is called.

All configurations of a kernel compute the same to the bit, so that one may be chosen while it is in
use (optimizer/fuse/codegen/tuning.py): what sums are made of stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class FusedConfiguration:
    """How a kernel's work is divided.

    block  numbers of the widest row of a block of rows, in all: these stay in the first cache
    part   numbers that a thread takes at a time, at least
    run    numbers from which on several threads take part
    """

    block: int = 512
    part: int = 1 << 14
    run: int = 1 << 15

    @property
    def description(self) -> str:
        """Say it for people."""
        threads = "all threads" if self.run <= 1 else f"several threads from {self.run} numbers on"
        return f"blocks of {self.block}, parts of {self.part}, {threads}"


@dataclass(frozen=True, order=True)
class FusedSizes:
    """A kernel of a fused program, on so many threads.

    `cells` are the numbers that it takes, `width` those of a row of a block, 0 where there are no
    blocks; `sums` is 1 where it adds up numbers over several rows or all of them.
    """

    cells: int
    width: int
    sums: int
    threads: int = 1
