"""The legal configurations of kernels: derived by configurations.dl from sizes and processor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from functools import cache
from importlib import resources
from itertools import starmap
from typing import Any

from ....catalog.datalog.memory.execution import Evaluator
from ....catalog.datalog.memory.program_cache import shipped
from . import attention_configuration
from .attention_configuration import AttentionConfiguration, AttentionSizes
from .convolution_configuration import ConvolutionConfiguration, ConvolutionSizes
from .fused_configuration import FusedConfiguration, FusedSizes
from .loop_configuration import (
    CellConfiguration,
    CellSizes,
    ColumnConfiguration,
    ColumnSizes,
    RowConfiguration,
    RowSizes,
)
from .pair_configuration import PairConfiguration, PairSizes
from .processor import Processor
from .product_configuration import DEFAULTS, ProductConfiguration, ProductSizes

# Numbers that tiles of a convolution may take, and bytes of filters that are kept transformed.
BLOCKS, MOST_FILTERS = tuple(size << 10 for size in (16, 32, 64, 128, 192)), 40 << 20


@cache
def _program() -> Evaluator:
    return shipped(resources.files(__package__) / "configurations.dl")


def _facts(here: Processor) -> tuple[tuple[int, ...], ...]:
    return ((here.registers, here.lanes, here.first_cache_bytes, here.second_cache_bytes),)


def _default_first(default: Any, configurations: Iterable[Any]) -> tuple[Any, ...]:
    """Return configurations in order behind the default, which may be among them."""
    return (default, *sorted(other for other in configurations if other != default))


@cache
def legal(sizes: ProductSizes, here: Processor) -> tuple[ProductConfiguration, ...]:
    """Return the legal configurations of a product on a processor, the default first."""
    default = DEFAULTS[here.level]
    derived = _program()(
        {
            "processor": _facts(here),
            "product": ((sizes.rows, sizes.depth, sizes.columns, sizes.threads),),
            "default": (astuple(default),),
        }
    )
    return _default_first(default, starmap(ProductConfiguration, derived["legal"]))


@cache
def legal_convolutions(
    sizes: ConvolutionSizes, here: Processor, prepared: bool
) -> tuple[ConvolutionConfiguration, ...]:
    """Return the legal configurations of a convolution on a processor, the default first.

    `prepared` says whether its filters are transformed in advance by default.
    """
    default = ConvolutionConfiguration()
    derived = _program()(
        {
            "processor": _facts(here),
            "holds": tuple(
                (block, run, sizes.together(block, run))
                for block in BLOCKS
                for run in {1, sizes.threads}
            ),
            "default_convolution": ((default.block, int(prepared)),),
            "filters": ((sizes.filter_bytes, MOST_FILTERS, sizes.threads),),
        }
    )
    configurations = [
        ConvolutionConfiguration(block, None if way == prepared else way, *rest)
        for block, way, *rest in sorted(derived["legal_convolution"])
    ]
    return (default, *(other for other in configurations if other != default))


# Numbers between two convolutions that are held, and units of work that there are at least.
PAIR_BLOCKS, PAIR_RUNS = tuple(size << 10 for size in (8, 16, 32, 64, 128)), (1, 6, 12)


@cache
def legal_pairs(sizes: PairSizes, here: Processor) -> tuple[PairConfiguration, ...]:
    """Return the legal configurations of a pair of convolutions, the default first."""
    default = PairConfiguration()
    derived = _program()(
        {
            "processor": _facts(here),
            "divided": tuple(
                (block, run, *sizes.divided(PairConfiguration(block, run)))
                for block in PAIR_BLOCKS
                for run in PAIR_RUNS
            ),
            "pair": ((sizes.lines, sizes.panels, sizes.threads),),
            "default_pair": ((default.block, default.run),),
        }
    )
    return _default_first(default, starmap(PairConfiguration, derived["legal_pair"]))


@cache
def legal_attentions(sizes: AttentionSizes, here: Processor) -> tuple[AttentionConfiguration, ...]:
    """Return the legal configurations of an attention on a processor, the default first."""
    default = attention_configuration.DEFAULTS[here.level]
    default_tiles = (default.tile_rows, sizes.default_block)
    derived = _program()(
        {
            "processor": _facts(here),
            "attention": ((sizes.queries, sizes.keys),),
            "default_attention": (default_tiles,),
        }
    )
    others = (row for row in derived["legal_attention"] if row != default_tiles)
    return _default_first(default, starmap(AttentionConfiguration, others))


@cache
def legal_rows(sizes: RowSizes) -> tuple[RowConfiguration, ...]:
    """Return the legal configurations of a kernel over rows, the default first."""
    default = RowConfiguration()
    derived = _program()({"row": ((sizes.length,),), "default_row": (astuple(default),)})
    return _default_first(default, starmap(RowConfiguration, derived["legal_row"]))


@cache
def legal_columns(sizes: ColumnSizes, here: Processor) -> tuple[ColumnConfiguration, ...]:
    """Return the legal configurations of a kernel over columns, the default first."""
    default = ColumnConfiguration()
    derived = _program()(
        {
            "processor": _facts(here),
            "folded": ((sizes.rows, sizes.columns),),
            "default_column": (astuple(default),),
        }
    )
    return _default_first(default, starmap(ColumnConfiguration, derived["legal_column"]))


@cache
def legal_cells(sizes: CellSizes) -> tuple[CellConfiguration, ...]:
    """Return the legal configurations of a kernel of single cells, the default first."""
    default = CellConfiguration()
    derived = _program()(
        {"cells": ((sizes.length, sizes.threads),), "default_cell": (astuple(default),)}
    )
    return _default_first(default, starmap(CellConfiguration, derived["legal_cell"]))


# Numbers of a block of rows of a fused program.
FUSED_BLOCKS = (128, 256, 1024, 2048, 4096)


@cache
def legal_fused(sizes: FusedSizes, default: FusedConfiguration) -> tuple[FusedConfiguration, ...]:
    """Return the legal configurations of a fused program's kernel, the default first."""
    derived = _program()(
        {
            "fused": (astuple(sizes),),
            "default_fused": (astuple(default),),
            "fours": tuple(
                (block, block // max(1, sizes.width) // 4)
                for block in (*FUSED_BLOCKS, default.block)
            ),
        }
    )
    return _default_first(default, starmap(FusedConfiguration, derived["legal_fused"]))
