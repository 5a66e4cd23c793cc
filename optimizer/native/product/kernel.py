"""Products with a constant matrix as kernels, with what is elementwise behind them.

The matrix is laid out in advance, as the kernel reads it (product.h): so nothing is packed when a
session opens, and what comes next is fetched while a panel is multiplied. A bias, an activation, a
gate, a residual are computed on each panel before it leaves the cache.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

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
from .panels import PANEL, Likeness, Panels, fits_half, pairs_of
from .text import EACH, HALVES, SEVEN, TILES, product_text

# Products and sums that are worth a task of their own.
GRAIN = 1 << 20
# Below these, a panel is hardly filled, or there is nothing to keep in a cache.
LEAST_COLUMNS, LEAST_DEPTH = 32, 16
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
MOST_BEHIND = 24
# Between a product and what follows, these may add or drop axes of one element.
VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten"})


@dataclass(frozen=True)
class Matrix:
    """A constant matrix: its value, whether it is read transposed, and the node that did that."""

    value: int
    transposed: bool
    nodes: frozenset[int] = frozenset()


def products(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find products that one kernel computes with what follows, no two with a common node."""
    product_kernels: list[RegionKernel] = []
    taken: set[int] = set()
    position = {number: at for at, number in enumerate(meanings.graph.order())}
    for number in position:
        if number not in allowed or number in taken:
            continue
        matrix = _matrix(meanings.graph, number)
        if matrix is None:
            continue
        for behind in growths(meanings, number, set(allowed) - taken, position):
            try:
                lowered = _lowered(meanings, number, matrix, behind, position)
            except LoweringError:
                continue
            taken |= set(lowered.region.nodes)
            product_kernels.append(lowered)
            break
    return product_kernels


def formed(
    meanings: Meanings, region_kernels: Iterable[RegionKernel], forms: Iterable[str]
) -> list[RegionKernel]:
    """Return kernels of other forms, of those in RANKS, for products that were found."""
    graph, forms = meanings.graph, tuple(forms)
    position = {number: at for at, number in enumerate(graph.order())}
    made: list[RegionKernel] = []
    for region in region_kernels:
        if region.kernel.form != EACH:
            continue
        product, matrix, behind = _product_of(graph, region)
        for form in forms:
            try:
                made.append(_lowered(meanings, product, matrix, behind, position, form))
            except LoweringError:
                continue
    return made


def configured(
    meanings: Meanings,
    region: RegionKernel,
    configurations: Iterable[ProductConfiguration],
    level: str,
) -> list[RegionKernel]:
    """Return a product that was found in some configurations, for processors of a level.

    Only products that are computed product by product have any.
    """
    if region.kernel.form != EACH:
        return []
    product, matrix, behind = _product_of(meanings.graph, region)
    position = {number: at for at, number in enumerate(meanings.graph.order())}
    return [
        _lowered(meanings, product, matrix, behind, position, chosen=Chosen(each, level))
        for each in configurations
    ]


def _product_of(graph: Graph, region: RegionKernel) -> tuple[int, Matrix, frozenset[int]]:
    """Return the product in a region, its matrix, and the nodes behind it."""
    product, matrix = next(
        (number, matrix)
        for number in region.region.nodes
        if (matrix := _matrix(graph, number)) is not None
    )
    return product, matrix, frozenset(region.region.nodes) - matrix.nodes - {product}


def supply(graph: Graph, kernels: Iterable[Kernel]) -> None:
    """Lay out the constants that kernels read, as constants of the graph; each of them once."""
    for kernel in kernels:
        for value, source, how in kernel.packed:
            if value not in graph.constants:
                array = graph.constants[source].array()
                graph.set_constant(value, graph.shelve(how.lay(array)))


# ------------------------------------------------------------------------------------ matching


def _matrix(graph: Graph, number: int) -> Matrix | None:
    """Return the matrix that a node multiplies by, None where it is no such product."""
    node = graph.nodes[number]
    if node.operator == "Gemm":
        if graph.attribute(number, "transA"):
            return None
        if graph.attribute(number, "alpha") != 1.0 or graph.attribute(number, "beta") != 1.0:
            return None
    elif node.operator != "MatMul":
        return None
    matrix = _constant(graph, node.inputs[1], number)
    if matrix is None:
        return None
    if node.op_type == "Gemm" and graph.attribute(number, "transB"):
        matrix = Matrix(matrix.value, not matrix.transposed, matrix.nodes)
    rows, columns = graph.shape(matrix.value) or (0, 0)
    depth, width = (columns, rows) if matrix.transposed else (rows, columns)
    return matrix if int(depth) >= LEAST_DEPTH and int(width) >= LEAST_COLUMNS else None


