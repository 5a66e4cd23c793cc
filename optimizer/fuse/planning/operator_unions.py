"""Fused operators over the same cells as one with several results, where that costs less.

The templates of PVLDB 2018 have one result, but for aggregates that share a pass (MultiAgg), and so
has each operator that the search plans. What a kernel makes of a row, it can store several things
of: the union of two operators reads once what both read, and computes once what both compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ...codegen.joining import MOST_STREAMS, join
from .fusion_candidates import over, refusal
from .fusion_plan import FusedOperator, PlainOperator, Template, Variant
from .plan_space import Operator
from .planning_graph import PlanningGraph
from .template_costs import Cover, TemplateCosts


def joined(prices: TemplateCosts, operators: Sequence[Operator]) -> list[Operator]:
    """Return the operators of a plan, those joined that cost less as one."""
    graph = prices.graph

    def touched(operator: Operator) -> Iterable[int]:
        return (*_inputs(graph, operator), *operator.outputs)

    def size(number: int) -> float:
        return graph.bytes[number] if graph.nodes[number].size > 1 else 0.0

    return join(operators, touched, size, partial(_union, prices))


def _union(
    prices: TemplateCosts, first: Operator, second: Operator, others: Sequence[Operator]
) -> Operator | None:
    """Return two operators as one; None where they can't be, or that costs no less."""
    parts = [_as_fused(prices, part) for part in (first, second)]
    if parts[0] is None or parts[1] is None or parts[0].space != parts[1].space:
        return None
    whole = _whole(prices.graph, parts[0], parts[1])
    if len(whole.inputs) + len(whole.outputs) > MOST_STREAMS or not _fits(prices.graph, whole):
        return None
    priced = prices.price(whole, whole.nodes)
    cheaper = priced.cost_s < first.cost_s + second.cost_s
    if not cheaper or _waits(prices.graph, priced) or _is_cyclic(prices.graph, priced, others):
        return None
    return priced


def _as_fused(prices: TemplateCosts, part: Operator) -> FusedOperator | None:
    """Return an operator over dense rows, and what they are reduced to; None for another one."""
    graph = prices.graph
    if isinstance(part, PlainOperator):
        reads = tuple(dict.fromkeys(operand.node for operand in graph.operands[part.node]))
        cover = Cover((part.node,), (part.node,), frozenset(), reads)
        fused = prices.cell(cover) or prices.row(cover)
    else:
        fused = part
    if fused is None or fused.sparse:
        return None
    for number in (*fused.nodes, *fused.inputs):
        if graph.nodes[number].nnz is not None:
            return None
    for number in fused.nodes:
        node = graph.nodes[number]
        if graph.kinds[number] == "movement" or refusal(graph.program, node):
            return None
    return fused


def _whole(graph: PlanningGraph, first: FusedOperator, second: FusedOperator) -> FusedOperator:
    """Return the operator that does what both do, without its price."""
    nodes = tuple(sorted({*first.nodes, *second.nodes}))
    read = (operand.node for number in nodes for operand in graph.operands[number])
    inputs = tuple(number for number in dict.fromkeys(read) if number not in nodes)
    outputs = tuple(sorted({*first.outputs, *second.outputs}))
    kinds = {_kind(graph, output) for output in outputs}
    template: Template = "Row"
    if kinds == {"full"}:
        template = "MultiAgg"
    elif all(graph.kinds[number] == "elementwise" for number in nodes):
        template = "Cell"
    variant = next(kind for kind in _VARIANTS if kind in kinds)
    rows, columns = first.space
    over_space = [number for number in inputs if graph.extents[number] == first.space]
    vectors = tuple(
        number
        for number in nodes
        if number not in outputs and graph.extents[number] == first.space and rows > 1 < columns
    )
    return FusedOperator(
        template,
        nodes,
        inputs,
        outputs,
        first.space,
        variant,
        max(over_space, key=lambda number: (graph.bytes[number], -number), default=None),
        vectors=vectors if template == "Row" else (),
    )


# What an operator of several results is called, by the first of these that one of them is.
_VARIANTS: tuple[Variant, ...] = ("none", "row", "column", "full")


def _kind(graph: PlanningGraph, output: int) -> Variant:
    """Say of what an output has a value: each cell, each row, each column, or all."""
    node = graph.nodes[output]
    if graph.kinds[output] == "reduction":
        return over(node, graph.nodes[node.inputs[0]]) or "none"  # type: ignore[return-value]
    if graph.kinds[output] == "contraction":
        if "Row" in graph.conditions.closes.get(output, ()):  # a sum over rows
            return "column"
        return "row" if len(node.shape) == 1 else "none"
    return "none"


def _fits(graph: PlanningGraph, whole: FusedOperator) -> bool:
    """Tell whether each node reads the others as its template does."""
    template = "Row" if whole.template == "Row" else "Cell"
    return all(
        template in graph.conditions.fuses.get((h, operand.node), ())
        for h in whole.nodes
        for operand in graph.operands[h]
        if operand.node in whole.nodes
    )


def _waits(graph: PlanningGraph, whole: FusedOperator) -> bool:
    """Tell whether a node reads what is known after the last row only."""
    late = {number for number in whole.nodes if _kind(graph, number) in ("column", "full")}
    return any(operand.node in late for h in whole.nodes for operand in graph.operands[h])


def _is_cyclic(graph: PlanningGraph, whole: FusedOperator, others: Sequence[Operator]) -> bool:
    """Tell whether an operator depends on others that need its results."""
    makers: Mapping[int, Operator] = {
        output: operator for operator in others for output in operator.outputs
    }
    waiting, seen = list(whole.inputs), set(whole.inputs)
    while waiting:
        number = waiting.pop()
        if number in whole.outputs:
            return True
        maker = makers.get(number)
        read = graph.nodes[number].inputs if maker is None else _inputs(graph, maker)
        waiting += [operand for operand in read if operand not in seen]
        seen.update(read)
    return False


def _inputs(graph: PlanningGraph, operator: Operator) -> tuple[int, ...]:
    if isinstance(operator, FusedOperator):
        return operator.inputs
    return graph.nodes[operator.node].inputs
