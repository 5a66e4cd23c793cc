"""A graph as people see it: nodes with shapes and prices, and where the time goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx

from ...profiles.kernel import Kernel, dtype_name
from ...profiles.kernels.costs import Cost
from ...rules import ABSENT
from ..graph.graph import Graph, TensorType
from ..price import Prices

if TYPE_CHECKING:
    from .schema import DrawnGraph, OperatorCost
    from .schema import Node as DrawnNode

SHOWN_CHARACTERS = 60
UNKNOWN = Cost(0.0, 0.0, "bound")


def operator_costs(
    before: Iterable[tuple[str, Cost]], after: Iterable[tuple[str, Cost]]
) -> list[OperatorCost]:
    """Add up pairs of an operator and the cost of a call, the dearest operator first."""
    costs: dict[str, OperatorCost] = {}
    for side, calls in (("before", before), ("after", after)):
        for operator, cost in calls:
            row = costs.setdefault(
                operator,
                {
                    "op_type": operator,
                    "calls_before": 0,
                    "calls_after": 0,
                    "before_ns": 0.0,
                    "after_ns": 0.0,
                    "bounded": False,
                },
            )
            row["bounded"] |= cost.source == "bound" and cost.ns > 0
            if side == "before":
                row["calls_before"] += 1
                row["before_ns"] += cost.ns
            else:
                row["calls_after"] += 1
                row["after_ns"] += cost.ns
    return sorted(costs.values(), key=lambda row: -max(row["before_ns"], row["after_ns"]))


def calls_of(
    graph: Graph, kernels: Mapping[int, Kernel], prices: Prices
) -> Iterator[tuple[str, Cost]]:
    """Give the operator of each node and what it costs; nothing where that is not known."""
    for number, node in graph.nodes.items():
        yield node.operator, prices.cost(kernels[number]) if number in kernels else UNKNOWN


def calls_run(run: Counter[Kernel], prices: Prices) -> Iterator[tuple[str, Cost]]:
    """Give the operator of each kernel that runs, and what it costs."""
    for kernel in run.elements():
        name = f"{kernel.domain}:{kernel.op_type}" if kernel.domain else kernel.op_type
        yield name, prices.cost(kernel)


def drawn_graph(
    graph: Graph,
    types: Mapping[int, TensorType],
    kernels: Mapping[int, Kernel],
    prices: Prices | None,
    rules: Mapping[int, str],
) -> DrawnGraph:
    """Describe a graph for the report; `rules` names the rule that made or removed a node."""
    nodes: list[DrawnNode] = []
    for number in graph.order():
        node = graph.nodes[number]
        first = types.get(node.outputs[0]) if node.outputs else None
        drawn: DrawnNode = {
            "id": number,
            "name": graph.node_name(number),
            "op": node.operator,
            "inputs": [graph.value_name(value) for value in node.inputs],
            "outputs": [graph.value_name(value) for value in node.outputs],
            "shape": list(first.shape) if first and first.shape is not None else None,
            "dtype": first.dtype if first else None,
            "attributes": {name: _short(value) for name, value in graph.attributes(number).items()},
            "rule": rules.get(number) or node.rule or None,
        }
        if prices is not None and number in kernels:
            cost = prices.cost(kernels[number])
            drawn["cost_ns"] = cost.ns
            drawn["cost_source"] = cost.source
        nodes.append(drawn)
    read = {v for node in graph.nodes.values() for v in node.reads if v != ABSENT}
    return {
        "nodes": nodes,
        "inputs": [graph.names[value] for value in graph.graph_inputs],
        "outputs": [graph.names[value] for value in graph.graph_outputs],
        "constants": {
            graph.names[value]: _described(constant.type)
            for value, constant in graph.constants.items()
            if value in read
        },
    }


def _described(type_: TensorType) -> str:
    return _typed(type_.dtype, type_.shape or ())


def _typed(dtype: object, shape: Sequence[object]) -> str:
    return f"{dtype} {'x'.join(map(str, shape)) or 'scalar'}"


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return _typed(value.dtype, value.shape)
    if isinstance(value, onnx.TensorProto):
        return _typed(dtype_name(value.data_type), value.dims)
    text = str(list(value)) if isinstance(value, tuple) else str(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
