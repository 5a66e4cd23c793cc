"""Kernels of products with weights of 4 bits, with what is elementwise behind them.

The weights stay as they are, eight in a word, and become float32 where they are multiplied
(product_four_bits.h): so a single row, as a decoder has it, takes as long as reading them.
Activations stay float32 at any `accuracy_level`: it allows a runtime to round them to less.
"""

from __future__ import annotations

from collections.abc import Collection

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import TensorType
from ..attention.text import Between
from ..grow import RegionKernel
from ..loops.affine import Extent, axis_by_axis
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.lower import (
    MOST_AXES,
    MOST_LOOPS,
    MOST_OPERANDS,
    Kernel,
    flushes,
    label,
    named,
    shapes_of,
)
from ..regions.region_candidates import candidates
from .block_weights import BlockWeights, Laid, block_weights, laid_parts
from .kernel import GRAIN, growths, needed, row_bias
from .text import FOUR_BITS, FourBits, product_text


def four_bit_products(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find such products that one kernel computes with what follows, no two with a common node."""
    region_kernels: list[RegionKernel] = []
    free = set(allowed)
    derived = candidates(meanings)
    for number in sorted(derived.block_products, key=derived.position.__getitem__):
        if number not in free:
            continue
        candidate = derived.block_products[number]
        try:
            weights = block_weights(meanings.graph, number, candidate)
        except LoweringError:
            continue
        for behind in growths(meanings, number, free):
            try:
                region_kernel = _lowered(meanings, number, weights, behind, candidate.nodes)
            except LoweringError:
                continue
            free -= set(region_kernel.region.nodes)
            region_kernels.append(region_kernel)
            break
    return region_kernels


def _lowered(
    meanings: Meanings,
    product: int,
    weights: BlockWeights,
    behind: frozenset[int],
    without: frozenset[int],
) -> RegionKernel:
    """Return the kernel of a product and what is `behind` it, which does `without` some nodes."""
    graph, position = meanings.graph, candidates(meanings).position
    node = graph.nodes[product]
    rows, out = node.inputs[0], node.outputs[0]
    given, result_shape = meanings.shape(rows), meanings.shape(out)
    depth, width = weights.layout.depth, weights.layout.width
    if graph.dtype(rows) != "float32" or len(given) < 2 or given[-1] != depth:
        raise LoweringError("no rows to multiply")
    if (*given[:-1], width) != result_shape or 0 in result_shape:
        raise LoweringError("rows whose sizes aren't known")
    inside = {product, *behind}
    (output,) = needed(graph, inside)
    if graph.dtype(output) != "float32":
        raise LoweringError("a result that is no float32")
    shape = meanings.shape(output)
    chain = tuple(sorted(behind, key=position.__getitem__))
    extents: tuple[Extent, ...] = (*shape[:-1], width, depth)
    if len(extents) > MOST_LOOPS or max(len(shape), len(given)) > MOST_AXES:
        raise LoweringError("too many axes")
    after = Between(meanings, chain, out, output, shape, result_shape) if chain else None
    accesses = [] if after is None else after.loads
    bias = _bias(meanings, product, width)
    parts = laid_parts(weights)
    operands = {name: _laid_out(meanings, source, how) for name, (source, how) in parts.items()}
    inputs = tuple(
        dict.fromkeys([rows, *operands.values(), *bias, *(access.value for access in accesses)])
    )
    if len(inputs) > MOST_OPERANDS:
        raise LoweringError("too many operands")
    outputs = ((shape, axis_by_axis(len(shape))),)
    shapes = shapes_of(meanings, inputs, extents, outputs, accesses=accesses)
    nodes = tuple(sorted(inside | without, key=position.__getitem__))
    added = inputs.index(bias[0]) if bias else None
    told = FourBits(
        weights.layout.size,
        inputs.index(operands["scales"]),
        inputs.index(operands["zeros"]) if "zeros" in operands else None,
    )
    kernel = Kernel(
        "",
        label([graph.nodes[n].op_type for n in nodes]),
        product_text(extents, accesses, inputs, added, after, FOUR_BITS, told),
        shapes,
        inputs,
        (output,),
        grain=GRAIN,
        arrange="arrange_halves",
        support="product.h product_four_bits.h",
        flushes=flushes(meanings, chain),
        packed=tuple((operands[name], source, how) for name, (source, how) in parts.items()),
        form=FOUR_BITS,
    )
    region = Region(nodes, read_by(graph, nodes), (output,), shape, sort="product")
    return RegionKernel(region, named(kernel))


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


def _laid_out(meanings: Meanings, source: int, how: Laid) -> int:
    """Return the value that a part of weights is when it is laid out."""
    key = (source, how)
    if key not in meanings.packed:
        name = f"{meanings.graph.names[source]}.{how.part.replace(' ', '_')}"
        type_ = TensorType(how.dtype, how.shape)
        meanings.packed[key] = meanings.graph.new_value(name, type_)
    return meanings.packed[key]
