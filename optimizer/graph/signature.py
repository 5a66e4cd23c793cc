"""What a graph is made of, whatever its values are called: equal ones need no race."""

from __future__ import annotations

import hashlib

from ...rules import ABSENT
from .graph import Graph

# Constants up to this size are told apart by their elements, larger ones by their names.
COMPARED_BYTES = 4096


def signature(graph: Graph) -> str:
    """A hash that graphs of equal nodes over equal operands share, and others don't."""
    values: dict[int, str] = {ABSENT: "", **{v: graph.names[v] for v in graph.graph_inputs}}

    def spelled(value: int) -> str:
        if value not in values:
            constant = graph.constants.get(value)
            text = graph.names[value]
            if constant is not None and constant.type.dtype != "string":
                size = constant.type.size_bytes
                if size is not None and size <= COMPARED_BYTES:
                    text = f"{constant.type}{constant.array().tobytes()!r}"
            values[value] = text
        return values[value]

    nodes: list[str] = []
    for number in graph.order():
        node = graph.nodes[number]
        attributes = sorted(
            (name, proto.SerializeToString(deterministic=True))
            for name, proto in node.attributes.items()
        )
        present = [value != ABSENT for value in node.outputs]
        operands = [spelled(value) for value in (*node.inputs, *sorted(node.captures))]
        nodes.append(_hash((node.operator, attributes, present, operands)))
        values.update(
            (value, f"{nodes[-1]}.{place}")
            for place, value in enumerate(node.outputs)
            if value != ABSENT
        )
    return _hash((sorted(nodes), [spelled(value) for value in graph.graph_outputs]))


def _hash(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
