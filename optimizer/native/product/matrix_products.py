"""Products with a constant matrix as kernels, with what is elementwise behind them.

The matrix is laid out in advance, as the kernel reads it (product.h): so nothing is packed when a
session opens, and what comes next is fetched while a panel is multiplied. A bias, an activation, a
gate, a residual are computed on each panel before it leaves the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ..configurations.product_configuration import ChosenProduct, specialised
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    flushes,
    label_of,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Extent, axis_by_axis
from ..loops.elementwise_chain import ElementwiseChain
from ..loops.kernel_region import Laying, Meanings, needed_outside
from ..regions.region_candidates import Matrix, candidates
from .panels import PANEL, Likeness, Panels, fits_half
from .product_text import EACH, FOUR_BITS, HALVES, SEVEN, TILES, FourBits, product_text

# Products and sums that are worth a task of their own.
GRAIN = 1 << 20
# Below these, seven products for eight gain nothing.
SEVEN_ROWS, SEVEN_COLUMNS, SEVEN_DEPTH = 192, 4 * PANEL, 128
# Rows and depth that fill matrix tiles.
TILES_ROWS = TILES_DEPTH = 32
# Forms beside EACH, by how much they round: tiles count very small numbers as zero.
RANKS = {HALVES: 0, TILES: 1, SEVEN: 2}
# What the forms of products are told of their work, and what they need.
ARRANGED = {
    EACH: "arrange_product",
    HALVES: "arrange_halves",
    FOUR_BITS: "arrange_halves",
    SEVEN: "arrange_seven",
    TILES: "arrange_tiles",
}
SUPPORT = {
    EACH: "product.h",
    HALVES: "elements.h product.h product_halves.h",
    FOUR_BITS: "product.h product_four_bits.h",
    SEVEN: "product.h product_seven.h",
    TILES: "product.h product_tiles.h",
}
# Nodes that are computed with a product, at most.
MOST_BEHIND = 24


@dataclass(frozen=True)
class Factor:
    """A constant matrix [depth, width] that rows are multiplied by, as a form of kernels reads it.

    `parts` are constants and how they are laid out, the matrix first; `bias` is what is added to
    each row, if something is; `without` are nodes that a kernel does without.
    """

    depth: Extent
    width: Extent
    parts: tuple[tuple[int, Laying], ...]
    bias: tuple[int, ...]
    without: frozenset[int]
    form: str
    four_bits: FourBits | None = None
    chosen: ChosenProduct | None = None


def products(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find products that one kernel computes with what follows, no two with a common node."""
    matrices = candidates(meanings).products

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        for behind in growths(meanings, number, free):
            yield partial(_lowered, meanings, number, matrices[number], behind)

    return disjoint_kernels(meanings.in_order(matrices), allowed, attempts)


def formed(
    meanings: Meanings, product_kernels: Iterable[RegionKernel], forms: Iterable[str]
) -> list[RegionKernel]:
    """Return kernels of other forms, of those in RANKS, for products that were found."""
    forms = tuple(forms)
    kernels: list[RegionKernel] = []
    for product_kernel in product_kernels:
        if product_kernel.kernel.form != EACH:
            continue
        product, matrix, behind = _product_of(meanings, product_kernel)
        for form in forms:
            try:
                kernels.append(_lowered(meanings, product, matrix, behind, form))
            except LoweringError:
                continue
    return kernels


def configured(
    meanings: Meanings, product_kernel: RegionKernel, chosen: ChosenProduct
) -> RegionKernel:
    """Return a product that was found, computed product by product, in another configuration."""
    product, matrix, behind = _product_of(meanings, product_kernel)
    return _lowered(meanings, product, matrix, behind, chosen=chosen)


def _product_of(
    meanings: Meanings, product_kernel: RegionKernel
) -> tuple[int, Matrix, frozenset[int]]:
    """Return the product in a region, its matrix, and the nodes behind it."""
    products = candidates(meanings).products
    product = next(number for number in product_kernel.region.nodes if number in products)
    matrix = products[product]
    return product, matrix, frozenset(product_kernel.region.nodes) - matrix.nodes - {product}


# ------------------------------------------------------------------------------------ choosing


def growths(meanings: Meanings, product: int, allowed: Collection[int]) -> list[frozenset[int]]:
    """Return what may be computed together with a product, most first, nothing at last.

    `product` is the node that gives its result. In each, one value alone is needed outside. What
    may be there at all is derived by finishing.dl; without some of it, without what reads that.
    """
    graph, following = meanings.graph, candidates(meanings).following(product)
    inside = {product}
    growing: list[frozenset[int]] = [frozenset()]
    for number in meanings.in_order(following):
        makers = {graph.producer.get(value) for value in graph.nodes[number].reads}
        if len(inside) > MOST_BEHIND:
            break
        if number in allowed and makers & following <= inside:
            inside.add(number)
            if len(needed_outside(graph, inside)) == 1:
                growing.append(frozenset(inside - {product}))
    return growing[::-1]


# ------------------------------------------------------------------------------------ lowering


def _lowered(
    meanings: Meanings,
    product: int,
    matrix: Matrix,
    behind: frozenset[int],
    form: str = EACH,
    chosen: ChosenProduct | None = None,
) -> RegionKernel:
    factor = _factor(meanings, product, matrix, form, chosen)
    return lower_product(meanings, product, factor, behind, named_by={product, *behind})


