"""The configurations of kernels that are loops over cells: along rows, over columns, or each cell.

Their fields are of the kernel's own text (loops/row_text.py, loops/column_text.py), and hold for
all levels of instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chosen import Chosen


@dataclass(frozen=True, order=True)
class RowConfiguration:
    """How a row is gone through that is reduced.

    streams  vectors that are added up side by side, where adding takes longer than the cells
    kept     what a cell that is needed again costs at least, in loads, to be kept and not computed
             anew
    """

    streams: int = 4
    kept: int = 2

    @property
    def description(self) -> str:
        """Say it for people."""
        texts = [f"{self.streams} vectors at once" if self.streams > 1 else "a vector at once"]
        texts += [f"cells of {self.kept} loads kept"] * (self.kept != 2)
        return ", ".join(texts)


@dataclass(frozen=True, order=True)
class ColumnConfiguration:
    """How columns are folded.

    block   columns that are folded together at most
    unroll  rows that are folded into them at a time
    kept    as in RowConfiguration
    """

    block: int = 1024
    unroll: int = 4
    kept: int = 2

    @property
    def description(self) -> str:
        """Say it for people."""
        rows = f"{self.unroll} rows at once" if self.unroll > 1 else "row by row"
        texts = [f"pieces of {self.block} columns", rows]
        texts += [f"cells of {self.kept} loads kept"] * (self.kept != 2)
        return ", ".join(texts)


@dataclass(frozen=True, order=True)
class CellConfiguration:
    """How cells are gone through of which each is computed by itself.

    block   cells of a row that are a unit of work
    unroll  vectors that are computed at a time; 1: as the compiler does
    """

    block: int = 4096
    unroll: int = 1

    @property
    def description(self) -> str:
        """Say it for people."""
        texts = [f"blocks of {self.block} cells"]
        texts += [f"{self.unroll} vectors at once"] * (self.unroll > 1)
        return ", ".join(texts)


@dataclass(frozen=True, order=True)
class RowSizes:
    """A kernel over rows, on so many threads: a digest of what it computes, rows, their length."""

    kernel: int
    rows: int
    length: int
    threads: int = 1


@dataclass(frozen=True, order=True)
class ColumnSizes:
    """A kernel over columns: a digest, what else is kept, rows that are folded, and columns."""

    kernel: int
    batch: int
    rows: int
    columns: int
    threads: int = 1


@dataclass(frozen=True, order=True)
class CellSizes:
    """A kernel of single cells: a digest, rows, and cells of a row."""

    kernel: int
    rows: int
    length: int
    threads: int = 1


LoopConfiguration = RowConfiguration | ColumnConfiguration | CellConfiguration
LoopSizes = RowSizes | ColumnSizes | CellSizes


ChosenLoops = Chosen[LoopConfiguration, LoopSizes]
