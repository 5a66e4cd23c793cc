"""Kernels of products and convolutions of 8-bit integers, with what the result is added to.

Sums are exact; scales, rounding and saturation are the runtime's own formula (quantized.h), so that
a plan gives what the original gives under full optimization, to the bit. Images have their channels
last inside: what turns them is left out between two kernels (embed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ....catalog.operators.derive import integer_range
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
from ..loops.c_function import function_text, initializer, operand
from ..loops.kernel_region import LaidOut, Meanings
from ..regions.region_candidates import candidates
from ..regions.region_facts import EIGHT_BITS
from .groups import DEQUANTIZE, Group, Numbers, group_of, sign_flip
from .packing import LANES, ApartFilters, Filters, FixedNumbers, NarrowFilters
from .sums import Sum, sum_behind
from .window import Window, turned, window_of

# How these kernels compute, beside the forms of float32.
INTEGERS = "integers of 8 bits"
# Products and sums that are worth a task: in small ones, what becomes of sums takes as long again.
GRAIN = 1 << 18
# Bytes of a place of an image that a vector of outputs may be made of.
MOST_WINDOW = 64
# Below these, a panel is hardly filled, or there is next to nothing to add up.
LEAST_OUTPUTS, LEAST_DEPTH = 8, 8


def quantized_products(
    meanings: Meanings, allowed: Collection[int], functions: Collection[RegionKernel] = ()
) -> list[RegionKernel]:
    """Find products of integers that kernels compute, no two with a common node.

    Where one of `functions`, which are looked up, reads the result alone, it belongs to it.
    """
    graph, derived = meanings.graph, candidates(meanings)
    by_operand = {function.kernel.inputs[0]: function for function in functions}
    operators = derived.integer_operators("multiplies_filters")

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if not free.issuperset(operators[number].nodes):
            return
        group, added = group_of(graph, operators[number]), None
        adding = derived.on_integers.get(derived.sums.get(number, ABSENT))
        if adding is not None and free.issuperset(adding.nodes):
            added = sum_behind(graph, group, adding)
        function = by_operand.get((group if added is None else added).y.value)
        for ends in ((added, function), (added, None), (None, None)):
            yield partial(_lowered, meanings, group, *ends)

    return disjoint_kernels(operators, allowed, attempts)


def _lowered(
    meanings: Meanings, group: Group, added: Sum | None, function: RegionKernel | None
) -> RegionKernel:
    graph = meanings.graph
    is_image = graph.nodes[group.product].op_type in ("Conv", "QLinearConv")
    x, w, y = group.x.value, group.w, group.y.value
    if is_image:
        window, filters, outputs = convolved(meanings, group.product, x, w, y)
    else:
        window, filters, outputs = multiplied(meanings, x, w, y, group.transposed)
    depth = window.depth
    if outputs < LEAST_OUTPUTS or depth < LEAST_DEPTH:
        raise LoweringError("too little to multiply")
    flip = sign_flip(graph.dtype(group.x.value))
    fill = int(group.x.zero[0]) + flip
    numbers = _numbers(group, integer_range(graph.dtype(group.y.value) or ""), fill, added)
    stored, start, scale, *rest = _laid_out(meanings, group, filters, fill)
    packed = [stored, start, scale, meanings.laid_out(group.w.value, numbers), *rest]
    others = () if added is None else (added.other,)
    result, nodes = group.y.value, group.nodes
    if added is not None:
        result, nodes = added.y.value, (*nodes, *added.nodes)
    result_dtype = graph.dtype(result) or ""
    if function is not None:
        result, nodes = looked_up(graph, result, function), (*nodes, *function.region.nodes)
        packed += function.kernel.packed
    as_read = {
        value: turned(meanings, value) if is_image else value
        for value in (group.x.value, *others, result)
    }
    written = as_read[result]
    shape = meanings.shape(written)
    extents: tuple[Extent, ...] = (*shape[:-1], outputs, depth)
    operands = [as_read[group.x.value], *(constant.value for constant in packed)]
    inputs = tuple(dict.fromkeys((*operands, *(as_read[value] for value in others))))
    output_types = (graph.dtype(result) or "",)
    result_place = [(shape, axis_by_axis(len(shape)))]
    shapes = shapes_of(meanings, inputs, extents, result_place, output_types=output_types)
    copies = flip != 0 or window.copies
    ending = _ending(
        integer_range(result_dtype) or (0, 0),
        added,
        None if added is None else inputs.index(as_read[added.other]),
        None if function is None else inputs.index(function.kernel.inputs[1]),
        inputs.index(rest[0].value) if rest else None,
    )
    kernel = Kernel(
        label_of(meanings, (n for n in nodes if graph.nodes[n].operator != DEQUANTIZE)),
        _text(window.initializer(outputs, copies, flip), ending, task_of(window)),
        shapes,
        inputs,
        (written,),
        grain=GRAIN,
        arrange="arrange_quantized",
        columns=window.arranged(outputs, depth, copies),
        support=support_of(window),
        flushes=False,
        is_exact=True,
        packed=tuple(packed),
        form=INTEGERS,
        turned=tuple(as_read.items()) if is_image else (),
    )
    return region_kernel(meanings, nodes, kernel, "integers", outputs=(result,))


def looked_up(graph: Graph, value: int, function: RegionKernel) -> int:
    """Return the result of a function of a value's integers that nobody else reads."""
    (result,) = function.region.outputs
    outside = graph.users.get(value, set()) - set(function.region.nodes)
    if outside or graph.is_pinned(value) or graph.dtype(result) not in EIGHT_BITS:
        raise LoweringError("integers that others read, or a function that gives none")
    return result


