"""Sums of two quantized tensors, as the runtime computes them, rounded once.

In which order is the compiler's choice that the runtime was built with: see `formulas.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from .formulas import formula_of
from .groups import QUANTIZE, Group, Numbers, dequantized, quantized, sign_flip, sole_user


@dataclass(frozen=True)
class Sum:
    """What a product's integers are added to, by which nodes, and the integers that it gives.

    `ratios` are those of the first operand and the second, which are unsigned there, as is what is
    `fixed`; `is_first` says that the product is the first.
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
        (first, a), (second, b) = (dequantized(graph, input_) for input_ in node.inputs)
        closing = sole_user(graph, node.outputs[0])
        if graph.nodes[closing].operator != QUANTIZE:
            return None
        y = quantized(graph, closing)
    except LoweringError:
        return None
    other = b if a.value == value else a
    tensors = {(graph.dtype(operand.value), graph.shape(operand.value)) for operand in (a, b, y)}
    if len(tensors) != 1 or other.value == value or other.value in graph.constants:
        return None
    flip = sign_flip(graph.dtype(value))
    numbers = ((float(operand.scale[0]), int(operand.zero[0]) + flip) for operand in (a, b, y))
    formula = formula_of("Add", *numbers, "")
    if formula is None or formula.is_swapped:
        return None
    nodes, ratios = (first, second, adding, closing), (formula.first, formula.second)
    return Sum(nodes, other.value, y, ratios, formula.fixed, other is b)
