"""ONNX's own operator Attention, spelled out: what its kernel is made of, in a copy of a graph.

Only there: where no kernel computes it, the operator stays what it is. That is done for queries,
keys and values of four axes and as many heads in all, with a mask that is added, or a causal one of
sizes that are known; with nothing past, no cap, and scores that nobody asks for (opset 23).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from onnx import helper

from ....rules import ABSENT
from ...graph.graph import Graph, Node, TensorType
from ..loops.affine import Extent
from ..loops.kernel_region import Meanings


@dataclass(frozen=True)
class Causal:
    """A causal mask of some queries and keys: 0 for what is seen, minus infinity for the rest."""

    queries: int
    keys: int

    def array(self) -> np.ndarray:
        """Return the mask."""
        whole = np.full((self.queries, self.keys), -np.inf, np.float32)
        return np.triu(whole, 1)


@dataclass
class Spelled:
    """A graph with its Attentions spelled out, and of which of them the nodes are parts."""

    graph: Graph
    parts: dict[int, int] = field(default_factory=dict)

    def model_nodes(self, nodes: Collection[int]) -> tuple[int, ...] | None:
        """Return the model's nodes that some are parts of; None where parts of one are missing."""
        whole = {self.parts[number] for number in nodes if number in self.parts}
        wanted = {part for part, number in self.parts.items() if number in whole}
        if not wanted <= set(nodes):
            return None
        return tuple(dict.fromkeys(self.parts.get(number, number) for number in nodes))


def spelled(meanings: Meanings, allowed: Collection[int]) -> Spelled:
    """Spell out the Attentions among some nodes; a mask becomes a constant of the graph itself."""
    graph = meanings.graph
    choices = [
        (number, mask)
        for number in sorted(allowed)
        if graph.nodes[number].operator == "Attention"
        and (mask := _mask(meanings, number)) is not None
    ]
    if not choices:
        return Spelled(graph)
    spelling = Spelled(graph.copy())
    for number, mask in choices:
        before = spelling.graph.next_node
        _spell(spelling.graph, number, mask)
        spelling.parts |= dict.fromkeys(range(before, spelling.graph.next_node), number)
    return spelling


def _mask(meanings: Meanings, number: int) -> int | None:
    """Return the mask of an Attention, ABSENT for none; None of one that isn't spelled out."""
    graph, node = meanings.graph, meanings.graph.nodes[number]
    attributes = graph.attributes(number)
    inputs = [*node.inputs, *([ABSENT] * 4)][:4]
    shapes = [graph.shape(value) for value in inputs[:3]]
    if len(node.outputs) != 1 or any(value != ABSENT for value in node.inputs[4:]):
        return None
    if any(shape is None or len(shape) != 4 for shape in shapes) or attributes.get("softcap"):
        return None
    if any(graph.dtype(value) != "float32" for value in inputs if value != ABSENT):
        return None
    query, key, value = (shape for shape in shapes if shape is not None)
    if query[:2] != key[:2] or key[:3] != value[:3] or query[3] != key[3]:
        return None
    if not isinstance(query[3], int):
        return None
    mask = inputs[3]
    if attributes.get("is_causal"):
        causal = (query[2], key[2])
        return None if mask != ABSENT else _causal(meanings, causal)
    scores = (*query[:3], key[2])
    return mask if mask == ABSENT or _fits(graph.shape(mask), scores) else None


def _fits(mask: tuple[Extent, ...] | None, scores: tuple[Extent, ...]) -> bool:
    if mask is None or not 2 <= len(mask) <= 4 or mask[-2:] != scores[-2:]:
        return False
    behind = scores[4 - len(mask) :]
    return all(size in (1, extent) for size, extent in zip(mask, behind, strict=True))


def _causal(meanings: Meanings, sizes: tuple[Extent, Extent]) -> int | None:
    queries, keys = sizes
    if not isinstance(queries, int) or not isinstance(keys, int):
        return None
    key = (ABSENT, Causal(queries, keys))
    if key not in meanings.packed:
        meanings.packed[key] = meanings.graph.add_constant(key[1].array(), "causal")
    return meanings.packed[key]


def _spell(graph: Graph, number: int, mask: int) -> None:
    node, scale = graph.nodes[number], graph.attributes(number).get("scale")
    (result,) = node.outputs
    query, key, value = node.inputs[:3]
    shape = graph.shape(query) or ()
    keys = graph.shape(key) or ()
    scores = (*shape[:3], keys[2])
    factor = float(scale) if isinstance(scale, float) else 1 / math.sqrt(int(shape[3]))
    graph.remove_node(number)

    def add(
        operator: str,
        inputs: tuple[int, ...],
        sizes: tuple[Extent, ...],
        **attribute_values: object,
    ) -> int:
        result = graph.new_value("spelled", TensorType("float32", sizes))
        attributes = {
            name: helper.make_attribute(name, attribute)
            for name, attribute in attribute_values.items()
        }
        graph.add_node(Node(operator, "", inputs, (result,), attributes))
        return result

    turned = add("Transpose", (key,), (*keys[:2], keys[3], keys[2]), perm=[0, 1, 3, 2])
    product = add("MatMul", (query, turned), scores)
    scale = graph.add_constant(np.array(factor, np.float32), "scale")
    last = add("Mul", (product, scale), scores)
    if mask != ABSENT:
        last = add("Add", (last, mask), scores)
    weights = add("Softmax", (last,), scores, axis=-1)
    graph.add_node(Node("MatMul", "", (weights, value), (result,), {}))
