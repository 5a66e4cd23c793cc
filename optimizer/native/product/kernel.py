"""Products with a constant matrix as kernels, with what is elementwise behind them.

The matrix is laid out in advance, as the kernel reads it (product.h): so nothing is packed when a
session opens, and what comes next is fetched while a panel is multiplied. A bias, an activation, a
gate, a residual are computed on each panel before it leaves the cache.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, TensorType
from ..attention.text import Between
from ..configurations.product_configuration import Chosen, ProductConfiguration
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
from ..regions.region_candidates import Matrix, candidates
from .panels import PANEL, Likeness, Panels, fits_half, pairs_of
from .text import EACH, HALVES, SEVEN, TILES, product_text

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
    SEVEN: "arrange_seven",
    TILES: "arrange_tiles",
}
SUPPORT = {
    EACH: "product.h",
    HALVES: "elements.h product.h product_halves.h",
    SEVEN: "product.h product_seven.h",
    TILES: "product.h product_tiles.h",
}
# Nodes that are computed with a product, at most.
MOST_BEHIND = 24


def products(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find products that one kernel computes with what follows, no two with a common node."""
    kernels: list[RegionKernel] = []
    remaining = set(allowed)
    derived = candidates(meanings)
    for number in sorted(derived.products, key=derived.position.__getitem__):
        if number not in remaining:
            continue
        for behind in growths(meanings, number, remaining):
            try:
                product_kernel = _lowered(meanings, number, derived.products[number], behind)
            except LoweringError:
                continue
            remaining -= set(product_kernel.region.nodes)
            kernels.append(product_kernel)
            break
    return kernels


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
    meanings: Meanings,
    product_kernel: RegionKernel,
    configurations: Iterable[ProductConfiguration],
    level: str,
) -> list[RegionKernel]:
    """Return a product that was found in some configurations, for processors of a level.

    Only products that are computed product by product have any.
    """
    if product_kernel.kernel.form != EACH:
        return []
    product, matrix, behind = _product_of(meanings, product_kernel)
    return [
        _lowered(meanings, product, matrix, behind, chosen=Chosen(each, level))
        for each in configurations
    ]


def _product_of(
    meanings: Meanings, product_kernel: RegionKernel
) -> tuple[int, Matrix, frozenset[int]]:
    """Return the product in a region, its matrix, and the nodes behind it."""
    products = candidates(meanings).products
    product = next(number for number in product_kernel.region.nodes if number in products)
    matrix = products[product]
    return product, matrix, frozenset(product_kernel.region.nodes) - matrix.nodes - {product}


def supply(graph: Graph, kernels: Iterable[Kernel]) -> None:
    """Lay out the constants that kernels read, as constants of the graph; each of them once."""
    for kernel in kernels:
        for value, source, how in kernel.packed:
            if value not in graph.constants:
                array = graph.constants[source].array()
                graph.set_constant(value, graph.shelve(how.lay(array)))


# ------------------------------------------------------------------------------------ choosing


def growths(meanings: Meanings, product: int, allowed: Collection[int]) -> list[frozenset[int]]:
    """Return what may be computed together with a product, most first, nothing at last.

    `product` is the node that gives its result. In each, one value alone is needed outside. What
    may be there at all is derived by finishing.dl; without some of it, without what reads that.
    """
    graph, derived = meanings.graph, candidates(meanings)
    following = derived.following(product)
    inside = {product}
    growing: list[frozenset[int]] = [frozenset()]
    for number in sorted(following, key=derived.position.__getitem__):
        makers = {graph.producer.get(value) for value in graph.nodes[number].reads}
        if len(inside) > MOST_BEHIND:
            break
        if number in allowed and makers & following <= inside:
            inside.add(number)
            if len(needed(graph, inside)) == 1:
                growing.append(frozenset(inside - {product}))
    return growing[::-1]


def needed(graph: Graph, inside: set[int]) -> list[int]:
    """Return what some nodes give that others read, or the model gives."""
    return [
        value
        for number in inside
        for value in graph.nodes[number].outputs
        if graph.is_pinned(value) or graph.users.get(value, set()) - inside
    ]


# ------------------------------------------------------------------------------------ lowering


