"""Nodes in the order that ONNX asks for: each after those whose outputs it reads."""

from __future__ import annotations

import onnx

from ..ordering import CycleError, topological
from ..subgraphs import reads


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Sort the nodes of a model's main graph that are in another order, in place.

    ONNX Runtime does so, and in no other graph. Those with a cycle stay as they are.
    """
    nodes = graph.node
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}

    def needed(i: int) -> list[int]:
        return [makers[name] for name in reads(nodes[i]) if name in makers]

    if all(maker < i for i in range(len(nodes)) for maker in needed(i)):
        return
    try:
        ordered = [nodes[i] for i in topological(range(len(nodes)), needed)]
    except CycleError:
        return
    del nodes[:]
    nodes.extend(ordered)
