"""The configuration of a convolution by minimal filtering: what may be chosen freely.

Its fields are of the kernel's own text (convolution/winograd_text.py); the sizes of tiles are forms
of it, which round differently and race beside each other anyhow.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..convolution.winograd_text import PANEL
from .chosen import Chosen

# Tiles that are multiplied at once at least: below, what a kernel's sums wait for isn't hidden.
LEAST_TOGETHER = 28


@dataclass(frozen=True, order=True)
class ConvolutionConfiguration:
    """How the work of a convolution by minimal filtering is divided.

    block       float32 numbers that the transformed tiles may take which are multiplied at once
    prepared    1 where filters are transformed before the model runs, 0 where the kernel does it,
                piece by piece; None: in advance where there are many tiles, or filters fit a cache
    fetch_next  1 where the filters of the next product are fetched during one
    run         parts that the tiles of an image are shared by, at least: threads transform the
                tiles of a part each for themselves
    loop_order  1 where all channels of a tile are transformed before the next tile, 0 where all
                tiles of a block of channels are
    """

    block: int = 64 << 10
    prepared: int | None = None
    fetch_next: int = 1
    run: int = 1
    loop_order: int = 0

    @property
    def description(self) -> str:
        """Say it for people."""
        texts = [f"tiles of {self.block >> 10} Ki at once"]
        if self.prepared is not None:
            texts.append("filters transformed " + ("in advance" if self.prepared else "as it runs"))
        texts += ["next filters not fetched"] * (not self.fetch_next)
        texts += [f"{self.run} parts at least"] * (self.run > 1)
        texts += ["tiles transformed one by one"] * bool(self.loop_order)
        return ", ".join(texts)


@dataclass(frozen=True, order=True)
class ConvolutionSizes:
    """A convolution by minimal filtering, on so many threads.

    `depth` and `width` are the channels read and made, `group_depth` those that each of them is
    made of; `height` and `across` the sizes of the result, that of filters and tiles in rows and
    columns.
    """

    images: int
    depth: int
    width: int
    group_depth: int
    height: int
    across: int
    taps_high: int
    taps_wide: int
    tile_high: int
    tile_wide: int
    threads: int = 1

    @property
    def products(self) -> int:
        """The products of a tile."""
        high = self.tile_high + self.taps_high - 1
        return high * (self.tile_wide + self.taps_wide - 1)

    @property
    def tiles(self) -> int:
        """The tiles of an image."""
        return -(-self.height // self.tile_high) * -(-self.across // self.tile_wide)

    def together(self, block: int, run: int = 1) -> int:
        """Return how many tiles are multiplied at once where so many numbers may lie.

        `run` is that of a configuration.
        """
        most = max(LEAST_TOGETHER, block // (self.products * self.depth))
        places = max(-(-self.tiles // most), min(run, self.tiles))
        return -(-self.tiles // places)

    @property
    def filter_bytes(self) -> int:
        """What filters take that were transformed in advance."""
        groups = self.depth // self.group_depth
        panels = -(-self.width // groups // PANEL) * groups
        return 4 * self.products * self.group_depth * panels * PANEL


ChosenConvolution = Chosen[ConvolutionConfiguration, ConvolutionSizes]
