"""The configuration of a kernel that reduces along rows: what may be chosen freely.

Both fields are of the kernel's own text (loops/row_text.py), and hold for all levels of
instructions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class RowConfiguration:
    """How a row is gone through.

    streams  parts of a row that are added up side by side, where adding takes longer than the cells
    kept     what a cell that is needed again costs at least, in loads, to be kept and not computed
             anew
    """

    streams: int = 4
    kept: int = 2

    @property
    def description(self) -> str:
        """Say it for people."""
        parts = f"{self.streams} parts of a row at once"
        told = [parts if self.streams > 1 else "rows in one part"]
        told += [f"cells of {self.kept} loads kept"] * (self.kept != 2)
        return ", ".join(told)


@dataclass(frozen=True, order=True)
class RowSizes:
    """A kernel over rows, on so many threads: a digest of what it computes, rows, their length."""

    kernel: int
    rows: int
    length: int
    threads: int = 1


@dataclass(frozen=True)
class ChosenRows:
    """A configuration that is no default, and what it was chosen for."""

    configuration: RowConfiguration
    sizes: RowSizes
