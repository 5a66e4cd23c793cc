"""Sums of two quantized tensors, as the runtime computes them, rounded once.

In which order is the compiler's choice that the runtime was built with: see `formulas.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph.graph import Graph
from ..regions.region_candidates import IntegerOperator
from .formulas import formula_of
from .groups import Group, Numbers, numbers_of, sign_flip


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


def sum_behind(graph: Graph, group: Group, operator: IntegerOperator) -> Sum | None:
    """Read the sum that a product's integers go into alone; None where it isn't the runtime's."""
    a, b = (numbers_of(graph, operand) for operand in operator.operands)
    y = numbers_of(graph, operator.result)
    flip = sign_flip(graph.dtype(y.value))
    quantizations = ((float(of.scale[0]), int(of.zero[0]) + flip) for of in (a, b, y))
    formula = formula_of("Add", *quantizations, "")
    if formula is None or formula.is_swapped:
        return None
    other = b if a.value == group.y.value else a
    ratios = (formula.first, formula.second)
    return Sum(operator.nodes, other.value, y, ratios, formula.fixed, other is b)
