"""The configuration of a product's kernel: what may be chosen freely, and the constants it becomes.

Each field is a constant of the kernel's text (product.h, and what arrange_product_by is told). The
defaults of the levels are what kernels have where nothing was measured. A configuration belongs to
the level of the processor that it was measured on; on others the same kernel has their defaults,
but for the width of panels, in which the matrix lies in the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from .chosen import Chosen, by_level

# A kernel's own functions and macros of product.h; what is shared stays as it is.
_NAMES = re.compile(r"\b(product|PRODUCT)_(?!READ\b)(\w+)")


@dataclass(frozen=True, order=True)
class ProductConfiguration:
    """How a product's loops are tiled; the defaults are those of AVX-512.

    tile_rows     rows of a tile, whose sums stay in registers
    tile_vectors  vectors of columns of a tile
    panel         columns of a panel of the matrix, as it lies in memory
    depth         steps of the depth of a piece of a panel, which stays in a cache
    block         float32 numbers of a block of rows, which a task multiplies by several panels
    part          those of a part of it, multiplied by all these panels before the next part: 0 for
                  the block as a whole
    even          1 where the tiles of a block are of much the same height
    few           1 where one or two rows pass a whole panel, line after line
    unroll        steps of the depth in a round of the innermost loop
    distance      rows of the panel that are fetched in advance, 0 for none
    fetch_next    1 where the next piece is fetched while this one is multiplied
    run           panels that a task has, at least
    """

    tile_rows: int = 8
    tile_vectors: int = 3
    panel: int = 48
    depth: int = 512
    block: int = 192 << 10
    part: int = 0
    even: int = 0
    few: int = 0
    unroll: int = 1
    distance: int = 0
    fetch_next: int = 1
    run: int = 4

    def constants(self) -> str:
        """Return the macros of one level that product.h needs in front of it."""
        numbers = {
            "ROWS": self.tile_rows,
            "VECTORS": self.tile_vectors,
            "DEPTH": self.depth,
            "PART": self.part,
            "EVEN": self.even,
            "FEW": self.few,
            "UNROLL": self.unroll,
            "DISTANCE": self.distance,
            "FETCH_NEXT": self.fetch_next,
        }
        return "\n".join(f"#define PRODUCT_{name} {value}" for name, value in numbers.items())

    @property
    def arranged(self) -> tuple[int, ...]:
        """What arrange_product_by is told, behind the grain."""
        return (self.panel, self.block, self.tile_rows, self.run)

    @property
    def description(self) -> str:
        """Say it for people."""
        texts = [
            f"tiles of {self.tile_rows} rows by {self.tile_vectors} vectors",
            f"panels of {self.panel}",
            f"{self.depth} deep",
            f"blocks of {self.block >> 10} Ki",
        ]
        texts += [f"parts of {self.part >> 10} Ki"] * bool(self.part)
        texts += ["even tiles"] * bool(self.even)
        texts += ["few rows by lines"] * bool(self.few)
        texts += [f"unrolled {self.unroll} times"] * (self.unroll > 1)
        texts += [f"fetched {self.distance} rows ahead"] * bool(self.distance)
        texts += ["next piece not fetched"] * (not self.fetch_next)
        texts += [f"{self.run} panels a task"] * (self.run != 4)
        return ", ".join(texts)


# What kernels have where nothing was measured. Of 16 registers, 4 rows of 3 vectors use all as
# well, but 6 of 2 take whole lines of a panel, of which 256 rows stay in the first cache.
DEFAULTS: Mapping[str, ProductConfiguration] = {
    "avx512": ProductConfiguration(),
    "avx2": ProductConfiguration(6, 2, depth=256, part=64 << 10, even=1, few=1),
    "plain": ProductConfiguration(4, 3),
}


@dataclass(frozen=True, order=True)
class ProductSizes:
    """A product [rows, depth] x [depth, columns] of float32, on so many threads."""

    rows: int
    depth: int
    columns: int
    threads: int = 1


ChosenProduct = Chosen[ProductConfiguration, ProductSizes]


def specialised(text: str, chosen: ChosenProduct) -> str:
    """Give names of C of their own to what depends on a configuration."""
    suffix = "_".join([chosen.level, *map(str, astuple(chosen.configuration))])
    return _NAMES.sub(rf"\1_\2_{suffix}", text)


def constants(chosen: ChosenProduct | None = None) -> str:
    """Return the constants of product.h, those of each level where that is compiled.

    Where one was chosen, panels are as wide on all levels: the matrix lies in the model.
    """
    if chosen is None:
        return by_level({level: default.constants() for level, default in DEFAULTS.items()})
    panel = chosen.configuration.panel
    few = int(panel == DEFAULTS["avx2"].panel)  # else a row of a panel is no longer in registers
    levels = {
        level: replace(default, panel=panel, few=default.few * few)
        for level, default in DEFAULTS.items()
    }
    levels[chosen.level] = chosen.configuration
    text = by_level({level: configuration.constants() for level, configuration in levels.items()})
    width = f"#undef PRODUCT_PANEL\n#define PRODUCT_PANEL {panel}"
    return specialised(f"{width}\n{text}", chosen)
