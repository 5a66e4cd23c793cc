"""What fused operators do where a sparse value stores nothing.

A fused expression is zero there if its driver makes it so, by the operators' specifications; and
an operator that multiplies there would see zeros that SciPy doesn't: 0 times NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from ....catalog.operators.functions import ShapeError
from ..program.dag import Node, Program
from ..program.numpy_operators import meaning
from .planning_graph import PlanningGraph

# What is known of an element at a place where the driver is zero: its value, or nothing.
Known = float | None


def at_zero(program: Program, covered: Iterable[int], driver: int) -> Mapping[int, Known]:
    """Return what covered elementwise nodes are where `driver` is zero, and the driver itself.

    `covered` is in topological order. Sparse products with zero are zero, as they are in SciPy.
    """
    at_zero_values: dict[int, Known] = {driver: 0.0}
    for number in covered:
        node = program.nodes[number]
        operands = [
            _value_at_zero(program.nodes[operand], at_zero_values) for operand in node.inputs
        ]
        # Of dense values, 0 times NaN is NaN.
        counts = not node.attributes and (node.nnz is not None or node.dtype == "bool")
        safe = _safe_positions(node.op, len(node.inputs)) if counts else ()
        if any(operands[i] == 0.0 for i in safe):
            at_zero_values[number] = 0.0
        elif operands and all(operand is not None for operand in operands):
            at_zero_values[number] = _value(node.op, _attributes(node), tuple(operands))
        else:
            at_zero_values[number] = None
    return at_zero_values


def _value_at_zero(node: Node, values: Mapping[int, Known]) -> Known:
    if node.op == "Constant":
        return float(node.attributes["value"])
    return values.get(node.id)


@lru_cache(maxsize=1024)
def _safe_positions(op: str, operands: int) -> tuple[int, ...]:
    spec = meaning(op)
    if spec is None or spec.opaque is not None or spec.kind != "elementwise":
        return ()
    declared = spec.blocks[0].inputs
    if operands > len(declared) or any(
        parameter.variadic or parameter.optional for parameter in declared[:operands]
    ):
        return ()  # what the specification says of zeros leaves these out
    return tuple(number for number in range(operands) if declared[number].name in spec.sparse_safe)


def _attributes(node: Node) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, value) for name, value in node.attributes.items() if name != "to"))


@lru_cache(maxsize=4096)
def _value(
    op: str, attributes: tuple[tuple[str, object], ...], operands: tuple[float, ...]
) -> Known:
    """Evaluate an operator at numbers; None where that isn't possible."""
    if op in ("Cast", "Identity"):
        return operands[0]
    spec = meaning(op)
    if spec is None or spec.opaque is not None or spec.kind != "elementwise":
        return None
    try:
        with np.errstate(all="ignore"):
            arrays = [np.array(operand) for operand in operands]
            (result,) = spec.evaluate(arrays, dict(attributes), outputs=1)
    except (ShapeError, TypeError, ValueError):
        return None
    return float(result)


def multiplies_unstored(graph: PlanningGraph, covered: Iterable[int], driver: int | None) -> bool:
    """Whether covered nodes, in topological order, multiply at places that aren't stored.

    Visited are all places, or those that `driver` stores: the ones of what is made of it alone.
    """
    visited = set() if driver is None else {driver}
    for number in covered:
        operands = [graph.nodes[operand.node] for operand in graph.operands[number]]
        is_sparse = graph.nodes[number].nnz is not None
        if visited.issuperset(node.id for node in operands if node.nnz is not None):
            if is_sparse:
                visited.add(number)
        elif graph.kinds[number] == "contraction" or (
            graph.kinds[number] == "elementwise"
            and is_sparse
            and any(node.nnz is None and not _is_finite(node) for node in operands)
        ):
            return True
    return False


def _is_finite(node: Node) -> bool:
    return node.op == "Constant" and math.isfinite(node.attributes["value"])
