"""What a product comes to in a configuration: numbers in which kernels that behave alike are close.

They are counted from the loops of product.h: how full tiles and panels are, what lies in which
cache, and about how many cycles the processor takes, of which those of a tile are bound by one of
its units. A core that starts two fused multiply-adds and two loads a cycle is assumed, of four
cycles each: what counts is how configurations differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache

from .processor import Processor
from .product_configuration import ProductConfiguration, ProductSizes

# Instructions that are started in a cycle, those of a round besides, and cycles of a sum.
_ISSUED, _LOOP, _LATENCY = 7, 3, 4.0
# Bytes that the second cache gives in a cycle.
_SECOND_CACHE_RATE = 48
# What a sum's way from memory and back costs, in cycles.
_SUM_CYCLES = 2


@cache
def features(
    sizes: ProductSizes, configuration: ProductConfiguration, here: Processor
) -> Mapping[str, float]:
    """Return the features of a product in a configuration, by name."""
    panels = -(-sizes.columns // configuration.panel)
    last_panel = sizes.columns - (panels - 1) * configuration.panel
    tiles = -(-sizes.rows // configuration.tile_rows)
    last_tile = sizes.rows - (tiles - 1) * configuration.tile_rows
    tall = min(configuration.tile_rows, sizes.rows)
    if configuration.even:
        tall = last_tile = -(-sizes.rows // tiles)
    full = sizes.rows / (tiles * configuration.tile_rows)
    strip = configuration.tile_vectors * here.lanes
    depth = min(configuration.depth, sizes.depth)
    pieces = -(-sizes.depth // configuration.depth)
    covered = -(-sizes.columns // here.lanes) * here.lanes
    second = here.second_cache_bytes
    block = min(block_rows(sizes, configuration), sizes.rows)
    return {
        "log rows": math.log2(sizes.rows),
        "log depth": math.log2(sizes.depth),
        "log columns": math.log2(sizes.columns),
        "log block in second cache": math.log2(4 * block * sizes.depth / second),
        "log piece in second cache": math.log2(4 * depth * configuration.panel / second),
        "log matrix in second cache": math.log2(4 * sizes.depth * sizes.columns / second),
        "log rows of a tile in first cache": math.log2(4 * tall * depth / here.first_cache_bytes),
        "log strip in first cache": math.log2(4 * strip * depth / here.first_cache_bytes),
        "single panel": float(panels == 1),
        "share of the last panel": last_panel / configuration.panel,
        "log height": math.log2(min(configuration.tile_rows, sizes.rows)),
        "share of the tiles": full,
        "share of many tiles": full / max(1.0, tiles / 4),
        "pieces": float(pieces),
        "log pieces": math.log2(pieces),
        # Sums that are added to at a time: each waits for itself, so that few of them are slow.
        "waiting": max(0.0, math.log2(10 / (last_tile * configuration.tile_vectors))) / tiles,
        "log sums of a tile": math.log2(tall * configuration.tile_vectors),
        "share of the vectors": sizes.columns / covered,
        "narrow strips": sizes.columns % configuration.panel % strip / sizes.columns,
        "log panel": math.log2(configuration.panel / here.lanes),
        "piece in second cache": 4 * depth * configuration.panel / second,
        "block in second cache": 4 * min(configuration.block, sizes.rows * sizes.depth) / second,
        "in parts": float(configuration.part > 0),
        "fetched in advance": float(configuration.distance > 0),
        **{name: float(value) for name, value in asdict(configuration).items()},
        **costs(sizes, configuration, here),
    }


def block_rows(sizes: ProductSizes, configuration: ProductConfiguration) -> int:
    """Return the rows of a block, as arrange_product_by has them (operators.h)."""
    most = max(configuration.block // sizes.depth, min(sizes.rows, 192))
    blocks = -(-sizes.rows // most)
    share = -(-sizes.rows // blocks)
    tiles = -(-share // configuration.tile_rows)
    return tiles * configuration.tile_rows


def costs(
    sizes: ProductSizes, configuration: ProductConfiguration, here: Processor
) -> dict[str, float]:
    """Return logarithms of what a product costs: cycles, sums moved, bytes from each cache."""
    panels = -(-sizes.columns // configuration.panel)
    last = sizes.columns - (panels - 1) * configuration.panel
    block = block_rows(sizes, configuration)
    whole_blocks, rest = divmod(sizes.rows, block)
    computed = moved = read = 0.0
    for rows, times in ((block, whole_blocks), (rest, int(rest > 0))):
        for columns, wide in ((configuration.panel, panels - 1), (last, 1)):
            if times * wide:
                per_panel = _panel(rows, columns, sizes.depth, configuration, here)
                computed, moved, read = (
                    total + times * wide * panel_cost
                    for total, panel_cost in zip((computed, moved, read), per_panel, strict=True)
                )
    fetched = 4.0 * sizes.depth * panels * configuration.panel * (whole_blocks + (rest > 0))
    cycles = computed + _SUM_CYCLES * moved
    return {
        "log cycles": math.log(cycles),
        "log cycles of tiles": math.log(computed),
        "log sums moved": math.log(moved),
        "log bytes of tiles": math.log(read),
        "log bytes of panels": math.log(fetched),
        "log cycles or bytes": math.log(max(cycles, read / _SECOND_CACHE_RATE)),
    }


# Of the features, those that time is about proportional to.
COSTS = (
    "log cycles",
    "log cycles of tiles",
    "log sums moved",
    "log bytes of tiles",
    "log bytes of panels",
    "log cycles or bytes",
)


def _panel(
    rows: int, columns: int, depth: int, configuration: ProductConfiguration, here: Processor
) -> tuple[float, float, float]:
    """Return cycles, vectors of sums moved and bytes read for rows times a panel's columns."""
    pieces = -(-depth // configuration.depth)
    if configuration.few and rows <= 2 and columns > configuration.panel / 2:
        vectors = configuration.panel // here.lanes
        cycles = max(rows * vectors / 2, (rows + vectors) / 2, _LATENCY) * depth
        return cycles, rows * vectors * pieces, 4.0 * vectors * here.lanes * depth
    computed = moved = read = 0.0
    for start in range(0, columns, configuration.tile_vectors * here.lanes):
        vectors = min(configuration.tile_vectors, -(-(columns - start) // here.lanes))
        heights = _heights(rows, configuration, vectors == configuration.tile_vectors)
        computed += depth * sum(
            count * _tile(height, vectors, configuration) for height, count in heights
        )
        moved += rows * vectors * pieces
        read += 4.0 * sum(count for _, count in heights) * vectors * here.lanes * depth
    return computed, moved, read


def _heights(rows: int, configuration: ProductConfiguration, whole: bool) -> list[tuple[int, int]]:
    """Return the heights of the tiles that rows are divided into, each with how many there are.

    Beside a strip that is not whole what is left over is computed a row at a time.
    """
    tiles, rest = divmod(rows, configuration.tile_rows)
    if not whole:
        return [(configuration.tile_rows, tiles), (1, rest)]
    if not configuration.even:
        return [(configuration.tile_rows, tiles), (max(rest, 1), int(rest > 0))]
    tiles += rest > 0
    low, higher = divmod(rows, tiles)
    return [(low + 1, higher), (max(low, 1), tiles - higher)]


def _tile(rows: int, vectors: int, configuration: ProductConfiguration) -> float:
    """Return the cycles of a step of a tile: its sums, loads, instructions, or what they wait."""
    fetched = configuration.fetch_next + (configuration.distance > 0) * vectors
    loads = rows + vectors
    instructions = rows * vectors + loads + _LOOP + fetched + configuration.fetch_next
    return max(rows * vectors / 2, (loads + fetched) / 2, instructions / _ISSUED, _LATENCY)
