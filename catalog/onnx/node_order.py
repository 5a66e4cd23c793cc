"""Nodes in the order that ONNX asks for: each after those whose outputs it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from ..ordering import CycleError, topological


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


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, those that its subgraphs capture included."""
    yield from node.input
    for graph in inner_graphs(node):
        defined = {value.name for value in graph.input} | set(initializer_names(graph))
        for inner in graph.node:
            yield from (name for name in reads(inner) if name not in defined)
            defined.update(inner.output)


def inner_graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    """Yield the graphs that a node holds."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names that initializers define, dense and sparse."""
    names = [tensor.name for tensor in graph.initializer]
    return names + [sparse.values.name for sparse in graph.sparse_initializer]
