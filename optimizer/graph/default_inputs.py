"""Optional inputs that say what their absence says: states of zeros, masks that hide nothing.

ONNX defines what an absent input of a recurrence or of attention counts as; exporters write it out.
Nodes without it are what rules about one step, or about attention without a mask, speak of. It is
done by code, since a recurrence has no specification; tests compare with ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...rules import ABSENT
from .graph import Graph, Node

# What passes the elements of its first operand on, and no others.
_MOVING = frozenset({"Expand", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose"})
_MOVING |= {"Unsqueeze"}
_SCORES = 4  # the rank of what a mask is added to


def drop_default_inputs(graph: Graph) -> int:
    """Take out inputs that say what their absence says, and such activations; count the nodes."""
    count = 0
    for number in graph.order():
        node = graph.nodes[number]
        means = _ABSENT_MEANS.get(node.operator)
        if means is None:
            continue
        inputs = [
            ABSENT if value != ABSENT and i in means and means[i](graph, node, value) else value
            for i, value in enumerate(node.inputs)
        ]
        while inputs[-1] == ABSENT:
            inputs.pop()
        attributes = dict(node.attributes)
        if _are_usual(graph, number):
            del attributes["activations"]
        if tuple(inputs) == node.inputs and len(attributes) == len(node.attributes):
            continue
        graph.remove_node(number)
        changed = replace(node, inputs=tuple(inputs), attributes=attributes, proto=None)
        graph.put_node(number, changed)
        count += 1
    return count


# ---------------------------------------------------------------------- what is known


def _is_zero(graph: Graph, node: Node, value: int) -> bool:
    """Whether all elements of a value are 0, whatever its size is."""
    while value not in graph.constants:
        producer = graph.producer.get(value)
        if producer is None:
            return False
        source = graph.nodes[producer]
        if source.operator == "ConstantOfShape":
            value_attribute = graph.attributes(producer).get("value")
            return value_attribute is None or not np.any(np.asarray(value_attribute))
        if source.operator not in _MOVING:
            return False
        value = source.inputs[0]
    array = _array(graph, value)
    return array is not None and not array.any()


def _is_whole(graph: Graph, node: Node, value: int) -> bool:
    """Whether all sequences are as long as the longest that there may be."""
    lengths, shape = _array(graph, value), graph.shape(node.inputs[0])
    layout = node.attributes.get("layout")
    if lengths is None or shape is None:
        return False
    steps = shape[0 if layout is None else layout.i]
    return isinstance(steps, int) and bool((lengths == steps).all())


def _hides_nothing(graph: Graph, node: Node, value: int) -> bool:
    """Whether a mask that is as wide as there are keys lets each query see all of them."""
    mask = _array(graph, value)
    if mask is None or not 1 <= mask.ndim <= _SCORES or mask.shape[-1] != _keys(graph, node):
        return False
    return bool(mask.all() if mask.dtype == bool else not mask.any())


def _keys(graph: Graph, node: Node) -> int | None:
    """The number of keys, those before among them, where it is known."""
    count = 0
    past = node.inputs[4:5]
    for key in (node.inputs[1], *(value for value in past if value != ABSENT)):
        shape = graph.shape(key)
        size = None if shape is None else shape[-2]
        if not isinstance(size, int):
            return None
        count += size
    return count


def _array(graph: Graph, value: int) -> np.ndarray | None:
    constant = graph.constants.get(value)
    if constant is None or constant.type.size_bytes == 0 or constant.type.dtype == "string":
        return None
    return constant.array()


def _are_usual(graph: Graph, number: int) -> bool:
    """Whether the activations of a recurrence are those that it has by default."""
    usual = _ACTIVATIONS.get(graph.nodes[number].operator, ())
    activations = graph.attributes(number).get("activations")
    if not usual or not isinstance(activations, Sequence):
        return False
    ways = 2 if graph.attribute(number, "direction") == "bidirectional" else 1
    return tuple(activations) == usual * ways


_Check = Callable[[Graph, Node, int], bool]
_RECURRENT: Mapping[int, _Check] = {3: _is_zero, 4: _is_whole, 5: _is_zero}
# By operator, the positions of optional inputs, and when they say what their absence does.
_ABSENT_MEANS: Mapping[str, Mapping[int, _Check]] = {
    "RNN": _RECURRENT,
    "GRU": _RECURRENT,
    "LSTM": {**_RECURRENT, 6: _is_zero, 7: _is_zero},
    "Attention": {3: _hides_nothing},
}
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
