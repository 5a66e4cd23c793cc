"""The legal configurations of a product: derived by configurations.dl from sizes and processor."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from importlib import resources

from ....catalog.datalog.memory.execution import Evaluator
from ....catalog.datalog.memory.program_cache import shipped
from .processor import Processor
from .product_configuration import DEFAULTS, ProductConfiguration


@dataclass(frozen=True, order=True)
class ProductSizes:
    """A product [rows, depth] x [depth, columns] of float32, on so many threads."""

    rows: int
    depth: int
    columns: int
    threads: int = 1


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
