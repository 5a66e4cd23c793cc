"""How constants are laid out for kernels: the type of the result is told without laying it out."""

import numpy as np
import pytest
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.native.convolution.filters import Filters as BlockedFilters
from tensolog.optimizer.native.convolution.filters import Merged, Outer, Padded
from tensolog.optimizer.native.product.block_weights import BlockLayout, Layout
from tensolog.optimizer.native.product.panels import Likeness, Panels
from tensolog.optimizer.native.quantized.packing import (
    ApartFilters,
    Filters,
    FixedNumbers,
    NarrowFilters,
)

ZEROS = np.arange(70, dtype=np.int32).tobytes()
MERGED = Merged(groups=5, merged=2, block=8)
WEIGHTS = Layout(depth=40, width=70, size=16, by_column=True)
WAYS = {
    "panels": (Panels(False), "float32", (37, 100)),
    "panels of a transpose": (Panels(True, width=32), "float32", (100, 37)),
    "halves": (Panels(False, "float16"), "float32", (37, 48)),
    "which panels may be added up": (Likeness(False), "float32", (64, 100)),
    "4 bits": (BlockLayout("numbers", WEIGHTS, "int32"), "uint8", (70, 3, 8)),
    "scales of blocks": (BlockLayout("scales", WEIGHTS, "float32"), "float16", (210,)),
    "zero points of blocks": (BlockLayout("zeros", WEIGHTS, "int8"), "uint8", (70, 2)),
    "no zero points": (BlockLayout("from zero", WEIGHTS, "int8"), "float16", (70, 3)),
    "transformed filters": (BlockedFilters((3, 3), (2, 2), 8), "float32", (16, 8, 3, 3)),
    "transformed filters of groups": (
        BlockedFilters((1, 3), (1, 4), 8, 2),
        "float32",
        (32, 8, 1, 3),
    ),
    "merged groups": (MERGED, "float32", (20, 4, 3, 3)),
    "transformed filters of merged groups": (
        BlockedFilters((3, 3), (2, 2), 8, 3, MERGED),
        "float32",
        (20, 4, 3, 3),
    ),
    "filters of narrow groups": (Outer(8), "float32", (20, 4, 3, 3)),
    "numbers of channels": (Padded(24), "float32", (20,)),
    "integers": (Filters((1, 0), 1, ZEROS), "int8", (37, 70)),
    "integers, transposed": (Filters((0, 1), 1, ZEROS), "uint8", (70, 37)),
    "filters of integers": (Filters((0, 2, 3, 1), 3, ZEROS), "int8", (70, 5, 3, 3)),
    "filters of groups": (Filters((0, 2, 3, 1), 9, ZEROS, 2), "int8", (70, 5, 3, 3)),
    "filters of each channel": (ApartFilters((0, 2, 3, 1), 9, ZEROS), "int8", (70, 1, 3, 3)),
    "filters of narrow groups of integers": (
        NarrowFilters((0, 2, 3, 1), 9, ZEROS),
        "int8",
        (70, 3, 3, 3),
    ),
    "fixed numbers": (FixedNumbers.of(range(7), "numbers"), "int8", (3,)),
}


@pytest.mark.parametrize(("how", "dtype", "shape"), WAYS.values(), ids=WAYS)
def test_the_type_is_that_of_what_is_laid_out(how, dtype, shape):
    rng = np.random.default_rng(1)
    array = rng.integers(0, 100, shape).astype(dtype)
    laid_type, laid = how.type_of(TensorType(dtype, shape)), how.lay(array)
    assert (laid_type.dtype, laid_type.shape) == (laid.dtype.name, laid.shape)
    assert how.kind
