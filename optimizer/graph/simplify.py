"""Dead code and common subexpressions: what needs no rule because it holds for every operator."""

from __future__ import annotations

from collections import defaultdict

from ...catalog.operators import schema_for
from ...rules import ABSENT
from .graph import Graph, Node


def remove_dead(graph: Graph) -> int:
    """Remove the nodes that no output depends on; return how many went."""
    live: set[int] = set()
    stack = [graph.producer[value] for value in graph.graph_outputs if value in graph.producer]
    while stack:
        number = stack.pop()
        if number in live:
            continue
        live.add(number)
        stack.extend(
            graph.producer[value] for value in graph.nodes[number].reads if value in graph.producer
        )
    dead = [number for number in graph.nodes if number not in live]
    for number in dead:
        graph.remove_node(number)
    return len(dead)


def remove_dead_constants(graph: Graph) -> int:
    """Remove the constants that nothing reads; return how many went."""
    kept = {value for value, users in graph.users.items() if users} | set(graph.graph_outputs)
    dead = [value for value in graph.constants if value not in kept]
    for value in dead:
        del graph.constants[value]
    return len(dead)


def is_pure(graph: Graph, node: Node) -> bool:
    """Tell whether equal inputs give equal outputs, and nothing else happens."""
    if node.captures or any(a.HasField("g") or a.graphs for a in node.attributes.values()):
        return False
    spec = schema_for(node.domain, node.op_type, graph.opset(node.domain))
    return spec is not None and spec.deterministic


def share_constants(graph: Graph) -> int:
    """Let equal small constants be one; return how many became redundant."""
    groups: dict[tuple[str, object, bytes], list[int]] = defaultdict(list)
    for value, constant in graph.constants.items():
        size = constant.type.size_bytes
        if size is not None and size <= 1024 and constant.type.dtype != "string":
            key = (constant.type.dtype, constant.type.shape, constant.array().tobytes())
            groups[key].append(value)
    shared = 0
    for values in groups.values():
        for value in values[1:]:
            if not graph.is_pinned(value):
                graph.replace_uses(value, values[0])
                del graph.constants[value]
                shared += 1
    return shared


def share_subexpressions(graph: Graph) -> list[tuple[int, int]]:
    """Let nodes that compute the same be one; return pairs (removed, kept)."""
    seen: dict[tuple[object, ...], int] = {}
    shared: list[tuple[int, int]] = []
    for number in graph.order():
        node = graph.nodes[number]
        if not is_pure(graph, node):
            continue
        attributes = tuple(
            sorted(
                (name, proto.SerializeToString(deterministic=True))
                for name, proto in node.attributes.items()
            )
        )
        present = tuple(value != ABSENT for value in node.outputs)
        key = (node.domain, node.op_type, node.inputs, attributes, present)
        kept = seen.setdefault(key, number)
        if kept == number or any(graph.is_pinned(value) for value in node.outputs):
            continue
        for old, new in zip(node.outputs, graph.nodes[kept].outputs, strict=True):
            if old != ABSENT:
                graph.replace_uses(old, new)
        graph.remove_node(number)
        shared.append((number, kept))
    return shared
