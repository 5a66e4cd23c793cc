"""Products of integers that a model quantizes while it runs, as `quantize_dynamic` writes them.

    X, x, z = DynamicQuantizeLinear(A)
    Y       = Cast(MatMulInteger(X, W, z, v)) * (x * w) + bias

and the same of ConvInteger. Sums are exact, and each of the other steps is rounded as in the
runtime's operators, those that it fuses them into included: results are equal to the bit. X stays
a tensor of integers, so that several products of it share what quantizes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    label_of,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Extent, axis_by_axis
from ..loops.c_function import access_pointers, function_text, initializer, operand
from ..loops.cells import Access
from ..loops.elementwise_chain import ElementwiseChain
from ..loops.kernel_region import LaidOut, Meanings, needed_outside
from ..product.matrix_products import growths
from ..product.product_text import ending_text
from ..regions.region_candidates import DynamicProduct, Integers, candidates
from ..regions.region_facts import is_exact
from .groups import Numbers, constant_array, sign_flip
from .packing import Filters, FixedNumbers
from .quantized_products import (
    GRAIN,
    INTEGERS,
    LEAST_DEPTH,
    LEAST_OUTPUTS,
    convolved,
    multiplied,
    support_of,
    task_of,
)
from .window import Window, turned


@dataclass(frozen=True)
class Dynamic:
    """A product of integers that are quantized while the model runs, and its float32 result.

    `w` are constants, `bias` is a constant of one number for each output, or None. `nodes` give
    `result`, the product among them.
    """

    nodes: tuple[int, ...]
    product: int
    x: Integers
    w: Numbers
    bias: int | None
    result: int


def dynamic_products(
    meanings: Meanings, allowed: Collection[int], behind: Collection[int] = ()
) -> list[RegionKernel]:
    """Find such products, no two with a common node, of `allowed` nodes.

    What is elementwise and follows is computed with it, of nodes `behind`.
    """
    graph, products = meanings.graph, candidates(meanings).dynamic_products

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        group = _read(graph, products[number])
        if not free.issuperset(group.nodes):
            return
        follows = set(behind) & free - set(group.nodes)
        for chain in growths(meanings, graph.producer[group.result], follows):
            yield partial(_lowered, meanings, group, meanings.in_order(chain))

    return disjoint_kernels(meanings.in_order(products), allowed, attempts)


def fold_rows(graph: Graph) -> None:
    """Compute Reshapes of constants, as `quantize_dynamic` leaves them of a convolution's bias."""
    for number in graph.order():
        node = graph.nodes[number]
        if node.operator != "Reshape" or graph.is_pinned(node.outputs[0]):
            continue
        row, sizes = (graph.constants.get(value) for value in node.inputs)
        if row is None or sizes is None or 0 in sizes.array():
            continue
        graph.remove_node(number)
        folded = row.array().reshape(sizes.array())
        graph.set_constant(node.outputs[0], graph.shelve(folded))


# ------------------------------------------------------------------------------------- reading


def _read(graph: Graph, match: DynamicProduct) -> Dynamic:
    """Read the numbers of a product; LoweringError where they are no rows."""
    product, w = match.nodes[0], match.w
    axis = -1
    if graph.nodes[product].op_type == "ConvInteger":
        axis = 1 - len(graph.shape(w.value) or ())
    scales = constant_array(graph, w.scale)
    if not _lies_along(scales.shape, axis):
        raise LoweringError("scales along another axis")
    zeros = np.zeros(1, np.int32) if w.zero == ABSENT else constant_array(graph, w.zero).reshape(-1)
    weights = Numbers(w.value, scales.reshape(-1), zeros.astype(np.int32))
    nodes, bias = match.nodes, None
    if match.bias is not None and _is_row(graph, match.bias[1], weights, axis):
        adding, bias = match.bias
        nodes = tuple(dict.fromkeys((*nodes, adding)))
    elif match.bias is not None and match.bias[0] == product:
        raise LoweringError("a bias of something else than outputs")
    (result,) = graph.nodes[nodes[-1]].outputs
    return Dynamic(nodes, product, match.x, weights, bias, result)


def _is_row(graph: Graph, value: int, weights: Numbers, axis: int) -> bool:
    """Tell whether a constant has a number for each output, or the same for all."""
    shape = graph.constants[value].array().shape
    outputs = graph.shape(weights.value)[0 if axis != -1 else -1]  # type: ignore[index]
    return _lies_along(shape, axis) and int(np.prod(shape)) in (1, outputs)


def _lies_along(shape: tuple[int, ...], axis: int) -> bool:
    """Tell whether all but one axis, counted from behind, have one element."""
    counted_axis = len(shape) + axis
    return all(size == 1 for k, size in enumerate(shape) if k != counted_axis)


# ------------------------------------------------------------------------------------ lowering


