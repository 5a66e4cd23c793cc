"""Axes of reductions counted from the front, where a plan writes reductions or works beside them.

ONNX Runtime (1.31 on CPUs, any Reduce*, ArgMax and ArgMin, any operator set) leaves axes that are
counted from the end as long as they are where its input has no elements: [0, 4, 8] reduced over -1
has the shape [0, 4, 8], over 2 the right one. Then a rule's reduction would break a model that ran
without it, and a kernel, which knows the shape it is made for, end with an error.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from ...profiles.sessions.deployed import DOMAIN
from ...rules import ABSENT
from .graph import Graph, Node

CHOICES = ("ArgMax", "ArgMin")


def from_the_front(graph: Graph) -> Graph:
    """Return the graph with axes from 0 on, or itself; of an unknown rank they stay as they are.

    Where there are kernels in it, those of all reductions; else of those that rules brought: what
    is the model's own runs as it did, and its kernels are still known to be the original's.
    """
    is_fused = any(node.domain.startswith(DOMAIN) for node in graph.nodes.values())
    changed: Graph | None = None
    for number, node in graph.nodes.items():
        if not (is_fused or node.rule) or node.domain or not _reduces(node):
            continue
        counted = _counted(graph, number)
        if counted is not None:
            changed = changed or graph.copy()
            _put(changed, number, counted)
    return changed or graph


def _reduces(node: Node) -> bool:
    return node.op_type.startswith("Reduce") or node.op_type in CHOICES


def _counted(graph: Graph, number: int) -> tuple[int, ...] | None:
    """Give a reduction's axes from the front; None where they are so already, or not known."""
    shape, axes = graph.shape(graph.nodes[number].inputs[0]), explicit_axes(graph, number)
    if not shape or axes is None or all(axis >= 0 for axis in axes):
        return None
    return tuple(axis % len(shape) for axis in axes)


def explicit_axes(graph: Graph, number: int) -> tuple[int, ...] | None:
    """Return a reduction's axes as they are written; None where none are given, or not known."""
    node = graph.nodes[number]
    if node.op_type in CHOICES:
        value: object = graph.attribute(number, "axis")
    elif len(node.inputs) > 1 and node.inputs[1] != ABSENT:
        value = graph.constant(node.inputs[1])
    else:
        value = graph.attribute(number, "axes")
    return None if value is None else tuple(int(axis) for axis in np.ravel(np.asarray(value)))


def _put(graph: Graph, number: int, axes: tuple[int, ...]) -> None:
    node = graph.nodes[number]
    if len(node.inputs) > 1:
        constant = graph.add_constant(np.array(axes, np.int64), "axes")
        graph.users[node.inputs[1]].discard(number)
        graph.users[constant] = {number}
        graph.nodes[number] = replace(node, inputs=(node.inputs[0], constant), proto=None)
        return
    attribute_values = {"axis": axes[0]} if node.op_type in CHOICES else {"axes": axes}
    protos = {name: helper.make_attribute(name, value) for name, value in attribute_values.items()}
    graph.nodes[number] = replace(node, attributes={**node.attributes, **protos}, proto=None)
