"""The legal configurations of kernels: derived by configurations.dl from sizes and processor."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from importlib import resources

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
from .product_configuration import DEFAULTS, ProductConfiguration


@dataclass(frozen=True, order=True)
class ProductSizes:
    """A product [rows, depth] x [depth, columns] of float32, on so many threads."""

    rows: int
    depth: int
    columns: int
    threads: int = 1


# Numbers that tiles of a convolution may take, and bytes of filters that are kept transformed.
BLOCKS, MOST_FILTERS = tuple(size << 10 for size in (16, 32, 64, 128, 192)), 40 << 20


@cache
def _program() -> Evaluator:
    return shipped(resources.files(__package__) / "configurations.dl")


def _facts(here: Processor) -> tuple[tuple[int, ...], ...]:
    return ((here.registers, here.lanes, here.first_cache_bytes, here.second_cache_bytes),)


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
    configurations = sorted(ProductConfiguration(*row) for row in derived["legal"])
    return (
        default,
        *(configuration for configuration in configurations if configuration != default),
    )


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
    return (
        default,
        *(configuration for configuration in configurations if configuration != default),
    )


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
    others = sorted(PairConfiguration(*row) for row in derived["legal_pair"])
    return (default, *(configuration for configuration in others if configuration != default))


@cache
def legal_attentions(sizes: AttentionSizes, here: Processor) -> tuple[AttentionConfiguration, ...]:
    """Return the legal configurations of an attention on a processor, the default first."""
    default = attention_configuration.DEFAULTS[here.level]
    block = sizes.default_block
    derived = _program()(
        {
            "processor": _facts(here),
            "attention": ((sizes.queries, sizes.keys),),
            "default_attention": ((default.tile_rows, block),),
        }
    )
    rows_of_attention = sorted(derived["legal_attention"])
    others = [
        AttentionConfiguration(*row)
        for row in rows_of_attention
        if row != (default.tile_rows, block)
    ]
    return (default, *others)


@cache
def legal_rows(sizes: RowSizes) -> tuple[RowConfiguration, ...]:
    """Return the legal configurations of a kernel over rows, the default first."""
    default = RowConfiguration()
    derived = _program()({"row": ((sizes.length,),), "default_row": (astuple(default),)})
    others = sorted(RowConfiguration(*row) for row in derived["legal_row"])
    return (default, *(configuration for configuration in others if configuration != default))


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
    others = sorted(ColumnConfiguration(*row) for row in derived["legal_column"])
    return (default, *(configuration for configuration in others if configuration != default))


@cache
def legal_cells(sizes: CellSizes) -> tuple[CellConfiguration, ...]:
    """Return the legal configurations of a kernel of single cells, the default first."""
    default = CellConfiguration()
    derived = _program()(
        {"cells": ((sizes.length, sizes.threads),), "default_cell": (astuple(default),)}
    )
    others = sorted(CellConfiguration(*row) for row in derived["legal_cell"])
    return (default, *(configuration for configuration in others if configuration != default))


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
    others = sorted(FusedConfiguration(*row) for row in derived["legal_fused"])
    return (default, *(configuration for configuration in others if configuration != default))
