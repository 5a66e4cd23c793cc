"""QDQ groups that the runtime makes one operator of: what kernels take whole, or leave.

A kernel of a part of such a group would keep the runtime from it, and what is computed then is
another number: a sum of two quantized tensors, say, is rounded once, and not after each of its
operands. So that a plan gives what the original gives, a region has all nodes of a group or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..loops.kernel_region import Meanings
from .groups import DEQUANTIZE, INTEGERS, QUANTIZE

# What the runtime has kernels of integers for, and what only moves them.
COMPUTING = frozenset(
    {"Conv", "MatMul", "Gemm", "Add", "Mul", "Softmax", "Sigmoid", "LeakyRelu", "Concat", "Where"}
    | {"AveragePool", "GlobalAveragePool"}
)
MOVING = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Gather", "MaxPool", "Resize"}
    | {"Expand", "Slice", "Split"}
)


def groups_of(graph: Graph) -> list[frozenset[int]]:
    """Return the nodes of each group: an operator, what dequantizes for it, and what quantizes."""
    groups = []
    for number, node in graph.nodes.items():
        if node.operator not in COMPUTING | MOVING:
            continue
        before = {graph.producer.get(value) for value in node.inputs if value != ABSENT}
        opening = {
            neighbour
            for neighbour in before
            if neighbour is not None and _converts(graph, neighbour, DEQUANTIZE)
        }
        closing = {user for value in node.outputs for user in graph.users.get(value, ())}
        closes = all(_converts(graph, user, QUANTIZE) for user in closing)
        if opening and closes and not any(graph.is_pinned(value) for value in node.outputs):
            groups.append(frozenset({number, *opening, *closing}))
    return groups


def refuse_real(meanings: Meanings, number: int) -> None:
    """Raise LoweringError where the runtime computes a node between QDQ nodes in float32.

    It makes no operator of integers of some groups: of many of signed integers, on processors
    without kernels for them. Then the numbers that it quantizes are in the model as it is run.
    """
    graph = meanings.graph
    (result,) = graph.nodes[number].outputs
    if graph.dtype(result) not in INTEGERS and graph.names[result] in (meanings.optimized or {}):
        raise LoweringError("a group that the runtime computes in float32")


def whole(groups: Iterable[frozenset[int]], nodes: Collection[int]) -> bool:
    """Tell whether nodes have each of some groups as a whole, or nothing of it."""
    chosen = set(nodes)
    return all(group <= chosen or not group & chosen for group in groups)


def outside(groups: Iterable[frozenset[int]], nodes: Collection[int]) -> set[int]:
    """Return those of some nodes that are in no group."""
    return set(nodes).difference(*groups)


def _converts(graph: Graph, number: int, operator: str) -> bool:
    node = graph.nodes[number]
    integers = node.inputs[0] if operator == DEQUANTIZE else node.outputs[0]
    return node.operator == operator and graph.dtype(integers) in INTEGERS | {"int32"}
