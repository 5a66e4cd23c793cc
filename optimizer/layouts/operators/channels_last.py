"""Between blocks and channels that come last, one operator leads both ways."""

from __future__ import annotations

from ...egraph.egraph import UNTYPED
from ..blocking import Blocking, Operation
from ..layout import Layout
from ..runtime import ENTERING_CHANNELS, NCHWC
from ..values import ENTER_LAST

TO_LAST, TO_SECOND = (0, 2, 3, 1), (0, 3, 1, 2)


def transpose(blocking: Blocking, operation: Operation) -> None:
    """Leave blocks for channels that come last, or enter them from there."""
    values, egraph = blocking.values, blocking.egraph
    perm: object = operation.attributes.get("perm")
    operand, output = egraph.find(operation.operands[0]), egraph.find(operation.output)
    if perm == TO_LAST and operand in values.blocked:
        image = values.image(operand)
        numbers = (egraph.types[output], egraph.sized[output])
        if image is None or UNTYPED in numbers:
            return
        layout = Layout((int(image[1][1]),), values.block)
        if layout in values.blocked[operand] and blocking.is_new(operation.node):
            first, second = (egraph.vocabulary.types[number] for number in numbers)
            value = values.value(operand, layout)
            values.leave(output, value, layout, (first, second), last=True)
    elif perm == TO_SECOND and (image := values.image(output)) is not None:
        channels = int(image[1][1])
        if channels % ENTERING_CHANNELS:
            reason = f"{channels} channels are no multiple of {ENTERING_CHANNELS}"
            blocking.refuse(operation.node, reason)
        elif blocking.is_new(operation.node):
            layout = Layout((channels,), values.block)
            given = (output, layout, NCHWC, "ReorderInput", {"channels_last": 1}, (operand,))
            values.give(*given, ENTER_LAST, (operation.node,))
    else:
        blocking.refuse(operation.node, "it doesn't put the channels of an image last, or second")