def _laid_out(meanings: Meanings, group: Group, filters: Filters, fill: int) -> list[LaidOut]:
    """Lay out filters, what sums begin with, their scales, what filters are stored without."""
    array = meanings.graph.constants[group.w.value].array()
    numbers = filters.centred(array)
    stored, rest = filters.fitted(array)
    start = -fill * numbers.sum(axis=(1, 2), dtype=np.int64)
    if group.bias is not None:
        start = start + _bias(group.bias, len(start))
    wrapped = (start & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    scale = (group.x.scale * group.w.scale) / group.y.scale
    if not np.isfinite(scale).all():
        raise LoweringError("scales beyond float32")
    scales = np.ascontiguousarray(np.broadcast_to(scale, (len(start),)))
    ways: list[Filters | FixedNumbers] = [
        stored,
        filters.filled(wrapped, "start"),
        filters.filled(scales, "scale"),
    ]
    if rest is not None:
        ways.append(filters.filled(rest, "rest"))
    return [meanings.laid_out(group.w.value, how) for how in ways]


def multiplied(
    meanings: Meanings, x: int, w: Numbers, y: int, transposed: bool = False
) -> tuple[Window, Filters, int]:
    """Return how a kernel reads rows `x` and a matrix for `y`: window, filters, outputs."""
    rows, matrix = meanings.shape(x), meanings.shape(w.value)
    result = meanings.shape(y)
    if len(matrix) != 2 or len(rows) < 2:
        raise LoweringError("no rows, or no matrix")
    depth, outputs = map(int, matrix[::-1] if transposed else matrix)
    if rows[-1] != depth or result != (*rows[:-1], outputs) or 0 in result:
        raise LoweringError("rows whose sizes aren't known")
    filters = Filters((0, 1) if transposed else (1, 0), 1, _zeros(w, outputs))
    return Window((0, 1, depth)), filters, outputs


def convolved(
    meanings: Meanings, product: int, x: int, w: Numbers, y: int
) -> tuple[Window, Filters, int]:
    """Return how a kernel reads an image `x` and filters for `y`: window, filters, outputs."""
    filters = meanings.shape(w.value)
    attributes = meanings.graph.attributes(product)
    image, result = meanings.shape(x), meanings.shape(y)
    groups = attributes.get("group", 1)
    if len(image) != len(filters) or 0 in filters:
        raise LoweringError("nothing to add up")
    window = window_of(image, filters[2:], result, attributes)
    outputs = int(filters[0])
    order = (0, *range(2, len(filters)), 1)
    if groups == 1:
        return window, Filters(order, window.segments, _zeros(w, outputs)), outputs
    if not isinstance(groups, int) or outputs % groups or int(image[1]) != groups * int(filters[1]):
        raise LoweringError("groups of other channels")
    window = replace(window, groups=groups)
    arguments = (order, window.segments, _zeros(w, outputs))
    array = meanings.graph.constants[w.value].array()
    is_apart = groups == outputs == image[1]
    if is_apart or _is_narrow(groups, int(filters[1]), outputs):
        beside = ApartFilters(*arguments) if is_apart else NarrowFilters(*arguments)
        if beside.fitted(array)[1] is None:
            return replace(window, is_apart=is_apart, is_narrow=not is_apart), beside, outputs
        if is_apart:
            raise LoweringError("numbers that 8 bits don't hold without their zero point")
    return window, Filters(*arguments, groups), outputs


def _is_narrow(groups: int, depth: int, outputs: int) -> bool:
    """Tell whether a vector holds outputs of several groups, each of so much `depth`."""
    width = outputs // groups
    if width >= LANES:
        return False
    firsts = range(0, outputs, LANES)
    spans = [(min(first + LANES, outputs) - 1) // width - first // width + 1 for first in firsts]
    return max(spans) * depth <= MOST_WINDOW


def _zeros(w: Numbers, outputs: int) -> bytes:
    if w.zero.size not in (1, outputs) or w.scale.size not in (1, outputs):
        raise LoweringError("scales of something else than outputs")
    return np.ascontiguousarray(np.broadcast_to(w.zero, (outputs,)), np.int32).tobytes()


def _bias(bias: np.ndarray, outputs: int) -> np.ndarray:
    """Return what is added to the sums of each output."""
    if bias.size != 1 and (bias.size != outputs or bias.shape[-1] != outputs):
        raise LoweringError("a bias of something else than outputs")
    return np.broadcast_to(bias.reshape(-1), (outputs,)).astype(np.int64)


def constant_of(graph: Graph, nodes: Iterable[int]) -> int:
    """Return the first constant that nodes read, beside which the numbers of a kernel are laid."""
    return next(v for n in nodes for v in graph.nodes[n].inputs if v in graph.constants)


def _numbers(
    group: Group, limits: tuple[int, int] | None, fill: int, added: Sum | None
) -> FixedNumbers:
    """Return what differs between products of the same sizes, as `_ending` reads it."""
    low, high = limits or (0, 0)
    zero = int(group.y.zero[0])
    ratios, fixed = (0.0, 0.0), 0.0
    if added is not None:
        ratios, fixed = added.ratios if added.is_first else added.ratios[::-1], added.fixed
    return FixedNumbers.of((low - zero, high - zero, zero, fill, *ratios, fixed), "numbers")


def rounded(limits: tuple[int, int]) -> dict[str, str]:
    """Return what quantized.h is told of how scaled sums become integers between limits."""
    return {
        "low": "t[0]",
        "high": "t[1]",
        "zero": "(int32_t)t[2]",
        "least": str(limits[0]),
        "most": str(limits[1]),
    }


def _ending(
    limits: tuple[int, int],
    added: Sum | None,
    other: int | None,
    table: int | None,
    rest: int | None,
) -> dict[str, str]:
    """Return what quantized.h is told of sums, and of how they become integers between limits.

    `other` and `table` are the operands that are added and that functions are looked up in, `rest`
    is that of what filters are stored without.
    """
    fields = {"start": operand(2, "int32_t"), "scale": operand(3), **rounded(limits)}
    if added is not None and other is not None:
        fields |= {"other": operand(other, "uint8_t"), "ratio": "t[4]"}
        fields |= {"other_ratio": "t[5]", "fixed": "t[6]", "own_first": str(int(added.is_first))}
    if table is not None:
        fields["table"] = operand(table, "uint8_t")
    if rest is not None:
        fields["rest"] = operand(rest, "int32_t")
    return fields


def task_of(window: Window) -> str:
    """Name the function that computes a task."""
    if window.is_narrow:
        return "quantized_narrow_task"
    return "quantized_apart_task" if window.is_apart else "quantized_task"


def support_of(window: Window) -> str:
    """Name the files of C that it is in."""
    if window.is_narrow:
        return "quantized.h quantized_narrow.h"
    return "quantized.h quantized_apart.h" if window.is_apart else "quantized.h"


def _text(window_numbers: str, ending: dict[str, str], function: str) -> str:
    x, w = operand(0, "uint8_t"), operand(1, "int8_t")
    return function_text(
        [
            f"  const float *t = {operand(4)};",
            f"  const window g = {{{window_numbers}, (uint8_t)t[3]}};",
            f"  const ending e = {initializer(ending)};",
            f"  {function}(own, g, &e, {x}, {w}, (uint8_t *)c->out[0]);",
        ]
    )