def _lowered(
    meanings: Meanings,
    product: int,
    matrix: Matrix,
    behind: frozenset[int],
    form: str = EACH,
    chosen: Chosen | None = None,
) -> RegionKernel:
    graph, position = meanings.graph, candidates(meanings).position
    node = graph.nodes[product]
    rows, out = node.inputs[0], node.outputs[0]
    given, result_shape = meanings.shape(rows), meanings.shape(out)
    stored = meanings.shape(matrix.value)
    depth, width = stored[::-1] if matrix.transposed else stored
    if graph.dtype(rows) != "float32" or len(given) < 2 or given[-1] != depth:
        raise LoweringError("no rows to multiply")
    if given[:-1] != result_shape[:-1] or result_shape[-1] != width or 0 in result_shape:
        raise LoweringError("rows whose sizes aren't known")
    inside = {product, *behind}
    (output,) = needed(graph, inside)
    if graph.dtype(output) != "float32":
        raise LoweringError("a result that is no float32")
    shape = meanings.shape(output)
    chain = tuple(sorted(behind, key=position.__getitem__))
    bias = row_bias(meanings, product, width)
    extents: tuple[Extent, ...] = (*shape[:-1], width, depth)
    if len(extents) > MOST_LOOPS or max(len(shape), len(given)) > MOST_AXES:
        raise LoweringError("too many axes")
    after = Between(meanings, chain, out, output, shape, result_shape) if chain else None
    accesses = [] if after is None else after.loads
    panel = PANEL if chosen is None else chosen.configuration.panel
    ways: list[Panels | Likeness] = [Panels(matrix.transposed, width=panel)]
    if form == HALVES:
        if not fits_half(graph.constants[matrix.value].array()):
            raise LoweringError("a matrix that 16 bits don't hold")
        ways = [Panels(matrix.transposed, "float16")]
    if form == SEVEN:
        _check_seven(given, int(width), int(depth))
        ways.append(Likeness(matrix.transposed))
    if form == TILES:
        _check_tiles(given, int(depth))
    laid = [_laid_out(meanings, matrix, how) for how in ways]
    inputs = tuple(dict.fromkeys([rows, *laid, *bias, *(access.value for access in accesses)]))
    if len(inputs) > MOST_OPERANDS:
        raise LoweringError("too many operands")
    outputs = ((shape, axis_by_axis(len(shape))),)
    shapes = shapes_of(meanings, inputs, extents, outputs, accesses=accesses)
    nodes = tuple(sorted(inside | matrix.nodes, key=position.__getitem__))
    added = inputs.index(bias[0]) if bias else None
    text = product_text(extents, accesses, inputs, added, after, form)
    arrange, columns = ARRANGED[form], tuple[int, ...]()
    if chosen is not None:
        text = chosen.specialised(text)
        arrange, columns = "arrange_product_by", chosen.configuration.arranged
    kernel = Kernel(
        "",
        label([graph.nodes[n].op_type for n in nodes if n not in matrix.nodes]),
        text,
        shapes,
        inputs,
        (output,),
        grain=GRAIN,
        arrange=arrange,
        columns=columns,
        support=SUPPORT[form],
        flushes=flushes(meanings, chain),
        packed=tuple((value, matrix.value, how) for value, how in zip(laid, ways, strict=True)),
        form=form,
        configuration=chosen,
    )
    region = Region(nodes, read_by(graph, nodes), (output,), shape, sort="product")
    return RegionKernel(region, named(kernel))


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
    known = [size for size in rows[:-1] if isinstance(size, int)]
    return len(known) == len(rows) - 1 and math.prod(known) < least


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


def _laid_out(meanings: Meanings, matrix: Matrix, how: Panels | Likeness) -> int:
    """Return the value that a matrix is when it is laid out, one for each way."""
    key = (matrix.value, how)
    if key not in meanings.packed:
        graph = meanings.graph
        depth, width = map(int, meanings.shape(matrix.value)[:: -1 if matrix.transposed else 1])
        if isinstance(how, Panels):
            shape: tuple[int, ...] = (-(-width // how.width), depth, how.width)
            dtype, kind = how.dtype, "halves" if how.dtype == "float16" else "panels"
            if how.width != PANEL:
                kind = f"{kind}.{how.width}"
        else:
            shape, dtype, kind = (pairs_of(width),), "float32", "alike"
        name = f"{graph.names[matrix.value]}.{kind}"
        meanings.packed[key] = graph.new_value(name, TensorType(dtype, shape))
    return meanings.packed[key]
