"""The numbers of a product of 8-bit integers: a QDQ group, or an operator of quantized numbers.

Which nodes such a group has is derived by regions/integers.dl. What it is told by constants is read
here: scales, zero points and a bias. Sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, Node
from ..regions.region_candidates import IntegerOperator, Integers

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# What quantizes by the range of the numbers themselves.
RANGED = "DynamicQuantizeLinear"
# How far a bias may be from integers of the scale that sums have, relative to that scale.
NEAR = 1e-4


@dataclass(frozen=True)
class Numbers:
    """A tensor of integers, its scales and zero points: of all of it, or one for each output."""

    value: int
    scale: np.ndarray
    zero: np.ndarray


@dataclass(frozen=True)
class Group:
    """A product of integers: its nodes, operands, and the integers that become of sums.

    `nodes` are what it is spelled with, the product last but for the quantization. `bias` are
    integers of the sums' scale, one for each output, or None.
    """

    nodes: tuple[int, ...]
    product: int
    x: Numbers
    w: Numbers
    y: Numbers
    bias: np.ndarray | None
    transposed: bool = False


def separate(graph: Graph) -> None:
    """Give each reader of a dequantized tensor a node of its own, as the runtime does.

    The same for scales of products that are quantized while the model runs.
    """
    for number in graph.order():
        node = graph.nodes[number]
        if node.operator != DEQUANTIZE and not _scales(graph, node):
            continue
        if graph.is_pinned(node.outputs[0]):
            continue
        (value,) = node.outputs
        for user in sorted(graph.users.get(value, ()))[1:]:
            reader = graph.nodes[user]
            copied = graph.new_value(graph.names[value], graph.types.get(value))
            graph.add_node(_renamed(node, (copied,), node.inputs))
            inputs = tuple(copied if input_ == value else input_ for input_ in reader.inputs)
            graph.remove_node(user)
            graph.put_node(user, _renamed(reader, reader.outputs, inputs))


def _scales(graph: Graph, node: Node) -> bool:
    """Tell whether a node multiplies the scale that a tensor is quantized with by a known one."""
    makers = [graph.nodes[graph.producer[v]] for v in node.inputs if v in graph.producer]
    return (
        node.operator == "Mul"
        and [maker.operator for maker in makers] == [RANGED]
        and any(value in graph.constants for value in node.inputs)
    )


def _renamed(node: Node, outputs: tuple[int, ...], inputs: tuple[int, ...]) -> Node:
    return Node(
        node.op_type, node.domain, inputs, outputs, node.attributes, node.captures, "", node.rule
    )


def group_of(graph: Graph, operator: IntegerOperator) -> Group:
    """Read the numbers of a product of integers; LoweringError for others than the runtime's."""
    x, w = (numbers_of(graph, operand) for operand in operator.operands[:2])
    bias = None
    if len(operator.operands) > 2:
        bias = _bias(graph, operator.operands[2], x, w)
    transposed = bool(graph.attributes(operator.number).get("transB"))
    if w.scale.size > 1 and operator.operands[1].node != operator.number:
        rank = len(graph.shape(w.value) or ())
        axis = int(graph.attribute(operator.operands[1].node, "axis"))  # type: ignore[call-overload]
        is_first = transposed or graph.nodes[operator.number].op_type == "Conv"
        if axis % rank != (0 if is_first else rank - 1):
            raise LoweringError("scales along another axis than the outputs'")
    y = numbers_of(graph, operator.result)
    return Group(operator.nodes, operator.number, x, w, y, bias, transposed)


def numbers_of(graph: Graph, integers: Integers) -> Numbers:
    """Return what integers stand for, by scales of outputs if there are several."""
    scales = constant_array(graph, integers.scale).reshape(-1)
    if scales.dtype != np.float32 or not (np.isfinite(scales) & (scales > 0)).all():
        raise LoweringError("no scale")
    zeros = np.zeros(1, np.int32)
    if integers.zero != ABSENT:
        zeros = constant_array(graph, integers.zero).reshape(-1)
    if zeros.size not in (1, scales.size):
        raise LoweringError("other zero points than scales")
    return Numbers(integers.value, scales, zeros.astype(np.int32))


def _bias(graph: Graph, integers: Integers, x: Numbers, w: Numbers) -> np.ndarray:
    """Return the integers of a bias, which the runtime takes for those of the sums' scale."""
    bias = constant_array(graph, integers.value)
    if integers.scale == ABSENT:
        return bias
    scale = constant_array(graph, integers.scale).reshape(-1)
    zero = 0 if integers.zero == ABSENT else constant_array(graph, integers.zero)
    if bias.dtype != np.int32 or np.any(zero):
        raise LoweringError("a bias of other integers")
    if not np.allclose(scale, x.scale * w.scale, rtol=NEAR, atol=0):
        raise LoweringError("a bias of another scale than the sums'")
    return bias


def sign_flip(dtype: str | None) -> int:
    """Return the bits to turn over in integers of 8 bits, so that they are unsigned ones."""
    return 128 if dtype == "int8" else 0


def constant_array(graph: Graph, value: int) -> np.ndarray:
    """Return a constant; LoweringError where a value is none."""
    constant = graph.constants.get(value)
    if constant is None:
        raise LoweringError("scales that aren't known")
    return constant.array()
