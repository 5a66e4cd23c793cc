"""The configuration of an attention's kernel: what may be chosen, and the constants it becomes.

`tile_rows` is a constant of attention.h, `block` what arrange_attention_by is told. Defaults are
those of the levels; a configuration belongs to the level that it was measured on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .chosen import Chosen, by_level

# A kernel's own functions and macros of attention.h.
_NAMES = re.compile(r"\b(attention|ATTENTION)_(\w+)")


@dataclass(frozen=True, order=True)
class AttentionConfiguration:
    """How an attention's loops are tiled; the defaults are those of AVX-512.

    tile_rows  queries of a tile, by two vectors of keys, whose sums stay in registers
    block      queries whose scores are computed together; 0: by the number of keys
    """

    tile_rows: int = 12
    block: int = 0

    @property
    def description(self) -> str:
        """Say it for people."""
        block = f", {self.block} queries at once" if self.block else ""
        return f"tiles of {self.tile_rows} queries{block}"


@dataclass(frozen=True, order=True)
class AttentionSizes:
    """An attention on so many threads: its heads in all, queries, keys, depth and width."""

    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    threads: int = 1

    @property
    def default_block(self) -> int:
        """The queries of a block where none are chosen, as arrange_attention has them."""
        return 12 if self.keys > 4096 else 24 if self.keys > 1024 else 48


DEFAULTS: Mapping[str, AttentionConfiguration] = {
    "avx512": AttentionConfiguration(),
    "avx2": AttentionConfiguration(6),
    "plain": AttentionConfiguration(6),
}


ChosenAttention = Chosen[AttentionConfiguration, AttentionSizes]


def specialised(text: str, chosen: ChosenAttention) -> str:
    """Give names of C of their own to what depends on a configuration."""
    return _NAMES.sub(rf"\1_\2_{chosen.level}_{chosen.configuration.tile_rows}", text)


def constants(chosen: ChosenAttention | None = None) -> str:
    """Return the constants of attention.h, those of each level where that is compiled."""
    levels = DEFAULTS if chosen is None else {**DEFAULTS, chosen.level: chosen.configuration}
    text = by_level(
        {
            level: f"#define ATTENTION_ROWS {configuration.tile_rows}"
            for level, configuration in levels.items()
        }
    )
    return text if chosen is None else specialised(text, chosen)
