"""Normalizations behind a sum, rounded as the runtime's own operator for both is.

Where a model quantizes while it runs, the last bit of each number counts: all integers of a tensor
depend on its largest. ONNX
Runtime adds two tensors and normalizes the rows in one operator, SkipLayerNormalization, whose sums
go from one element to the next; its optimized model says where. Whether it computes so in the
release at hand, it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial

import numpy as np
import onnx
from onnx import helper

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
from ..loops.affine import axis_by_axis
from ..loops.c_function import function_text, initializer
from ..loops.kernel_region import Meanings, needed_outside
from ..runtime_answers import answer

DOMAIN = "com.microsoft"
# Each of the runtime's operators, and whether there is no mean in it.
SIMPLIFIED = {"SkipLayerNormalization": False, "SkipSimplifiedLayerNormalization": True}
# Rows that go through at once, as running_norm.h has them; elements that are worth a task.
LANES, GRAIN = 32, 1 << 13


def running_norms(
    meanings: Meanings, allowed: Collection[int], computable: Collection[int]
) -> list[RegionKernel]:
    """Find such normalizations among `allowed` nodes, no two with a common node.

    There are none where other kernels may normalize, which don't wait for each element, among the
    `computable` nodes: where no number becomes an integer behind it.
    """
    graph, optimized = meanings.graph, meanings.optimized or {}
    values = {name: value for value, name in enumerate(graph.names)}
    by_number: dict[int, onnx.NodeProto] = {}
    for node in {id(node): node for node in optimized.values()}.values():
        if node.domain == DOMAIN and node.op_type in SIMPLIFIED:
            number = graph.producer.get(values.get(node.output[0], ABSENT))
            if number is not None and number not in computable:
                by_number[number] = node

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if is_running(SIMPLIFIED[by_number[number].op_type]):
            yield partial(_lowered, meanings, by_number[number], values, free)

    return disjoint_kernels(by_number, allowed, attempts)


def _lowered(
    meanings: Meanings, node: onnx.NodeProto, values: Mapping[str, int], free: Collection[int]
) -> RegionKernel:
    graph = meanings.graph
    simplified = SIMPLIFIED[node.op_type]
    given = [values.get(name) for name in node.input]
    results = [values.get(name) for name in node.output]
    a, b, gain, *others = given
    if (a is None) != (b is None) and results[0] is not None:
        # the runtime has moved a DequantizeLinear behind what moves elements, under another name
        a, b = _summed(graph, results[0], a, b)
    if a is None or b is None or gain is None or results[0] is None:
        raise LoweringError("operands that the model lacks")
    further = dict(zip(("bias",) if simplified else ("shift", "bias"), others, strict=False))
    further = {
        name: value
        for (name, value), told in zip(further.items(), node.input[3:], strict=False)
        if told
    }
    if any(value is None for value in further.values()):
        raise LoweringError("operands that the model lacks")
    sums = results[3] if len(results) > 3 else None
    if any(node.output[1:3]) or (sums is None and any(node.output[3:])):
        raise LoweringError("results that the model lacks")
    outputs = tuple(value for value in (results[0], sums) if value is not None)
    read = {a, b, gain, *further.values()}
    nodes = _between(graph, outputs, read, free)  # type: ignore[arg-type]
    shape = meanings.shape(results[0])
    rows = {name: meanings.shape(value) for name, value in further.items()}  # type: ignore[arg-type]
    if not shape or not isinstance(shape[-1], int):
        raise LoweringError("rows whose length isn't known")
    if meanings.shape(a) != shape or meanings.shape(b) != shape or 0 in shape:
        raise LoweringError("a sum that broadcasts")
    if any(
        operand_shape != (shape[-1],) for operand_shape in (meanings.shape(gain), *rows.values())
    ):
        raise LoweringError("factors of something else than elements of a row")
    inputs = tuple(dict.fromkeys((a, b, gain, *(v for v in further.values() if v is not None))))
    if any(graph.dtype(value) != "float32" for value in (*inputs, *outputs)):
        raise LoweringError("numbers of other types")
    result_place = (shape, axis_by_axis(len(shape)))
    shapes = shapes_of(meanings, inputs, shape, [result_place] * len(outputs))
    epsilon = next(
        (attribute.f for attribute in node.attribute if attribute.name == "epsilon"), 1e-12
    )
    operands = {"a": a, "b": b, "gain": gain, **further}
    told = {
        name: f"(const float *)own->whole->in[{inputs.index(value)}]"
        for name, value in operands.items()
    }
    told |= {"epsilon": f"{float(np.float32(epsilon))!r}f", "out": "(float *)own->whole->out[0]"}
    if sums is not None:
        told["sum"] = "(float *)own->whole->out[1]"
    kernel = Kernel(
        label_of(meanings, nodes),
        function_text(
            [
                f"  const running g = {initializer(told)};",
                f"  running_task(own, &g, {int(simplified)}, {shape[-1]});",
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


def _summed(
    graph: Graph, normal: int, a: int | None, b: int | None
) -> tuple[int | None, int | None]:
    """Return two operands, of which one isn't known, of the sum that the model normalizes."""
    number = graph.producer.get(normal)
    total = None if number is None else graph.producer.get(graph.nodes[number].inputs[0])
    if total is None or graph.nodes[total].operator != "Add":
        return a, b
    operands = list(graph.nodes[total].inputs)
    told = b if a is None else a
    if told not in operands:
        return a, b
    operands.remove(told)
    return (operands[0], b) if a is None else (a, operands[0])


def _between(
    graph: Graph, outputs: Collection[int], inputs: Collection[int], free: Collection[int]
) -> tuple[int, ...]:
    """Return the nodes that lead from some values to others, which alone are needed outside."""
    inside: set[int] = set()
    waiting = [value for value in outputs if value not in inputs]
    while waiting:
        value = waiting.pop()
        number = graph.producer.get(value)
        if number is None and value not in graph.constants:
            raise LoweringError("an operand that the runtime's operator has not")
        if number is None or number in inside:
            continue
        if number not in free:
            raise LoweringError("nodes of another kernel")
        inside.add(number)
        waiting += [
            value for value in graph.nodes[number].inputs if value >= 0 and value not in inputs
        ]
    if not set(needed_outside(graph, inside)) <= set(outputs):
        raise LoweringError("values that others read")
    return tuple(number for number in graph.order() if number in inside)


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
    name = next(operator for operator, plain in SIMPLIFIED.items() if plain == simplified)
    for length in (5, 64, 769):
        gain, shift = rng.normal(1, 0.2, (2, length)).astype(np.float32)
        rows = [
            (rng.normal(size=(1, 48, length)) * 10.0 ** rng.uniform(-3, 3, (1, 48, 1)) + offset)
            for offset in (0, 7)
        ]
        a, b = (row.astype(np.float32) for row in rows)
        parameters = {"gain": gain} if simplified else {"gain": gain, "shift": shift}
        node = helper.make_node(
            name, ["a", "b", *parameters], ["y"], domain=DOMAIN, epsilon=epsilon
        )
        wanted = answer([node], {"a": a, "b": b}, parameters, ("y", "float32"))
        if not np.array_equal(running_norm(a, b, gain, shift, epsilon, simplified), wanted):
            return False
    return True
