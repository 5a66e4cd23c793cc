"""A kernel in a graph: the nodes of a region replaced by one of the library's operators."""

from __future__ import annotations

import onnx

from ..graph.convert import type_proto
from ..graph.graph import Graph, Node
from .loops.lower import Kernel

RULE = "FuseKernel"
# The domain of kernels whose library isn't built yet.
PENDING = "tensolog.kernels"


def place(graph: Graph, nodes: tuple[int, ...], kernel: Kernel) -> bool:
    """Put a kernel in the place of nodes; False, and nothing changed, where that made a cycle.

    The operator's domain is that of the library, which isn't known yet: see `embed`.
    """
    kept = {number: graph.nodes[number] for number in nodes}
    for number in nodes:
        graph.remove_node(number)
    made = graph.add_node(Node(kernel.name, PENDING, kernel.inputs, kernel.outputs, {}, rule=RULE))
    try:
        graph.order()
    except ValueError:
        graph.remove_node(made)
        for number, node in kept.items():
            graph.put_node(number, node)
        return False
    return True


def embed(graph: Graph, domain: str, old: str = PENDING) -> Graph:
    """Return the graph with its kernels' operators in a library's domain, instead of an old one."""
    bound = graph.copy()
    for number, node in list(bound.nodes.items()):
        if node.domain == old:
            bound.nodes[number] = Node(
                node.op_type, domain, node.inputs, node.outputs, {}, rule=node.rule
            )
    bound.base = onnx.ModelProto()
    bound.base.CopyFrom(graph.base)
    imports = [entry for entry in bound.base.opset_import if entry.domain != old]
    del bound.base.opset_import[:]
    bound.base.opset_import.extend(imports)
    bound.base.opset_import.add(domain=domain, version=1)
    _declare(bound, domain)
    return bound


def _declare(graph: Graph, domain: str) -> None:
    """Declare the types of the kernels' outputs: the runtime infers none for foreign operators."""
    info = graph.base.graph.value_info
    declared = {entry.name for entry in (*info, *graph.base.graph.output)}
    for node in graph.nodes.values():
        if node.domain != domain:
            continue
        for value in node.outputs:
            name, type_ = graph.names[value], graph.types.get(value)
            if name not in declared and type_ is not None:
                info.append(onnx.ValueInfoProto(name=name, type=type_proto(type_)))
