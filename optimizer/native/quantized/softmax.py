"""Kernels of softmax of 8-bit integers along rows, equal to the runtime's to the bit.

The runtime looks exponentials up and adds them up in float32, one after another (its operator
QLinearSoftmax). How the table is made depends on the release, so that the one at hand is asked for
rows of each scale and length, and where it gives something else than this, softmax stays with it.
Signed integers become unsigned ones there, on the processors that have these kernels.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache, partial

import numpy as np
from onnx import helper

from ...codegen.expressions import LoweringError
from ..kernel import Kernel, RegionKernel, region_kernel, shapes_of, whole_kernels
from ..loops.affine import axis_by_axis
from ..loops.c_function import function_text, operand
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import IntegerOperator, candidates
from ..runtime_answers import answer
from .groups import numbers_of, sign_flip
from .packing import FixedNumbers
from .quantized_products import constant_of

# Rows that go through at once, as quantized_softmax.h has them; elements that are worth a task.
ROWS, GRAIN = 8, 1 << 13
# Rows that the runtime is asked for, for each spread of their integers.
ASKED, SPREADS = 16, (2, 16, 64, 256)
# The largest number that the sum of a row may be is exp of so much less than float32 has.
RESERVED = 5.0


def softmax_rows(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find softmaxes of integers along rows of known length."""
    matches = candidates(meanings).integer_operators("integer_softmax")
    return whole_kernels(matches, allowed, partial(_lowered, meanings))


def _lowered(meanings: Meanings, operator: IntegerOperator) -> RegionKernel:
    graph = meanings.graph
    (x,) = (numbers_of(graph, operand) for operand in operator.operands)
    y = numbers_of(graph, operator.result)
    shape, dtype = meanings.shape(x.value), graph.dtype(x.value) or ""
    if not shape or 0 in shape:
        raise LoweringError("no rows")
    length = shape[-1]
    if not isinstance(length, int):
        raise LoweringError("rows of unknown length")
    scale, flip = float(y.scale[0]), sign_flip(dtype)
    zero = int(y.zero[0]) + flip
    table = table_of(length, float(x.scale[0]), scale, zero)
    if table is None:
        raise LoweringError("the runtime at hand computes something else")
    numbers = FixedNumbers.of((*table, whole(scale), zero), "softmax")
    packed_numbers = meanings.laid_out(constant_of(graph, operator.nodes), numbers)
    result_place = [(shape, axis_by_axis(len(shape)))]
    kernel = Kernel(
        "QuantizedSoftmax",
        function_text(
            [
                f"  const float *t = {operand(1)};",
                f"  const softmax g = {{t, t[256], (int32_t)t[257], {flip}}};",
                f"  softmax_task(own, &g, {length}, {operand(0, 'uint8_t')}, "
                "(uint8_t *)c->out[0]);",
            ]
        ),
        shapes_of(
            meanings, (x.value, packed_numbers.value), shape, result_place, output_types=(dtype,)
        ),
        (x.value, packed_numbers.value),
        (y.value,),
        grain=GRAIN,
        arrange="arrange_running",
        columns=(ROWS,),
        room=ROWS * length * 4,
        support="quantized_softmax.h",
        flushes=False,
        is_exact=True,
        packed=(packed_numbers,),
    )
    return region_kernel(meanings, operator.nodes, kernel, "integers")


# ------------------------------------------------------------------------- the runtime, asked


def whole(scale: float) -> float:
    """Return the integer that a probability of 1 becomes, before the zero point."""
    return float(np.floor(np.float32(1) / np.float32(scale)))


def softmax_of(x: np.ndarray, table: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """Return the softmax of rows of uint8, as quantized_softmax.h computes it."""
    numbers = x.astype(np.int32)
    looked_up = table[255 - numbers.max(axis=-1, keepdims=True) + numbers]
    sums = np.add.accumulate(looked_up, axis=-1, dtype=np.float32)[..., -1:]
    q = np.rint(looked_up * np.float32(whole(scale)) / sums).astype(np.int64) + zero
    result: np.ndarray = np.minimum(q, 255).astype(np.uint8)
    return result


@cache
def table_of(length: int, x_scale: float, y_scale: float, zero: int) -> np.ndarray | None:
    """Return the exponentials that the runtime looks up; None where it computes otherwise."""
    rng = np.random.default_rng(1)
    rows = [
        np.maximum(rng.integers(256 - spread, 256, (ASKED, length)) - less, 0)
        for spread in SPREADS
        for less in (0, 40)
    ]
    x = np.concatenate(rows).astype(np.uint8)
    wanted = _softmax(x, x_scale, y_scale, zero)
    most = np.finfo(np.float32).max / np.float32(length)
    for bits in (math.log(most), float(np.log(most))):
        shift = max(0.0, bits - RESERVED) / x_scale
        table = np.exp((np.arange(256.0) - 255 + shift) * x_scale).astype(np.float32)
        if np.array_equal(softmax_of(x, table, y_scale, zero), wanted):
            return table
    return None


def _softmax(x: np.ndarray, x_scale: float, y_scale: float, zero: int) -> np.ndarray:
    """Let the runtime compute it."""
    node = helper.make_node
    constants: dict[str, np.ndarray] = {
        "xs": np.asarray(x_scale, np.float32),
        "xz": np.asarray(0, np.uint8),
        "ys": np.asarray(y_scale, np.float32),
        "yz": np.asarray(zero, np.uint8),
    }
    nodes = [
        node("DequantizeLinear", ["x", "xs", "xz"], ["a"]),
        node("Softmax", ["a"], ["b"], axis=-1),
        node("QuantizeLinear", ["b", "ys", "yz"], ["y"]),
    ]
    return answer(nodes, {"x": x}, constants, ("y", "uint8"))
