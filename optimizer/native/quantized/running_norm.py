"""Normalizations behind a sum, rounded as the runtime's own operator for both is.

Where a model quantizes while it runs, the last bit of each number counts: all integers of a tensor
depend on its largest. ONNX
Runtime adds two tensors and normalizes the rows in one operator, SkipLayerNormalization, whose sums
go from one element to the next; its optimized model says where. Whether it computes so in the
release at hand, it is asked.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial

import numpy as np
from onnx import helper

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
from ..loops.c_function import function_text, initializer
from ..loops.kernel_region import Meanings
from ..regions.region_candidates import Norm, candidates
from ..regions.region_facts import CONTRIBUTED
from ..runtime_answers import answer

# Each of the runtime's operators, by whether there is no mean in it, and what it is called with.
OPERATORS = {False: "SkipLayerNormalization", True: "SkipSimplifiedLayerNormalization"}
OPERANDS = {False: ("a", "b", "gain", "shift", "bias"), True: ("a", "b", "gain", "bias")}
# Rows that go through at once, as running_norm.h has them; elements that are worth a task.
LANES, GRAIN = 32, 1 << 13


def running_norms(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find such normalizations among `allowed` nodes, no two with a common node."""
    norms = candidates(meanings).norms
    matches = {number: norms[number] for number in meanings.in_order(norms)}
    return whole_kernels(matches, allowed, partial(_lowered, meanings))


def _lowered(meanings: Meanings, norm: Norm) -> RegionKernel:
    if not is_running(norm.is_simplified):
        raise LoweringError("the runtime at hand rounds otherwise")
    graph, nodes = meanings.graph, meanings.in_order(norm.nodes)
    names, outputs = OPERANDS[norm.is_simplified], tuple(norm.results.values())
    operands = {names[place]: value for place, value in norm.operands.items()}
    shape = meanings.shape(outputs[0])
    if not shape or not isinstance(shape[-1], int):
        raise LoweringError("rows whose length isn't known")
    if 0 in shape or any(meanings.shape(operands[name]) != shape for name in ("a", "b")):
        raise LoweringError("a sum that broadcasts")
    if any(meanings.shape(operands[name]) != shape[-1:] for name in operands.keys() - {"a", "b"}):
        raise LoweringError("factors of something else than elements of a row")
    inputs = tuple(dict.fromkeys(operands.values()))
    if any(graph.dtype(value) != "float32" for value in (*inputs, *outputs)):
        raise LoweringError("numbers of other types")
    result_place = (shape, axis_by_axis(len(shape)))
    shapes = shapes_of(meanings, inputs, shape, [result_place] * len(outputs))
    fields = {
        name: f"(const float *)own->whole->in[{inputs.index(value)}]"
        for name, value in operands.items()
    }
    fields |= {"epsilon": f"{norm.epsilon!r}f", "out": "(float *)own->whole->out[0]"}
    if len(outputs) > 1:
        fields["sum"] = "(float *)own->whole->out[1]"
    kernel = Kernel(
        label_of(meanings, nodes),
        function_text(
            [
                f"  const running g = {initializer(fields)};",
                f"  running_task(own, &g, {int(norm.is_simplified)}, {shape[-1]});",
            ],
            reads_call=False,
        ),
        shapes,
        inputs,
        outputs,
        grain=GRAIN,
        arrange="arrange_running",
        columns=(LANES,),
        support="running_norm.h",
        flushes=False,
        is_exact=True,
    )
    return region_kernel(meanings, nodes, kernel, "normalization")


# ------------------------------------------------------------------------- the runtime, asked


def running_norm(
    a: np.ndarray, b: np.ndarray, gain: np.ndarray, shift: np.ndarray, epsilon: float, plain: bool
) -> np.ndarray:
    """Return the normalized rows of a sum, as running_norm.h computes them; `plain` has no mean."""
    single = np.float32
    total = a + b
    mean = np.zeros(total.shape[:-1], single)
    square = np.zeros_like(mean)
    for column in range(total.shape[-1]):
        element = total[..., column]
        before = element if plain else element - mean
        if not plain:
            mean = mean + before / single(column + 1)
        square = square + before * (element - mean)
    deviation = np.sqrt(square / single(total.shape[-1]) + single(epsilon))
    normal = (total - mean[..., None]) / deviation[..., None] * gain
    result: np.ndarray = normal if plain else normal + shift
    return result


@cache
def is_running(simplified: bool) -> bool:
    """Tell whether the runtime at hand normalizes as these kernels do, to the bit."""
    rng = np.random.default_rng(1)
    epsilon = 1e-5
    for length in (5, 64, 769):
        gain, shift = rng.normal(1, 0.2, (2, length)).astype(np.float32)
        rows = [
            (rng.normal(size=(1, 48, length)) * 10.0 ** rng.uniform(-3, 3, (1, 48, 1)) + offset)
            for offset in (0, 7)
        ]
        a, b = (row.astype(np.float32) for row in rows)
        parameters = {"gain": gain} if simplified else {"gain": gain, "shift": shift}
        node = helper.make_node(
            OPERATORS[simplified],
            ["a", "b", *parameters],
            ["y"],
            domain=CONTRIBUTED,
            epsilon=epsilon,
        )
        wanted = answer([node], {"a": a, "b": b}, parameters, ("y", "float32"))
        if not np.array_equal(running_norm(a, b, gain, shift, epsilon, simplified), wanted):
            return False
    return True
