"""Kernels of products with weights of 4 bits, with what is elementwise behind them.

The weights stay as they are, eight in a word, and become float32 where they are multiplied
(product_four_bits.h): so a single row, as a decoder has it, takes as long as reading them.
Activations stay float32 at any `accuracy_level`: it allows a runtime to round them to less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ..kernel import RegionKernel, disjoint_kernels
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import candidates
from .block_weights import BlockWeights, block_weights, laid_parts
from .matrix_products import Factor, growths, lower_product, row_bias
from .product_text import FOUR_BITS, FourBits


def four_bit_products(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find such products that one kernel computes with what follows, no two with a common node."""
    by_node = candidates(meanings).block_products

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        weights = block_weights(meanings.graph, number, by_node[number])
        for behind in growths(meanings, number, free):
            yield partial(_lowered, meanings, number, weights, behind, by_node[number].nodes)

    return disjoint_kernels(meanings.in_order(by_node), allowed, attempts)


def _lowered(
    meanings: Meanings,
    product: int,
    weights: BlockWeights,
    behind: frozenset[int],
    without: frozenset[int],
) -> RegionKernel:
    """Return the kernel of a product and what is `behind` it, which does `without` some nodes."""
    depth, width = weights.layout.depth, weights.layout.width
    parts = laid_parts(weights)
    factor = Factor(
        depth,
        width,
        tuple(parts),
        _bias(meanings, product, width),
        without,
        FOUR_BITS,
        four_bits=FourBits(weights.layout.size, len(parts) > 2),
    )
    return lower_product(meanings, product, factor, behind, named_by={product, *behind, *without})


def _bias(meanings: Meanings, product: int, width: int) -> tuple[int, ...]:
    """Return what is added to each row, if something is."""
    graph = meanings.graph
    if graph.nodes[product].op_type != "MatMulNBits":
        return row_bias(meanings, product, width)
    bias = graph.nodes[product].inputs[5:6]
    if not bias or bias[0] == ABSENT:
        return ()
    if meanings.shape(bias[0]) != (width,) or graph.dtype(bias[0]) != "float32":
        raise LoweringError("a bias of another shape or type")
    return bias