def _lowered(meanings: Meanings, group: Dynamic, chain: tuple[int, ...]) -> RegionKernel:
    graph = meanings.graph
    is_image = graph.nodes[group.product].op_type == "ConvInteger"
    x = group.x.value
    if is_image:
        of = convolved(meanings, group.product, x, group.w, group.result)
    else:
        of = multiplied(meanings, x, group.w, group.result)
    window, filters, outputs = of
    depth = window.depth
    if outputs < LEAST_OUTPUTS or depth < LEAST_DEPTH:
        raise LoweringError("too little to multiply")
    result = group.result
    if chain:
        (result,) = needed_outside(graph, {*chain, graph.producer[group.result]})
    if graph.dtype(result) != "float32":
        raise LoweringError("a result that is no float32")
    as_read = {v: turned(meanings, v) if is_image else v for v in (x, result)}
    shape = meanings.shape(as_read[result])
    extents: tuple[Extent, ...] = (*shape[:-1], outputs, depth)
    if shape[-1] != outputs:
        raise LoweringError("a result of other outputs")
    after = None
    if chain:
        # of an image nothing else is read: what follows is the same wherever its channels are
        product_shape, result_shape = meanings.shape(group.result), meanings.shape(result)
        after = ElementwiseChain(meanings, chain, group.result, result, result_shape, product_shape)
    accesses = [] if after is None else after.loads
    if is_image and accesses:
        raise LoweringError("an image that is computed with others")
    packed = _laid_out(meanings, group, filters, outputs)
    read = {"x": as_read[x], "step": group.x.scale, "zero": group.x.zero}
    read |= {name: constant.value for name, constant in packed.items()}
    inputs = tuple(dict.fromkeys((*read.values(), *(access.value for access in accesses))))
    result_place = [(shape, axis_by_axis(len(shape)))]
    shapes = shapes_of(meanings, inputs, extents, result_place, accesses=accesses)
    flip = sign_flip(graph.dtype(x))
    copies = flip != 0 or window.copies
    nodes = (*group.nodes, *chain)
    operands = {name: inputs.index(value) for name, value in read.items()}
    following = [] if after is None else [_behind(extents, accesses, inputs, after)]
    window_numbers = window.initializer(outputs, copies, flip)
    kernel = Kernel(
        label_of(meanings, nodes),
        "\n".join([*following, _text(window, window_numbers, flip, operands, after is not None)]),
        shapes,
        inputs,
        (as_read[result],),
        grain=GRAIN,
        arrange="arrange_quantized",
        columns=window.arranged(outputs, depth, copies),
        support=support_of(window),
        flushes=False,
        is_exact=all(is_exact(meanings, number) for number in chain),
        packed=tuple(packed.values()),
        form=INTEGERS,
        turned=tuple(as_read.items()) if is_image else (),
    )
    return region_kernel(meanings, nodes, kernel, "integers", outputs=(result,))


def _laid_out(
    meanings: Meanings, group: Dynamic, filters: Filters, outputs: int
) -> dict[str, LaidOut]:
    """Lay out filters, their sums, their scales, a bias, and what filters are stored without.

    They are named as quantized.h calls them.
    """
    array = meanings.graph.constants[group.w.value].array()
    stored, rest = filters.fitted(array)
    sums = filters.centred(array).sum(axis=(1, 2), dtype=np.int64).astype(np.int32)
    ways: dict[str, Filters | FixedNumbers] = {
        "w": stored,
        "start": filters.filled(sums, "sums"),
        "scale": filters.filled(_spread(group.w.scale, outputs), "scale"),
    }
    sources = dict.fromkeys((*ways, "rest"), group.w.value)
    if group.bias is not None:
        bias = meanings.graph.constants[group.bias].array().reshape(-1)
        ways["bias"] = filters.filled(_spread(bias, outputs), "bias")
        sources["bias"] = group.bias
    if rest is not None:
        ways["rest"] = filters.filled(rest, "rest")
    return {name: meanings.laid_out(sources[name], how) for name, how in ways.items()}


def _spread(numbers: np.ndarray, outputs: int) -> np.ndarray:
    """Return a number for each output, of one for all or of as many."""
    return np.ascontiguousarray(np.broadcast_to(numbers, (outputs,)))


def _text(
    window: Window, window_numbers: str, flip: int, operands: Mapping[str, int], more: bool
) -> str:
    """Return the function of `operands` by their names; `more` says that something follows."""
    kinds = {"start": "int32_t", "scale": "float", "step": "float", "bias": "float"}
    ending = {
        name: operand(operands[name], kind)
        for name, kind in (kinds | {"rest": "int32_t"}).items()
        if name in operands
    }
    if more:
        ending["behind"] = "NAME_behind"
    x, w = operand(operands["x"], "uint8_t"), operand(operands["w"], "int8_t")
    zero = f"*{operand(operands['zero'], 'uint8_t')}"
    return function_text(
        [
            f"  const window g = {{{window_numbers}, (uint8_t)({zero} ^ {flip})}};",
            f"  const ending e = {initializer(ending)};",
            f"  {task_of(window)}(own, g, &e, {x}, {w}, (uint8_t *)c->out[0]);",
        ]
    )


def _behind(
    extents: tuple[Extent, ...],
    accesses: list[Access],
    inputs: tuple[int, ...],
    after: ElementwiseChain,
) -> str:
    """Return the function that computes what follows a product, and writes it out."""
    return "\n".join(
        [
            "static void NAME_behind(",
            "    const call *c, const float *S, i64 first, i64 count, i64 column, i64 n) {",
            f"  const i64 width = c->extent[{len(extents) - 2}];",
            "  float *out = (float *)c->out[0];",
            *access_pointers(accesses, inputs),
            *ending_text(extents, accesses, after, "QUANTIZED_PANEL"),
            "}",
        ]
    )
