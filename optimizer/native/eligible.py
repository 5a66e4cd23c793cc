"""Nodes that kernels may compute: what the runtime computes in each run, and rounds to no integer.

What depends on no input is folded by the runtime when a session opens. And where a number is
rounded to an integer right after, the last bit decides: by other sums, positions that are just as
far apart would fall into other buckets.
"""

from __future__ import annotations

from collections.abc import Collection

from ..graph.graph import Graph
from .loops.kernel_region import Meanings

STEPS = frozenset({"Floor", "Ceil", "Round"})


def steady(meanings: Meanings, allowed: Collection[int]) -> set[int]:
    """Return those of some nodes that kernels may compute."""
    graph = meanings.graph
    order = graph.order()
    varying: set[int] = set(graph.graph_inputs)
    running: set[int] = set()
    for number in order:
        node = graph.nodes[number]
        if varying & set(node.reads):
            varying |= set(node.outputs)
            running.add(number)
    rounded: set[int] = set()  # values that are made integers, after elementwise operators alone
    for number in reversed(order):
        node = graph.nodes[number]
        stepping = node.op_type in STEPS or _makes_integers(graph, number)
        if stepping or (rounded & set(node.outputs) and meanings.kind(number) == "elementwise"):
            rounded |= set(node.inputs)
    return {
        number
        for number in allowed
        if number in running
        and graph.nodes[number].op_type not in STEPS
        and not rounded & set(graph.nodes[number].outputs)
    }


def _makes_integers(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    if node.op_type != "Cast":
        return False
    source, target = graph.dtype(node.inputs[0]) or "", graph.dtype(node.outputs[0]) or ""
    return "float" in source and "int" in target
