"""Operators in execution order, with the transposes that they read through or cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .graph import Graph, Operand
from .plan import FusedOperator, PlainOperator
from .region import Operator


def steps(graph: Graph, operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Order operators such that each follows what it reads; views that they need are added."""
    found: dict[int, Operator] = {}
    for one in operators:
        complete = _with_turns(graph, one) if isinstance(one, FusedOperator) else one
        for output in complete.outputs:
            found[output] = complete
    ordered: dict[Operator, None] = {}
    opened: set[int] = set()

    def visit(number: int) -> None:
        node = graph.nodes[number]
        if node.is_leaf or number in opened:
            return
        opened.add(number)
        operator = found.get(number) or PlainOperator(number)
        inputs = operator.inputs if isinstance(operator, FusedOperator) else node.inputs
        for one in sorted(inputs):
            visit(one)
        opened.update(operator.outputs)
        ordered[operator] = None

    for number in graph.live:
        if number in found:
            visit(number)
    return tuple(ordered)


def _with_turns(graph: Graph, operator: FusedOperator) -> FusedOperator:
    """Name a transpose as covered where rows are read of what it turns, else as the input."""
    held = set(operator.nodes)
    inputs: dict[int, None] = {}
    # a transpose that one node reads as an array, all do
    given = {
        operand.via
        if operand.via is not None and not covers_turn(graph, operator, h, operand)
        else operand.node
        for h in operator.nodes
        for operand in graph.operands[h]
    }
    for h in operator.nodes:
        for operand in graph.operands[h]:
            if operand.via is not None and operand.via not in given:
                held.add(operand.via)
                read = operand.node
            else:
                read = operand.node if operand.via is None else operand.via
            if read not in operator.nodes:
                inputs[read] = None
    driver = operator.driver if operator.driver in inputs else None
    return replace(operator, nodes=tuple(sorted(held)), inputs=tuple(inputs), driver=driver)


def covers_turn(graph: Graph, operator: FusedOperator, h: int, operand: Operand) -> bool:
    """Whether an operator reads below the transpose of a product's operand."""
    if operand.node in operator.nodes:
        return True
    if operator.template == "Outer":
        return operator.outer is not None and operator.outer.node == h and operand.position == 1
    return operand.position == 0
