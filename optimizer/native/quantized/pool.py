"""Kernels of the largest integers of windows, between convolutions whose channels come last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from ...codegen.expressions import LoweringError
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    label_of,
    region_kernel,
    shapes_of,
)
from ..loops.affine import axis_by_axis
from ..loops.c_function import function_text
from ..loops.kernel_region import Meanings
from ..loops.merged_loops import Groups
from .groups import INTEGERS, QUANTIZE, alike, dequantized, quantized, sign_flip, sole_user
from .window import turned, window_of

# Integers that are worth a task.
GRAIN = 8192


def quantized_pools(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find pools of integers, and such that stand between a dequantization and its inverse."""

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if meanings.graph.nodes[number].operator == "MaxPool":
            yield partial(_lowered, meanings, number, free)

    return disjoint_kernels(meanings.order, allowed, attempts)


def _lowered(meanings: Meanings, number: int, free: Collection[int]) -> RegionKernel:
    graph = meanings.graph
    node = graph.nodes[number]
    x, y = node.inputs[0], node.outputs[0]
    nodes: tuple[int, ...] = (number,)
    if graph.dtype(x) not in INTEGERS:
        opening, given = dequantized(graph, x)
        closing = sole_user(graph, y)
        if graph.nodes[closing].operator != QUANTIZE:
            raise LoweringError("a result that isn't quantized")
        result = quantized(graph, closing)
        if not alike(given, result) or graph.dtype(given.value) != graph.dtype(result.value):
            raise LoweringError("other integers before and behind")
        x, y, nodes = given.value, result.value, (opening, number, closing)
    if not set(nodes) <= set(free):
        raise LoweringError("nodes of another kernel")
    attributes = graph.attributes(number)
    if len(node.outputs) != 1 or attributes.get("ceil_mode") or attributes.get("storage_order"):
        raise LoweringError("a pool that tells more, or windows that end outside")
    taps: tuple[int, ...] = attributes["kernel_shape"]  # type: ignore[assignment]
    window = window_of(meanings.shape(x), taps, meanings.shape(y), attributes)
    if not all(before < reach for before, reach in zip(window.before, window.reach, strict=True)):
        raise LoweringError("windows of nothing but padding")
    as_read = {v: turned(meanings, v) for v in (x, y)}
    shape = meanings.shape(as_read[y])
    dtype = graph.dtype(x) or ""
    rank = len(shape)
    lines = Groups((*range(rank - 2), rank - 2, rank - 2))  # one is the innermost loop
    result_place = [(shape, axis_by_axis(rank))]
    shapes = shapes_of(meanings, (as_read[x],), shape, result_place, groups=lines, made=(dtype,))
    told = window.told(window.image[2], False, sign_flip(dtype))
    kernel = Kernel(
        label_of(meanings, (number,)),
        function_text(
            [
                f"  const window g = {{{told}}};",
                "  quantized_pool(",
                "      own, &g, (const uint8_t *)own->whole->in[0], "
                "(uint8_t *)own->whole->out[0]);",
            ],
            reads_call=False,
        ),
        shapes,
        (as_read[x],),
        (as_read[y],),
        grain=GRAIN,
        support="quantized.h quantized_pool.h",
        flushes=False,
        is_exact=True,
        turned=tuple(as_read.items()),
    )
    return region_kernel(meanings, nodes, kernel, "integers", outputs=(y,))
