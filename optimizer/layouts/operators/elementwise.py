"""What acts element by element, on blocked values as on any; factors for each channel."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...graph.graph import constant_of
from ..blocking import Blocking, Operation
from ..runtime import NCHWC

SILU, SHIFT, GATED = "ConvertSiluToBlocks", "ConvertShiftToBlocks", "ConvertGateToBlocks"
GATE = ("com.microsoft", "QuickGelu")


def map_blocks(
    blocking: Blocking,
    operation: Operation,
    places: Collection[int],
    rule: str,
    gated: int | None = None,
) -> None:
    """Element by element, in each layout that all images have; `places` are those of images.

    Others are numbers, which stay. The operand `gated` is x where it computes x times Sigmoid(x).
    """
    values, operands = blocking.values, operation.operands
    domain, _, op_type = operation.name.rpartition(":")
    first, *others = (operands[place] for place in places)
    shared = [
        layout
        for layout in values.layouts(first)
        if all(layout in values.layouts(value) for value in others)
    ]
    if not shared:
        blocking.refuse(operation.node, "what it reads is in no one layout of blocks")
    for layout in shared:
        if not blocking.is_new(operation.node, layout):
            continue
        reads = [values.value(v, layout) if k in places else v for k, v in enumerate(operands)]
        description = (operation.output, layout, domain, op_type, operation.attributes, reads)
        values.give(*description, rule, (operation.node,))
        if gated is not None:  # the runtime will fuse the two: what they cost is what it costs
            gate_attributes, read = {"alpha": 1.0}, (values.value(operands[gated], layout),)
            values.give(
                operation.output, layout, *GATE, gate_attributes, read, SILU, (operation.node,)
            )


def scale_blocks(blocking: Blocking, operation: Operation, place: int, rule: str) -> None:
    """A factor or summand for each channel: a convolution of one weight a channel.

    The image is the operand at `place`.
    """
    egraph, values = blocking.egraph, blocking.values
    image, factor, node = operation.operands[place], operation.operands[1 - place], operation.node
    for layout in values.layouts(image):
        shape = (layout.width, 1, 1, 1)
        bias: tuple[int, ...] = ()
        if rule == GATED:
            if layout not in values.layouts(factor):
                continue
            target = egraph.leaf(constant_of(np.array(shape)), ("shape", shape))
            read = (values.value(factor, layout), target)
            reshaped = values.node("", "Reshape", {}, read, None)
            values.note(GATED, (node,), [reshaped], [])
            (weights,) = egraph.columns.outputs(reshaped)
        elif rule == SHIFT:
            bias = (values.vector(factor, layout, (layout.width,)),)
            ones = constant_of(np.ones(shape, np.float32))
            weights = egraph.leaf(ones, ("ones", layout.width))
        else:
            weights = values.vector(factor, layout, shape)
        if blocking.is_new(node, layout):
            attributes = {"group": layout.width, "kernel_shape": [1, 1]}
            reads = (values.value(image, layout), weights, *bias)
            description = (operation.output, layout, NCHWC, "Conv", attributes, reads)
            in_blocks = values.give(*description, rule, (node,))
            blocking.likes.setdefault(in_blocks, node)
