"""Graphs within nodes, and the names that they read from the graphs around them."""

from __future__ import annotations

from collections.abc import Iterator, Set

import onnx


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node's attributes hold."""
    for attribute in node.attribute:
        yield from graphs_of(attribute)


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def nested(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those in its nodes, at any depth."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from nested(inner)


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names that initializers define, dense and sparse."""
    names = [tensor.name for tensor in graph.initializer]
    return names + [sparse.values.name for sparse in graph.sparse_initializer]


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, those that its subgraphs capture included."""
    yield from node.input
    yield from captured_names(node)


def captured_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that the subgraphs of a node read from the graphs around them."""
    for graph in subgraphs(node):
        yield from free_names(graph)


def free_names(graph: onnx.GraphProto) -> Set[str]:
    """Collect the names that a subgraph reads from the graphs around it, in its order."""
    bound = {entry.name for entry in graph.input} | set(initializer_names(graph))
    free: dict[str, None] = {}
    for node in graph.node:
        free |= dict.fromkeys(name for name in reads(node) if name and name not in bound)
        bound.update(node.output)
    free |= dict.fromkeys(entry.name for entry in graph.output if entry.name not in bound)
    return free.keys()
