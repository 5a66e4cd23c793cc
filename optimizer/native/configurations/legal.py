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
from .processor import Processor
from .product_configuration import DEFAULTS, ProductConfiguration
from .row_configuration import RowConfiguration, RowSizes


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


@cache
def legal(sizes: ProductSizes, here: Processor) -> tuple[ProductConfiguration, ...]:
    """Return the legal configurations of a product on a processor, the default first."""
    default = DEFAULTS[here.level]
    derived = _program()(
        {
            "processor": (
                (here.registers, here.lanes, here.first_cache_bytes, here.second_cache_bytes),
            ),
            "product": ((sizes.rows, sizes.depth, sizes.columns, sizes.threads),),
            "default": (astuple(default),),
        }
    )
    found = sorted(ProductConfiguration(*row) for row in derived["legal"])
    return (default, *(one for one in found if one != default))


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
            "processor": (
                (here.registers, here.lanes, here.first_cache_bytes, here.second_cache_bytes),
            ),
            "holds": tuple((block, sizes.together(block)) for block in BLOCKS),
            "default_convolution": ((default.block, int(prepared)),),
            "filters": ((sizes.filter_bytes, MOST_FILTERS),),
        }
    )
    found = sorted(row for row in derived["legal_convolution"] if row != (default.block, prepared))
    others = [
        ConvolutionConfiguration(block, None if way == prepared else way) for block, way in found
    ]
    return (default, *others)


@cache
def legal_attentions(sizes: AttentionSizes, here: Processor) -> tuple[AttentionConfiguration, ...]:
    """Return the legal configurations of an attention on a processor, the default first."""
    default = attention_configuration.DEFAULTS[here.level]
    block = sizes.default_block
    derived = _program()(
        {
            "processor": (
                (here.registers, here.lanes, here.first_cache_bytes, here.second_cache_bytes),
            ),
            "attention": ((sizes.queries, sizes.keys),),
            "default_attention": ((default.tile_rows, block),),
        }
    )
    found = sorted(derived["legal_attention"])
    others = [AttentionConfiguration(*row) for row in found if row != (default.tile_rows, block)]
    return (default, *others)


@cache
def legal_rows(sizes: RowSizes) -> tuple[RowConfiguration, ...]:
    """Return the legal configurations of a kernel over rows, the default first."""
    default = RowConfiguration()
    derived = _program()({"row": ((sizes.length,),), "default_row": (astuple(default),)})
    others = sorted(RowConfiguration(*row) for row in derived["legal_row"])
    return (default, *(one for one in others if one != default))
