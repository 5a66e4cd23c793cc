"""Sums of two quantized tensors, as the runtime computes them, rounded once.

    round(b * (scale B / scale Y) + fixed + a * (scale A / scale Y)),   saturated

`fixed` has the zero points. In which order it is added up is the compiler's choice that the runtime
was built with, so the runtime is asked for the sums of all 65,536 pairs of integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from onnx import helper, numpy_helper

from ....catalog.operators.derive import integer_range
from ....profiles.kernel import element_type, numpy_dtype
from ....profiles.sessions.session import open_session
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from .groups import QUANTIZE, Group, Numbers, dequantized, quantized, sole_user

OPSET, IR_VERSION = 13, 8


@dataclass(frozen=True)
class Sum:
    """What a product's integers are added to, by which nodes, and the integers that it gives.

    `ratios` are those of the first operand and the second; `is_first` says that the product is the
    first.
    """

    nodes: tuple[int, ...]
    other: int
    y: Numbers
    ratios: tuple[float, float]
    fixed: float
    is_first: bool


def sum_behind(graph: Graph, group: Group) -> Sum | None:
    """Return the sum that a product's integers go into alone, None where there is none."""
    try:
        value = group.y.value
        opening = sole_user(graph, value)
        adding = sole_user(graph, graph.nodes[opening].outputs[0])
        node = graph.nodes[adding]
        if node.operator != "Add":
            return None
        (first, a), (second, b) = (dequantized(graph, one) for one in node.inputs)
        closing = sole_user(graph, node.outputs[0])
        if graph.nodes[closing].operator != QUANTIZE:
            return None
        y = quantized(graph, closing)
    except LoweringError:
        return None
    other = b if a.value == value else a
    tensors = {(graph.dtype(one.value), graph.shape(one.value)) for one in (a, b, y)}
    if len(tensors) != 1 or other.value == value or other.value in graph.constants:
        return None
    numbers = tuple((float(one.scale[0]), int(one.zero[0])) for one in (a, b, y))
    fixed = fixed_part(graph.dtype(value) or "", *numbers)
    if fixed is None:
        return None
    ratios = (_ratio(a, y), _ratio(b, y))
    return Sum((first, second, adding, closing), other.value, y, ratios, fixed, other is b)


def _ratio(one: Numbers, y: Numbers) -> float:
    return float(one.scale[0] / y.scale[0])


@cache
def fixed_part(
    dtype: str, a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]
) -> float | None:
    """Return what zero points, (scale, zero point) each, are in the runtime's sums.

    None where none of the ways to add them up gives all sums of two integers of a type.
    """
    low, high = integer_range(dtype) or (0, 0)
    numbers = np.arange(low, high + 1).astype(numpy_dtype(dtype))
    pairs = np.array(list(product(numbers, numbers)), numpy_dtype(dtype)).T
    wanted = _sums(dtype, (a, b, y), pairs)
    single = np.float32
    scales = [single(scale) for scale, _ in (a, b, y)]
    first, second = scales[0] / scales[2], scales[1] / scales[2]
    given = [(first, a[1]), (second, b[1])]
    apart = [single(ratio * single(zero)) for ratio, zero in given]
    ways = [single(apart[0] + apart[1])]
    for (ratio, zero), rounded in zip(given, apart[::-1], strict=True):
        ways.append(single(float(ratio) * zero + float(rounded)))
    for way in ways:
        fixed = single(y[1]) - way
        inner = (pairs[1] * float(second) + float(fixed)).astype(single)
        sums = (pairs[0] * float(first) + inner.astype(np.float64)).astype(single)
        if np.array_equal(np.clip(np.rint(sums), low, high).astype(numbers.dtype), wanted):
            return float(fixed)
    return None


def _sums(dtype: str, given: tuple[tuple[float, int], ...], pairs: np.ndarray) -> np.ndarray:
    """Let the runtime add pairs of integers up."""
    node = helper.make_node
    constants: dict[str, np.ndarray | np.float32] = {}
    for name, (scale, zero) in zip("aby", given, strict=True):
        constants[f"{name}.scale"] = np.float32(scale)
        constants[f"{name}.zero"] = np.array(zero, numpy_dtype(dtype))
    nodes = [
        node("DequantizeLinear", ["a", "a.scale", "a.zero"], ["first"]),
        node("DequantizeLinear", ["b", "b.scale", "b.zero"], ["second"]),
        node("Add", ["first", "second"], ["sum"]),
        node("QuantizeLinear", ["sum", "y.scale", "y.zero"], ["y"]),
    ]
    info = [
        helper.make_tensor_value_info(name, element_type(dtype), [pairs.shape[1]]) for name in "aby"
    ]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "sums", info[:2], info[2:], held)
    imports = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    session = open_session(model.SerializeToString(), threads=1)
    (sums,) = session.run(None, {"a": pairs[0].copy(), "b": pairs[1].copy()})
    return np.asarray(sums)
