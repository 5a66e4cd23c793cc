"""Windows over images, which keep any layout: pools, means over whole images, resizing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...egraph.congruence import NONE
from ..blocking import POOLS, Blocking, Operation
from ..runtime import NCHWC
from .resizing import upsampling

# The rules of such steps.
RULES = frozenset(
    {*(f"Convert{name}ToBlocks" for name in (*POOLS, "ReduceMean")), "ConvertResizeToBlocks"}
)


def pool(blocking: Blocking, operation: Operation, kernel: str, rule: str) -> None:
    """Compute a pool, a mean over the image, or a resized image by a kernel of blocks.

    It takes any layout and leaves it.
    """
    values, image = blocking.values, operation.operands[0]
    attributes: Mapping[str, Any] = operation.attributes if operation.name in POOLS else {}
    if operation.name == "Resize":
        attributes = enlarged(blocking, operation) or {}
    for layout in values.layouts(image):
        if blocking.is_new(operation.node, layout):
            reads = (values.value(image, layout),)
            description = (operation.output, layout, NCHWC, kernel, attributes, reads)
            in_blocks = values.give(*description, rule, (operation.node,))
            blocking.twins.setdefault(operation.node, in_blocks)


def enlarged(blocking: Blocking, operation: Operation) -> dict[str, object] | None:
    """The attributes of the kernel that enlarges an image as a Resize does; None for others."""
    operands, output = operation.operands, operation.output
    before, after = (blocking.values.image(value) for value in (operands[0], output))
    if before is None or after is None:
        return None
    attributes = operation.attributes
    return upsampling(blocking.egraph, operands, attributes, before[1], after[1])


def is_of_image(blocking: Blocking, operation: Operation) -> bool:
    """Whether a reduction is over height and width, and keeps them as one."""
    operands, attributes = operation.operands, operation.attributes
    axes = attributes.get("axes")
    if len(operands) > 1 and operands[1] != NONE:
        constant = blocking.egraph.constant(operands[1])
        axes = None if constant is None else constant.array().reshape(-1).tolist()
    kept = attributes.get("keepdims", 1) == 1
    return kept and axes is not None and sorted(axis % 4 for axis in axes) == [2, 3]
