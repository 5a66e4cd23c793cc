"""How far integers may range that a model takes as indices: as far as what they index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..graph.graph import Graph

# Operators that index one axis of their data, and those whose indices are points on several axes.
ALONG_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
POINTS = frozenset({"GatherND", "ScatterND"})
# What passes integers on as they are.
MOVES_INTEGERS = frozenset(
    {
        "Cast",
        "Concat",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)


def index_limit(graph: Graph, value: int, sizes: Mapping[str, int]) -> int:
    """Give the number that all indices drawn for a value have to be below; 2 where it has none.

    It is the least size of the axes that are indexed by the value, or by what it is moved to, free
    dimensions under the `sizes` that they have.
    """
    limits: list[int] = []
    stack, seen = [value], {value}
    while stack:
        current = stack.pop()
        for number in graph.users.get(current, ()):
            node = graph.nodes[number]
            if len(node.inputs) > 1 and node.inputs[1] == current:
                limits += _sizes(graph, number, sizes)
            if node.operator in MOVES_INTEGERS and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                stack.append(node.outputs[0])
    return max(1, min(limits, default=2))


def _sizes(graph: Graph, number: int, sizes: Mapping[str, int]) -> Iterator[int]:
    """Give the sizes of the axes that the second input of a node indexes, where they are known."""
    node = graph.nodes[number]
    shape = graph.shape(node.inputs[0])
    if shape is None:
        return
    first, depth = 0, 0
    if node.operator in ALONG_AXIS:
        axis = graph.attribute(number, "axis")
        if isinstance(axis, int) and -len(shape) <= axis < len(shape):
            first, depth = axis % len(shape), 1
    elif node.operator in POINTS:
        places = graph.shape(node.inputs[1])
        batch = graph.attribute(number, "batch_dims") if node.operator == "GatherND" else 0
        if places and isinstance(places[-1], int) and isinstance(batch, int):
            first, depth = batch, places[-1]
    indexed = (sizes.get(str(size), size) for size in shape[first : first + depth])
    yield from (size for size in indexed if isinstance(size, int))
