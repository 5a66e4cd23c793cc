"""Transposed convolutions whose windows don't overlap, as pixels that each make a tile of them.

A window as large as its stride gives each input pixel a tile of the output of its own: a 1x1
convolution computes the tiles as channels, and a Transpose puts them side by side (sub-pixel
convolution, Shi et al., CVPR 2016). In blocks it moves whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...egraph.congruence import NONE
from ...graph.graph import constant_of
from ..filters import TRANSPOSED
from ..layout import Layout
from ..runtime import NCHWC
from ..values import BlockedValues

RULE = "ConvertConvTransposeToBlocks"


def convert(
    values: BlockedValues,
    node: int,
    output: int,
    operands: Sequence[int],
    layout: Layout,
) -> None:
    """Compute a transposed convolution of tiles on an image that lies in `layout`."""
    egraph, block = values.egraph, values.block
    image, weights, *rest = operands
    weights_type, image_value = egraph.type(weights), values.image(image)
    assert weights_type is not None and weights_type.shape is not None and image_value is not None
    _, m, kh, kw = (int(size) for size in weights_type.shape)
    h, w = (int(size) for size in image_value[1][2:])
    result_layout = Layout((m,), block)
    tiled = Layout.of((m,) * (kh * kw), block)
    parts = {"outputs": tiled.parts, "inputs": layout.parts}
    laid = values.constant(TRANSPOSED, weights, (tiled.width, layout.width, 1, 1), parts)
    reads = [values.value(image, layout), laid]
    if rest and rest[0] != NONE:
        reads.append(values.vector(rest[0], tiled, (tiled.width,)))
    types = values.types(egraph.find(image), tiled.width)
    new_nodes = [values.node(NCHWC, "Conv", {"kernel_shape": [1, 1]}, reads, types)]
    split_shape = (0, kh, kw, result_layout.width // block, h, w, block)
    new_nodes.append(
        values.node(
            "", "Reshape", {}, (_output(values, new_nodes[-1]), _list(values, split_shape)), None
        )
    )
    order = {"perm": [0, 3, 4, 1, 5, 2, 6]}
    new_nodes.append(values.node("", "Transpose", order, (_output(values, new_nodes[-1]),), None))
    values.note(RULE, (node,), new_nodes, [])
    whole = (0, result_layout.width, h * kh, w * kw)
    reads = [_output(values, new_nodes[-1]), _list(values, whole)]
    values.give(output, result_layout, "", "Reshape", {}, reads, RULE, (node,))


def _output(values: BlockedValues, node: int) -> int:
    return values.egraph.columns.outputs(node)[0]


def _list(values: BlockedValues, numbers: tuple[int, ...]) -> int:
    return values.egraph.leaf(constant_of(np.array(numbers)), ("shape", numbers))