def _factor(
    meanings: Meanings, product: int, matrix: Matrix, form: str, chosen: ChosenProduct | None
) -> Factor:
    """Return the matrix as a form has it; raise LoweringError where that gains or means nothing."""
    weights_type, stored = (
        meanings.shape(meanings.graph.nodes[product].inputs[0]),
        meanings.shape(matrix.value),
    )
    depth, width = stored[::-1] if matrix.transposed else stored
    ways: list[Laying] = [
        Panels(matrix.transposed, width=PANEL if chosen is None else chosen.configuration.panel)
    ]
    if form == HALVES:
        if not fits_half(meanings.graph.constants[matrix.value].array()):
            raise LoweringError("a matrix that 16 bits don't hold")
        ways = [Panels(matrix.transposed, "float16")]
    if form == SEVEN:
        _check_seven(weights_type, int(width), int(depth))
        ways.append(Likeness(matrix.transposed))
    if form == TILES:
        _check_tiles(weights_type, int(depth))
    return Factor(
        depth,
        width,
        tuple((matrix.value, how) for how in ways),
        row_bias(meanings, product, width),
        matrix.nodes,
        form,
        chosen=chosen,
    )


def lower_product(
    meanings: Meanings,
    product: int,
    factor: Factor,
    behind: frozenset[int],
    *,
    named_by: Collection[int],
) -> RegionKernel:
    """Return the kernel of a product of rows with a factor, and of what is `behind` it.

    Its name says the operators of the nodes `named_by`.
    """
    graph, node = meanings.graph, meanings.graph.nodes[product]
    rows, out = node.inputs[0], node.outputs[0]
    rows_shape, result_shape = meanings.shape(rows), meanings.shape(out)
    if graph.dtype(rows) != "float32" or len(rows_shape) < 2 or rows_shape[-1] != factor.depth:
        raise LoweringError("no rows to multiply")
    if (*rows_shape[:-1], factor.width) != result_shape or 0 in result_shape:
        raise LoweringError("rows whose sizes aren't known")
    (output,) = needed_outside(graph, {product, *behind})
    if graph.dtype(output) != "float32":
        raise LoweringError("a result that is no float32")
    shape, chain = meanings.shape(output), meanings.in_order(behind)
    extents: tuple[Extent, ...] = (*shape[:-1], factor.width, factor.depth)
    after = None
    if chain:
        after = ElementwiseChain(meanings, chain, out, output, shape, result_shape)
    accesses = [] if after is None else after.loads
    laid = [meanings.laid_out(source, how) for source, how in factor.parts]
    inputs = tuple(
        dict.fromkeys(
            [rows, *(part.value for part in laid), *factor.bias, *(a.value for a in accesses)]
        )
    )
    shapes = shapes_of(
        meanings, inputs, extents, [(shape, axis_by_axis(len(shape)))], accesses=accesses
    )
    text = product_text(
        extents,
        accesses,
        inputs,
        inputs.index(factor.bias[0]) if factor.bias else None,
        after,
        factor.form,
        factor.four_bits,
    )
    arrange, columns = ARRANGED[factor.form], tuple[int, ...]()
    if factor.chosen is not None:
        text = specialised(text, factor.chosen)
        arrange, columns = "arrange_product_by", factor.chosen.configuration.arranged
    kernel = Kernel(
        label_of(meanings, meanings.in_order(named_by)),
        text,
        shapes,
        inputs,
        (output,),
        grain=GRAIN,
        arrange=arrange,
        columns=columns,
        support=SUPPORT[factor.form],
        flushes=flushes(meanings, chain),
        packed=tuple(laid),
        form=factor.form,
        configuration=factor.chosen,
    )
    nodes = meanings.in_order({product, *behind, *factor.without})
    return region_kernel(meanings, nodes, kernel, "product")


def _check_seven(rows: tuple[Extent, ...], width: int, depth: int) -> None:
    """Raise LoweringError where seven products for eight gain nothing."""
    if _fewer_rows(rows, SEVEN_ROWS):
        raise LoweringError("too few rows")
    if width < SEVEN_COLUMNS or depth < SEVEN_DEPTH or depth % 2:
        raise LoweringError("a matrix that isn't worth adding up")


def _check_tiles(rows: tuple[Extent, ...], depth: int) -> None:
    """Raise LoweringError where tiles would be hardly filled."""
    if _fewer_rows(rows, TILES_ROWS) or depth < TILES_DEPTH:
        raise LoweringError("too few rows, or too little depth")


def _fewer_rows(rows: tuple[Extent, ...], least: int) -> bool:
    """Tell whether there are fewer rows, as far as that is known."""
    known_sizes = [size for size in rows[:-1] if isinstance(size, int)]
    return len(known_sizes) == len(rows) - 1 and math.prod(known_sizes) < least


def row_bias(meanings: Meanings, product: int, width: Extent) -> tuple[int, ...]:
    """Return what a Gemm adds to each row, if it adds something."""
    graph = meanings.graph
    inputs = graph.nodes[product].inputs
    if len(inputs) < 3 or inputs[2] == ABSENT:
        return ()
    shape = meanings.shape(inputs[2])
    if shape[-1:] != (width,) or any(size != 1 for size in shape[:-1]):
        raise LoweringError("a Gemm that adds something else than a row")
    if graph.dtype(inputs[2]) != "float32":
        raise LoweringError("a Gemm of another type")
    return (inputs[2],)
