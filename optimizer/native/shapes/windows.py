"""Sizes of images behind windows: convolutions, pools, and what leads into blocks and out of them.

ONNX's inference tells nothing of a window over a free size, nor of operators on blocked values at
all (optimizer/layouts). Here both are followed: what windows of stride 1 leave as it is keeps its
name, and equal sizes have equal names behind strides as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...graph.graph import Graph
from ...layouts.runtime import NCHWC
from ..loops.affine import Extent
from .named_sizes import Sizes

Sides = list[Extent | None]
# What is followed here, and the domains of it.
OPERATORS = frozenset(
    {"Conv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}
    | {"ReorderInput", "ReorderOutput", "Upsample"}
)
DOMAINS = frozenset({"", NCHWC})


def is_window(graph: Graph, number: int) -> bool:
    """Tell whether a node is one that `window_shape` may know."""
    node = graph.nodes[number]
    return node.op_type in OPERATORS and node.domain in DOMAINS


def window_shape(
    graph: Graph, sizes: Sizes, number: int, image_shape: Sequence[Extent]
) -> list[Extent | None] | None:
    """Return the shape of what a node gives for an image of a shape; None for another operator.

    A size that isn't told here is None in it, as channels are.
    """
    node = graph.nodes[number]
    if not is_window(graph, number) or len(image_shape) < 3:
        return None
    if node.op_type in ("Conv", "MaxPool", "AveragePool"):
        return [image_shape[0], None, *_slid(graph, sizes, number, image_shape[2:])]
    if node.op_type in ("GlobalMaxPool", "GlobalAveragePool"):
        return [image_shape[0], None, *([1] * (len(image_shape) - 2))]
    moved = _MOVED.get(node.op_type) if node.domain == NCHWC and len(image_shape) == 4 else None
    return None if moved is None else moved(graph, sizes, number, image_shape)


def _slid(graph: Graph, sizes: Sizes, number: int, sides: Sequence[Extent]) -> Sides:
    """Return how often a window fits along each side."""
    node, rank = graph.nodes[number], len(sides)
    filters = graph.shape(node.inputs[1]) if node.op_type == "Conv" else None
    taps = (
        _window_attribute(graph, number, "kernel_shape", 0, rank)
        if filters is None
        else filters[2:]
    )
    strides = _window_attribute(graph, number, "strides", 1, rank)
    dilations = _window_attribute(graph, number, "dilations", 1, rank)
    pads = _window_attribute(graph, number, "pads", 0, 2 * rank)
    auto = graph.attribute(number, "auto_pad") or "NOTSET"
    if any(len(sizes_) != rank for sizes_ in (taps, strides, dilations)) or len(pads) != 2 * rank:
        return [None] * rank
    if not all(isinstance(tap, int) and tap > 0 for tap in taps):
        return [None] * rank
    result_sides: Sides = []
    for i, side in enumerate(sides):
        reach, stride = (int(taps[i]) - 1) * dilations[i] + 1, strides[i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            result_sides.append(sizes.steps(sizes.add(side, stride - 1), stride))
            continue
        around = 0 if auto == "VALID" else pads[i] + pads[i + rank]
        whole = sizes.add(side, around - reach + stride)
        if not graph.attribute(number, "ceil_mode") or stride == 1:
            result_sides.append(sizes.steps(whole, stride))
        elif isinstance(whole, int) and isinstance(side, int):  # none begins behind the image
            count = (whole + stride - 1) // stride
            result_sides.append(count - ((count - 1) * stride >= side + pads[i]))
        else:
            result_sides.append(None)
    return result_sides


def _window_attribute(
    graph: Graph, number: int, name: str, default: int, count: int
) -> tuple[int, ...]:
    attribute = graph.attribute(number, name)
    if isinstance(attribute, tuple) and attribute:
        return tuple(map(int, attribute))
    return (default,) * count


def _into_blocks(graph: Graph, sizes: Sizes, number: int, image_shape: Sequence[Extent]) -> Sides:
    last = graph.attribute(number, "channels_last")
    return [image_shape[0], None, *(image_shape[1:3] if last else image_shape[2:])]


def _out_of_blocks(graph: Graph, sizes: Sizes, number: int, image_shape: Sequence[Extent]) -> Sides:
    last = graph.attribute(number, "channels_last")
    return (
        [image_shape[0], *image_shape[2:], None]
        if last
        else [image_shape[0], None, *image_shape[2:]]
    )


def _enlarged(graph: Graph, sizes: Sizes, number: int, image_shape: Sequence[Extent]) -> Sides:
    scales = graph.attribute(number, "scales")
    if not isinstance(scales, tuple) or len(scales) != 4:
        return [image_shape[0], None, None, None]
    return [
        image_shape[0],
        None,
        *(sizes.times((s, int(f))) for s, f in zip(image_shape[2:], scales[2:], strict=True)),
    ]


_MOVED: dict[str, Callable[[Graph, Sizes, int, Sequence[Extent]], Sides]] = {
    "ReorderInput": _into_blocks,
    "ReorderOutput": _out_of_blocks,
    "Upsample": _enlarged,
}
