"""Between blocks and channels that come last, one operator leads both ways."""

from __future__ import annotations

from ..blocking import Blocking, Operation
from ..layout import Layout
from ..runtime import NCHWC
from ..values import ENTER_LAST


def leave_to_last(blocking: Blocking, operation: Operation) -> None:
    """Leave blocks for channels that come last, as a Transpose puts them."""
    values, egraph = blocking.values, blocking.egraph
    operand, output = egraph.find(operation.operands[0]), egraph.find(operation.output)
    image = values.image(operand)
    assert image is not None
    layout = Layout((int(image[1][1]),), values.block)
    if layout in values.blocked.get(operand, ()) and blocking.is_new(operation.node):
        numbers = (egraph.types[output], egraph.sized[output])
        first, second = (egraph.vocabulary.types[number] for number in numbers)
        value = values.value(operand, layout)
        values.leave(output, value, layout, (first, second), last=True)


def enter_from_last(blocking: Blocking, operation: Operation) -> None:
    """Enter blocks from channels that come last, which a Transpose puts second."""
    values, egraph = blocking.values, blocking.egraph
    operand, output = egraph.find(operation.operands[0]), egraph.find(operation.output)
    image = values.image(output)
    assert image is not None
    if blocking.is_new(operation.node):
        layout = Layout((int(image[1][1]),), values.block)
        description = (output, layout, NCHWC, "ReorderInput", {"channels_last": 1}, (operand,))
        values.give(*description, ENTER_LAST, (operation.node,))
