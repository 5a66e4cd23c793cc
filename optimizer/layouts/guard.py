"""A plan with blocked weights refuses to run where blocks are of another width.

Nothing in a stored model says in which order its bytes were put: on a processor with narrower
vectors the same kernels would read such weights without complaint, and compute something else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...rules import ABSENT
from ..graph.graph import Graph, Node
from .runtime import ENTERING_CHANNELS, NCHWC

RULE = "GuardBlocks"


def guard(graph: Graph, block: int) -> None:
    """Let a blocked convolution depend on the width of a block, without changing what it computes.

    A few channels of zeros come out of ReorderInput as one block; as a bias they change nothing,
    and where they are not `block` of them, the runtime refuses to reshape them.
    """
    number = next(
        (n for n in graph.order() if graph.nodes[n].operator == f"{NCHWC}:Conv"),
        None,
    )
    if number is None:
        return
    node = graph.nodes[number]
    inputs = [*node.inputs, ABSENT][: max(3, len(node.inputs))]
    weights = graph.types[inputs[1]].shape
    assert weights is not None
    width = int(weights[0])
    bias = graph.constant(inputs[2]) if inputs[2] != ABSENT else np.zeros(width, np.float32)
    if bias is None:
        return
    zeros = np.zeros((1, ENTERING_CHANNELS, 1, 1), np.float32)
    zero_block = _added(graph, "ReorderInput", (graph.add_constant(zeros, f"{RULE}/zeros"),), NCHWC)
    shape = graph.add_constant(np.array([1, block]), f"{RULE}/block")
    row = _added(graph, "Reshape", (zero_block, shape))
    rows = graph.add_constant(np.asarray(bias).reshape(-1, block), f"{RULE}/bias")
    total = _added(graph, "Add", (rows, row))
    flat = graph.add_constant(np.array([width]), f"{RULE}/width")
    inputs[2] = _added(graph, "Reshape", (total, flat))
    graph.remove_node(number)
    graph.add_node(replace(node, inputs=tuple(inputs), proto=None))


def _added(graph: Graph, op_type: str, inputs: tuple[int, ...], domain: str = "") -> int:
    value = graph.new_value(f"{RULE}/{op_type}")
    graph.add_node(Node(op_type, domain, inputs, (value,), {}, rule=RULE))
    return value