def _constant(graph: Graph, value: int, reader: int) -> Matrix | None:
    """Follow a matrix to the constant that it is; one that others read would be held twice.

    But where it is a constant transposed, the runtime holds that twice as well.
    """
    if _is_matrix(graph, value):
        return Matrix(value, False) if graph.users[value] == {reader} else None
    producer = graph.producer.get(value)
    if producer is None or graph.nodes[producer].operator != "Transpose":
        return None
    (source,) = graph.nodes[producer].inputs
    is_read_here = graph.users[value] == {reader} and not graph.is_pinned(value)
    return (
        Matrix(source, True, frozenset({producer}))
        if is_read_here and _is_matrix(graph, source)
        else None
    )


def _is_matrix(graph: Graph, value: int) -> bool:
    constant = graph.constants.get(value)
    if constant is None or constant.type.dtype != "float32" or graph.is_pinned(value):
        return False
    return len(constant.type.shape or ()) == 2


def growths(
    meanings: Meanings, product: int, allowed: set[int], position: dict[int, int]
) -> list[frozenset[int]]:
    """Return what may be computed together with a product, most first, nothing at last.

    `product` is the node that gives its result. In each, one value alone is needed outside.
    """
    graph = meanings.graph
    behind: set[int] = set()
    refused: set[int] = set()
    chains: list[frozenset[int]] = [frozenset()]
    shape = meanings.graph.shape(graph.nodes[product].outputs[0])
    while shape is not None and len(behind) < MOST_BEHIND:
        inside = behind | {product}
        made = {value for number in inside for value in graph.nodes[number].outputs}
        users = {user for value in made for user in graph.users.get(value, ())}
        open_ = (users - inside - refused) & allowed
        if not open_:
            break
        number = min(open_, key=position.__getitem__)
        joined = _joined(meanings, number, inside, shape)
        if joined is None or _needs(graph, number, inside, position):
            refused.add(number)
            continue
        shape = joined
        behind.add(number)
        if len(needed(graph, behind | {product})) == 1:
            chains.append(frozenset(behind))
    return chains[::-1]


def _joined(
    meanings: Meanings, number: int, inside: set[int], shape: tuple[Extent, ...]
) -> tuple[Extent, ...] | None:
    """Return the shape that is gone on with where a node may be computed on the way out."""
    graph = meanings.graph
    node = graph.nodes[number]
    if len(node.outputs) != 1 or not meanings.has(number) or not meanings.is_full(number):
        return None
    own_shape = graph.shape(node.outputs[0])
    if meanings.kind(number) == "elementwise":
        return shape if own_shape == shape else None
    if node.op_type not in VIEWS or own_shape is None or len(needed(graph, inside)) != 1:
        return None
    several = [tuple(size for size in extents if size != 1) for extents in (own_shape, shape)]
    return own_shape if several[0] == several[1] and own_shape[-1:] == shape[-1:] else None


def needed(graph: Graph, inside: set[int]) -> list[int]:
    """Return what some nodes give that others read, or the model gives."""
    return [
        value
        for number in inside
        for value in graph.nodes[number].outputs
        if graph.is_pinned(value) or graph.users.get(value, set()) - inside
    ]


def _needs(graph: Graph, number: int, inside: set[int], position: dict[int, int]) -> bool:
    """Tell whether a node reads something that is computed outside of what is inside."""
    first = min(position[number] for number in inside)
    stack = [
        graph.producer[value]
        for value in graph.nodes[number].reads
        if value in graph.producer and graph.producer[value] not in inside
    ]
    seen = set(stack)
    while stack:
        reader = stack.pop()
        for value in graph.nodes[reader].reads:
            producer = graph.producer.get(value)
            if producer in inside:
                return True
            if producer is not None and producer not in seen and position[producer] > first:
                seen.add(producer)
                stack.append(producer)
    return False


# ------------------------------------------------------------------------------------ lowering


def _lowered(
    meanings: Meanings,
    product: int,
    matrix: Matrix,
    behind: frozenset[int],
    position: dict[int, int],
    form: str = EACH,
    chosen: Chosen | None = None,
) -> RegionKernel:
    graph = meanings.graph
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
    bias = _bias(meanings, product, width)
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
    return RegionKernel(Region(nodes, read_by(graph, nodes), (output,), shape, 0), named(kernel))


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


def _bias(meanings: Meanings, product: int, width: Extent) -> tuple[int, ...]:
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
