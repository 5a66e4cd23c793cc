"""The runtime's own operators of quantized numbers, spelled as ONNX's between QDQ nodes.

`quantize_static` writes QLinearAdd, QGemm and others in its format of operators. ONNX has neither
schemas nor shapes for them, and of QDQ nodes the runtime makes the same operators again. So there
is one form of each for all that looks for kernels. Signed activations stay as they are: between QDQ
nodes the runtime makes unsigned ones of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, Node
from ...graph.infer import refine_types
from .groups import DEQUANTIZE, QUANTIZE, constant_array

DOMAIN = "com.microsoft"
# Operators of several operands with (numbers, scale, zero point) each, and of one.
OF_SEVERAL = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
OF_ONE = {
    "QLinearSigmoid": "Sigmoid",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearSoftmax": "Softmax",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearAveragePool": "AveragePool",
}
# Attributes that ONNX's operators lack, with the value that means nothing.
FURTHER = {"channels_last": 0, "opset": None}
# Scales of single axes, and a softmax along one alone, from this operator set on.
LEAST_OPSET = 13


@dataclass
class _Spelling:
    """The nodes that stand for one operator, in the making."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list)

    def dequantized(self, value: int, scale: int, zero: int, axis: int | None = None) -> int:
        """Return the numbers that integers stand for, by scales of an axis if there are several."""
        graph = self.graph
        attributes = {}
        if axis is not None and constant_array(graph, scale).size > 1:
            attributes["axis"] = helper.make_attribute("axis", axis)
        result = graph.new_value(f"{graph.names[value]}.real")
        inputs = (value, scale, *(() if zero == ABSENT else (zero,)))
        self.nodes.append(Node(DEQUANTIZE, "", inputs, (result,), attributes))
        return result

    def computed(
        self, op_type: str, inputs: tuple[int, ...], attributes: dict[str, onnx.AttributeProto]
    ) -> int:
        result = self.graph.new_value(f"{op_type}.real")
        self.nodes.append(Node(op_type, "", inputs, (result,), attributes))
        return result

    def quantized(self, value: int, scale: int, zero: int, target: int) -> None:
        inputs = (value, scale, *(() if zero == ABSENT else (zero,)))
        self.nodes.append(Node(QUANTIZE, "", inputs, (target,), {}))


def spell(graph: Graph) -> int:
    """Spell such operators in a graph, and infer the types that follow; count them."""
    if graph.opset() < LEAST_OPSET:
        return 0
    count = 0
    for number in graph.order():
        node = graph.nodes[number]
        if node.domain != DOMAIN:
            continue
        try:
            nodes = _spelled(graph, node)
        except LoweringError:
            continue
        if nodes:
            graph.remove_node(number)
            for spelled_node in nodes:
                graph.add_node(spelled_node)
            count += 1
    if count:
        refine_types(graph)
    return count


def _spelled(graph: Graph, node: Node) -> list[Node]:
    """Return the nodes that an operator is spelled with; none for another operator."""
    spelling, (target, *_) = _Spelling(graph), node.outputs
    inputs = (*node.inputs, *(ABSENT,) * 9)
    if node.op_type in OF_SEVERAL:
        zeros, scale, zero = (inputs[2], inputs[5]), inputs[6], inputs[7]
        _refuse_signed(graph, (*zeros, zero))
        operands = tuple(spelling.dequantized(*inputs[first : first + 3]) for first in (0, 3))
        result = spelling.computed(OF_SEVERAL[node.op_type], operands, {})
        spelling.quantized(result, scale, zero, target)
    elif node.op_type in OF_ONE:
        _refuse_signed(graph, (inputs[2], inputs[4]))
        attributes = {n: a for n, a in node.attributes.items() if n not in FURTHER}
        if any(node.attributes[n].i for n in ("channels_last",) if n in node.attributes):
            raise LoweringError("channels that come last")
        if "opset" in node.attributes and node.attributes["opset"].i < LEAST_OPSET:
            raise LoweringError("a softmax over several axes")
        operand = spelling.dequantized(*inputs[:3])
        result = spelling.computed(OF_ONE[node.op_type], (operand,), attributes)
        spelling.quantized(result, inputs[3], inputs[4], target)
    elif node.op_type == "QLinearConcat":
        scale, zero, *operands_of = node.inputs
        triples = [operands_of[first : first + 3] for first in range(0, len(operands_of), 3)]
        _refuse_signed(graph, (zero, *(triple[2] for triple in triples)))
        read = tuple(spelling.dequantized(*triple) for triple in triples)
        spelling.quantized(
            spelling.computed("Concat", read, dict(node.attributes)), scale, zero, target
        )
    elif node.op_type == "QGemm":
        _gemm(graph, node, spelling, inputs, target)
    return spelling.nodes


def _gemm(
    graph: Graph, node: Node, spelling: _Spelling, inputs: tuple[int, ...], target: int
) -> None:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, scale, zero = inputs[:9]
    _refuse_signed(graph, (a_zero, zero))
    attributes = dict(node.attributes)
    if ("alpha" in attributes and attributes["alpha"].f != 1.0) or scale == ABSENT:
        raise LoweringError("a product that is multiplied, or gives numbers")
    transposed = bool(attributes["transB"].i) if "transB" in attributes else False
    read = [
        spelling.dequantized(a, a_scale, a_zero),
        spelling.dequantized(b, b_scale, b_zero, 0 if transposed else 1),
    ]
    if bias != ABSENT:
        scales = np.asarray(
            constant_array(graph, a_scale) * constant_array(graph, b_scale), np.float32
        )
        of_sums = graph.add_constant(
            scales.reshape(constant_array(graph, b_scale).shape), "sums.scale"
        )
        read.append(spelling.dequantized(bias, of_sums, ABSENT, 0))
    result = spelling.computed("Gemm", tuple(read), attributes)
    spelling.quantized(result, scale, zero, target)


def _refuse_signed(graph: Graph, zeros: tuple[int, ...]) -> None:
    """Raise LoweringError where integers aren't known to be unsigned, by their zero points."""
    if any(zero == ABSENT or constant_array(graph, zero).dtype != np.uint8 for zero in zeros):
        raise LoweringError("integers that are signed, or not known to be none")
