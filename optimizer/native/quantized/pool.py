"""Kernels of the largest integers of windows, between convolutions whose channels come last."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ...codegen.expressions import LoweringError
from ..kernel import (
    Kernel,
    RegionKernel,
    label_of,
    region_kernel,
    shapes_of,
    whole_kernels,
)
from ..loops.affine import axis_by_axis
from ..loops.c_function import function_text
from ..loops.kernel_region import Meanings
from ..loops.merged_loops import Groups
from ..regions.region_candidates import IntegerOperator, candidates
from .groups import sign_flip
from .window import turned, window_of

# Integers that are worth a task.
GRAIN = 8192


def quantized_pools(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find pools of integers, and such that stand between a dequantization and its inverse."""
    matches = candidates(meanings).integer_operators("integer_pool")
    return whole_kernels(matches, allowed, partial(_lowered, meanings))


def _lowered(meanings: Meanings, pool: IntegerOperator) -> RegionKernel:
    graph, number = meanings.graph, pool.number
    x, y = pool.operands[0].value, pool.result.value
    attributes = graph.attributes(number)
    if attributes.get("ceil_mode") or attributes.get("storage_order"):
        raise LoweringError("windows that end outside, or another order")
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
    shapes = shapes_of(
        meanings, (as_read[x],), shape, result_place, groups=lines, output_types=(dtype,)
    )
    window_numbers = window.initializer(window.image[2], False, sign_flip(dtype))
    kernel = Kernel(
        label_of(meanings, (number,)),
        function_text(
            [
                f"  const window g = {{{window_numbers}}};",
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
    return region_kernel(meanings, pool.nodes, kernel, "integers", outputs=(y,))
