"""Convolutions in groups that share blocks, between two that are computed in blocks.

ONNX Runtime has no kernel for these in blocks: images leave them before, and enter them behind. A
kernel of ours (blocked.py) reads and writes blocks. Minimal filtering does so by filters that
are 0 on the channels of the other groups in a block; where something isn't finite it multiplies out
what belongs together, so that an infinity meets none of these zeros.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, lcm

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...layouts.runtime import ACTIVATIONS, NCHWC
from ..configurations.chosen import no_others
from ..kernel import RegionKernel
from ..loops.kernel_region import Meanings
from .blocked import (
    Choose,
    Convolution,
    activation_text,
    block_of,
    check_filters,
    forms,
    numbers_of,
    pads_of,
)
from .epilogue import End, bounds_of
from .filters import Merged

# Activations that need no parameters, and none that a node could leave out.
ENDS = frozenset(name for name, parameters in ACTIVATIONS.items() if not parameters)


def narrow_convolutions(
    meanings: Meanings, allowed: Collection[int], choose: Choose = no_others
) -> list[RegionKernel]:
    """Find the convolutions in narrow groups that kernels can compute, each in all its forms."""
    convolutions: list[RegionKernel] = []
    for number in meanings.order:
        node = meanings.graph.nodes[number]
        if number in allowed and node.operator == f"{NCHWC}:ReorderInput":
            try:
                convolutions += forms(meanings, _matched(meanings, number, allowed), choose)
            except LoweringError:
                continue
    return convolutions


def _matched(meanings: Meanings, entering: int, allowed: Collection[int]) -> Convolution:
    """Match ReorderOutput, Conv, perhaps an activation, and ReorderInput."""
    graph = meanings.graph
    nodes = [entering, _maker(meanings, entering, allowed)]
    end: tuple[str, ...] = ()
    if graph.nodes[nodes[-1]].operator in ENDS:
        end = activation_text({"activation": graph.nodes[nodes[-1]].op_type})
        nodes.append(_maker(meanings, nodes[-1], allowed))
    nodes.append(_maker(meanings, nodes[-1], allowed))
    reorder_output, convolving = nodes[-1], nodes[-2]
    conv = graph.nodes[convolving]
    if conv.operator != "Conv" or graph.nodes[reorder_output].operator != f"{NCHWC}:ReorderOutput":
        raise LoweringError("not between blocks")
    if any(graph.attributes(n).get("channels_last") for n in (entering, reorder_output)):
        raise LoweringError("channels that come last")
    image, (output,) = graph.nodes[reorder_output].inputs[0], graph.nodes[entering].outputs
    image_shape, result_shape, filters = (
        meanings.shape(v) for v in (image, output, conv.inputs[1])
    )
    attributes = graph.attributes(convolving)
    groups = int(attributes.get("group", 1))  # type: ignore[call-overload]
    if len(filters) != 4 or not all(isinstance(size, int) for size in filters):
        raise LoweringError("filters whose sizes aren't known")
    m, c, high, wide = map(int, filters)
    if groups == 1 or m % groups:
        raise LoweringError("no groups")
    check_filters(graph, conv.inputs[1])
    if any(graph.dtype(value) != "float32" for value in (*conv.reads, image, output)):
        raise LoweringError("a convolution of another type")
    block = block_of(int(result_shape[1]), int(image_shape[1]))
    group_width = m // groups
    merged = lcm(lcm(c, block) // c, lcm(group_width, block) // group_width)
    whole = ceil(groups / merged)
    if merged == 1:
        raise LoweringError("groups that fill blocks")
    if (whole * merged * c, whole * merged * group_width) != (image_shape[1], result_shape[1]):
        raise LoweringError("groups that fill another number of blocks")
    bias = conv.inputs[2] if len(conv.inputs) > 2 else ABSENT
    if bias != ABSENT and m < int(result_shape[1]) and bias not in graph.constants:
        raise LoweringError("a bias that is computed")
    steps, dilations = (numbers_of(attributes, name) for name in ("strides", "dilations"))
    activation = graph.nodes[nodes[1]].op_type if end else ""
    return Convolution(
        tuple(reversed(nodes)), (image, conv.inputs[1], bias, ABSENT), output,
        image_shape, result_shape, (high, wide),
        pads_of(attributes, image_shape, result_shape, (high, wide), steps, dilations),
        whole, (c, group_width), m, block, end, before=Merged(groups, merged, block),
        bounds=bounds_of({"activation": activation}, End((), output)), steps=steps,
        dilations=dilations,
    )  # fmt: skip


def _maker(meanings: Meanings, number: int, allowed: Collection[int]) -> int:
    """Return the node that makes what a node reads first, if nobody else reads it."""
    graph = meanings.graph
    value = graph.nodes[number].inputs[0]
    maker = graph.producer.get(value, -1)
    if maker not in allowed or graph.is_pinned(value) or graph.users[value] != {number}:
        raise LoweringError("a value that is read elsewhere, or given")
    return maker
