"""Windows over images, which keep any layout: pools, means over whole images, resizing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...egraph.congruence import NONE
from ..blocking import POOLS, Blocking, Operation
from ..runtime import NCHWC
from .resizing import upsampling

# Operator -> the rule that computes it in blocks.
RULES = {
    **{name: f"Convert{name}ToBlocks" for name in (*POOLS, "ReduceMean")},
    "Resize": "ConvertResizeToBlocks",
}
OPERATORS = frozenset(RULES)


def pool(blocking: Blocking, operation: Operation) -> None:
    """Compute a pool, a mean over the image, or a resized image in blocks."""
    operands, attributes = operation.operands, operation.attributes
    if operation.name in POOLS:
        _windows(blocking, operation, operation.name, attributes)
    elif operation.name == "ReduceMean":
        if _is_of_image(blocking, operands, attributes):
            _windows(blocking, operation, "GlobalAveragePool", {})
        else:
            reason = "it isn't a mean over height and width that keeps both as one"
            blocking.refuse(operation.node, reason)
    else:
        before, after = (blocking.values.image(v) for v in (operands[0], operation.output))
        attributes_of_resize = None
        if before is not None and after is not None:
            attributes_of_resize = upsampling(
                blocking.egraph, operands, attributes, before[1], after[1]
            )
        if attributes_of_resize is None:
            blocking.refuse(
                operation.node, "it doesn't resize by whole numbers, in a mode of blocks"
            )
        else:
            _windows(blocking, operation, "Upsample", attributes_of_resize)


def _windows(
    blocking: Blocking, operation: Operation, name: str, attributes: Mapping[str, Any]
) -> None:
    """One kernel of blocks, which takes any layout and leaves it."""
    values, image = blocking.values, operation.operands[0]
    layouts = values.layouts(image)
    if not layouts:
        blocking.refuse(operation.node, "what it reads is in no layout of blocks")
    for layout in layouts:
        if blocking.is_new(operation.node, layout):
            reads = (values.value(image, layout),)
            given = (operation.output, layout, NCHWC, name, attributes, reads)
            class_ = values.give(*given, RULES[operation.name], (operation.node,))
            blocking.twins.setdefault(operation.node, class_)


def _is_of_image(
    blocking: Blocking, operands: Sequence[int], attributes: Mapping[str, Any]
) -> bool:
    """Whether a reduction is over height and width, and keeps them as one."""
    axes = attributes.get("axes")
    if len(operands) > 1 and operands[1] != NONE:
        constant = blocking.egraph.constant(operands[1])
        axes = None if constant is None else constant.array().reshape(-1).tolist()
    kept = attributes.get("keepdims", 1) == 1
    return kept and axes is not None and sorted(axis % 4 for axis in axes) == [2, 3]
