"""What is a product of 8-bit integers: a QDQ group, or an operator of quantized numbers.

A quantized model dequantizes two operands, multiplies, and quantizes the result. ONNX Runtime makes
one operator of integers of that, as `QLinearConv` is one from the start:

    Q(Conv(DQ(X), DQ(W), DQ(B)))   =   round((sum of X W + B) * scale(X) scale(W) / scale(Y)) + zero

with exact sums. What these groups have in common is said by `Group`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, Node

INTEGERS = frozenset({"int8", "uint8"})
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
# What quantizes by the range of the numbers themselves.
RANGED = "DynamicQuantizeLinear"
PRODUCTS = frozenset({"MatMul", "Gemm", "Conv"})
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


def group_of(graph: Graph, number: int) -> Group | None:
    """Return the product of integers that a node is the product of; None where it is in none."""
    node = graph.nodes[number]
    try:
        if node.operator in PRODUCTS:
            return _spelled(graph, number)
        if node.operator in ("QLinearConv", "QLinearMatMul"):
            return _operator(graph, number)
    except LoweringError:
        pass
    return None


def _spelled(graph: Graph, number: int) -> Group:
    node = graph.nodes[number]
    transposed = False
    if node.op_type == "Gemm":
        plain = graph.attribute(number, "alpha") == 1.0 and graph.attribute(number, "beta") == 1.0
        if not plain or graph.attribute(number, "transA"):
            raise LoweringError("a Gemm that is more than a product")
        transposed = bool(graph.attribute(number, "transB"))
    (result,) = node.outputs
    quantizing = sole_user(graph, result)
    if graph.nodes[quantizing].operator != QUANTIZE:
        raise LoweringError("a result that isn't quantized")
    axis = 0 if node.op_type == "Conv" or transposed else -1
    first, x = dequantized(graph, node.inputs[0])
    second, w = dequantized(graph, node.inputs[1], axis)
    nodes = [first, second]
    bias = None
    if len(node.inputs) > 2 and node.inputs[2] != ABSENT:
        third, bias = _bias(graph, node.inputs[2], x, w)
        nodes.append(third)
    return Group(
        (*nodes, number, quantizing), number, x, w, quantized(graph, quantizing), bias, transposed
    )


def _operator(graph: Graph, number: int) -> Group:
    node = graph.nodes[number]
    given = [numbers_of(graph, *node.inputs[first : first + 3]) for first in (0, 3)]
    (result,) = node.outputs
    y = numbers_of(graph, result, *node.inputs[6:8])
    bias = None
    if len(node.inputs) > 8 and node.inputs[8] != ABSENT:
        bias = known(graph, node.inputs[8])
    return Group((number,), number, given[0], given[1], y, bias)


def dequantized(graph: Graph, value: int, axis: int | None = None) -> tuple[int, Numbers]:
    """Return the node that dequantizes a value for one reader, and what it is of.

    Scales may be those of an `axis`, where one is told; LoweringError for anything else.
    """
    number = graph.producer.get(value)
    if number is None or graph.nodes[number].operator != DEQUANTIZE or graph.is_pinned(value):
        raise LoweringError("an operand that isn't dequantized")
    sole_user(graph, value)
    node = graph.nodes[number]
    if graph.attributes(number).get("block_size"):
        raise LoweringError("scales of blocks")
    numbers = numbers_of(graph, *(*node.inputs, ABSENT)[:3])
    if numbers.scale.size > 1:
        rank = len(graph.shape(value) or ())
        told = int(graph.attribute(number, "axis"))  # type: ignore[call-overload]
        if axis is None or told % rank != axis % rank:
            raise LoweringError("scales along another axis")
    return number, numbers


def quantized(graph: Graph, number: int) -> Numbers:
    """Return what a node quantizes to, by one scale."""
    node = graph.nodes[number]
    (result,) = node.outputs
    numbers = numbers_of(graph, result, *(*node.inputs[1:], ABSENT)[:2])
    if numbers.scale.size != 1 or graph.attributes(number).get("precision"):
        raise LoweringError("a result of several scales")
    return numbers


def alike(first: Numbers, other: Numbers) -> bool:
    """Tell whether integers stand for the same numbers in two tensors."""
    pairs = ((first.scale, other.scale), (first.zero, other.zero))
    return all(np.array_equal(a, b) for a, b in pairs)


def numbers_of(graph: Graph, value: int, scale: int, zero: int) -> Numbers:
    """Return a tensor of 8-bit integers with known scales and zero points; else LoweringError."""
    dtype = graph.dtype(value) or ""
    if dtype not in INTEGERS:
        raise LoweringError("integers of other types")
    scales = known(graph, scale).reshape(-1)
    if scales.dtype != np.float32 or not (np.isfinite(scales) & (scales > 0)).all():
        raise LoweringError("no scale")
    zeros = np.zeros(1, np.int32) if zero == ABSENT else known(graph, zero).reshape(-1)
    if zeros.size not in (1, scales.size):
        raise LoweringError("other zero points than scales")
    return Numbers(value, scales, zeros.astype(np.int32))


def _bias(graph: Graph, value: int, x: Numbers, w: Numbers) -> tuple[int, np.ndarray]:
    """Return the integers of a bias, which the runtime takes for those of the sums' scale."""
    number = graph.producer.get(value)
    if number is None or graph.nodes[number].operator != DEQUANTIZE or graph.is_pinned(value):
        raise LoweringError("a bias that isn't dequantized")
    sole_user(graph, value)
    node = graph.nodes[number]
    integers = known(graph, node.inputs[0])
    scale = known(graph, node.inputs[1]).reshape(-1)
    zero = known(graph, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] != ABSENT else 0
    if integers.dtype != np.int32 or np.any(zero):
        raise LoweringError("a bias of other integers")
    if not np.allclose(scale, x.scale * w.scale, rtol=NEAR, atol=0):
        raise LoweringError("a bias of another scale than the sums'")
    return number, integers


def sign_flip(dtype: str | None) -> int:
    """Return the bits to turn over in integers of 8 bits, so that they are unsigned ones."""
    return 128 if dtype == "int8" else 0


def known(graph: Graph, value: int) -> np.ndarray:
    """Return a constant; LoweringError where a value is none."""
    constant = graph.constants.get(value)
    if constant is None:
        raise LoweringError("scales that aren't known")
    return constant.array()


def sole_user(graph: Graph, value: int) -> int:
    """Return the node that alone reads a value; LoweringError where it is none, or not the only."""
    users = graph.users.get(value, set())
    if len(users) != 1 or graph.is_pinned(value):
        raise LoweringError("a value that others read")
    return next(iter(users))
