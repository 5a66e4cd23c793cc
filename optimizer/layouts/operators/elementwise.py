"""What acts element by element, on blocked values as on any; factors for each channel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...egraph.congruence import NONE
from ...graph.graph import constant_of
from ..blocking import Blocking, Operation
from ..runtime import NCHWC

MAP, LIMIT, SILU = "ConvertElementwiseToBlocks", "ConvertClipToBlocks", "ConvertSiluToBlocks"
BOTH, WITH_NUMBER = "ConvertBinaryToBlocks", "ConvertNumberToBlocks"
FROM_NUMBER, SEVERAL = "ConvertSubFromNumberToBlocks", "ConvertSumToBlocks"
SCALE, SHIFT, GATED = "ConvertScaleToBlocks", "ConvertShiftToBlocks", "ConvertGateToBlocks"
KERNELS = {
    "com.microsoft:Gelu": "ConvertGeluKernelToBlocks",
    "com.microsoft:QuickGelu": "ConvertQuickGeluKernelToBlocks",
    "Clip": LIMIT,
}
# Element by element, and finite wherever their operands are: what fills up blocks stays harmless.
UNARY = {
    "Abs", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish",
    "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
    "com.microsoft:Gelu", "com.microsoft:QuickGelu",
}  # fmt: skip
BINARY = {"Add", "Sub", "Mul", "Max", "Min", "Sum"}
SCALES = {"Mul", "Add"}
GATE = ("com.microsoft", "QuickGelu")


@dataclass
class Elementwise:
    """Makes the blocked forms of what acts element by element."""

    blocking: Blocking
    # class -> what its Sigmoid is taken of
    _sigmoids: dict[int, int] = field(default_factory=dict)

    def look(self, operations: Iterable[Operation]) -> None:
        """Note what is needed to recognize x * Sigmoid(x)."""
        for operation in operations:
            if operation.name == "Sigmoid":
                self._sigmoids[operation.output] = operation.operands[0]

    def map(self, operation: Operation) -> None:
        """Element by element: numbers stay, all images lie in one layout."""
        values, operands = self.blocking.values, operation.operands
        shape = values.image(operation.output)
        assert shape is not None
        images, others = [], []
        for value in operands:
            image = values.image(value)
            if image is not None and image[1] == shape[1]:
                images.append(value)
            elif value != NONE and not self._is_number(value):
                others.append(value)
        if not images:
            self.blocking.refuse(operation.node, "none of what it reads is an image of its shape")
            return
        if others:
            if operation.name in SCALES and len(operands) == 2:
                self._scale(operation, images[0], others[0])
            else:
                reason = "what it reads beside the image is neither one number nor one a channel"
                self.blocking.refuse(operation.node, reason)
            return
        if operation.name in BINARY and len(operands) > 2 and len(images) < len(operands):
            self.blocking.refuse(operation.node, "of three operands or more, one is no image")
            return
        self._mapped(operation, images)

    def _mapped(self, operation: Operation, images: Sequence[int]) -> None:
        values = self.blocking.values
        domain, _, op_type = operation.name.rpartition(":")
        gated = self._gated(operation.operands) if operation.name == "Mul" else NONE
        shared = [
            layout
            for layout in values.layouts(images[0])
            if all(layout in values.layouts(value) for value in images)
        ]
        if not shared:
            self.blocking.refuse(operation.node, "what it reads is in no one layout of blocks")
        for layout in shared:
            if not self.blocking.is_new(operation.node, layout):
                continue
            reads = [values.value(v, layout) if v in images else v for v in operation.operands]
            given = (operation.output, layout, domain, op_type, operation.attributes, reads)
            values.give(*given, _rule(operation, images), (operation.node,))
            if gated != NONE:  # the runtime will fuse the two: what they cost is what it costs
                gate_attributes, read = {"alpha": 1.0}, (values.value(gated, layout),)
                values.give(
                    operation.output, layout, *GATE, gate_attributes, read, SILU, (operation.node,)
                )

    def _gated(self, operands: Sequence[int]) -> int:
        """The class x of x * Sigmoid(x); NONE where it isn't one."""
        if len(operands) == 2:
            for x, factor in (operands, operands[::-1]):
                if self._sigmoids.get(factor) == x:
                    return x
        return NONE

    def _is_number(self, value: int) -> bool:
        egraph = self.blocking.egraph
        type_ = egraph.type(value)
        return (
            egraph.is_known(value)
            and type_ is not None
            and type_.shape is not None
            and len(type_.shape) <= 4
            and all(size == 1 for size in type_.shape)
        )

    def _scale(self, operation: Operation, image: int, factor: int) -> None:
        """A factor or summand for each channel: a convolution of one weight a channel."""
        egraph, values = self.blocking.egraph, self.blocking.values
        image_value, type_ = values.image(image), egraph.type(factor)
        if image_value is None or type_ is None or type_.shape is None or type_.dtype != "float32":
            return
        node, name, channels = operation.node, operation.name, int(image_value[1][1])
        one_each = type_.shape[-3:] == (channels, 1, 1)
        for layout in values.layouts(image):
            rule = SHIFT if name == "Add" else SCALE if egraph.is_known(factor) else GATED
            shape = (layout.width, 1, 1, 1)
            bias: tuple[int, ...] = ()
            if egraph.is_known(factor):
                if not one_each or type_.shape[:-3] not in ((), (1,)):
                    self.blocking.refuse(node, "what it reads beside the image isn't one a channel")
                    return
                weights = values.vector(factor, layout, shape)
                if name == "Add":
                    bias = (values.vector(factor, layout, (layout.width,)),)
                    ones = constant_of(np.ones(shape, np.float32))
                    weights = egraph.leaf(ones, ("ones", layout.width))
            elif name == "Mul" and type_.shape == (1, channels, 1, 1) and image_value[1][0] == 1:
                if layout not in values.layouts(factor):
                    continue
                target = egraph.leaf(constant_of(np.array(shape)), ("shape", shape))
                read = (values.value(factor, layout), target)
                reshaped = values.node("", "Reshape", {}, read, None)
                values.note(GATED, (node,), [reshaped], [])
                (weights,) = egraph.columns.outputs(reshaped)
            else:
                self.blocking.refuse(node, "a computed factor can be one a channel, of one image")
                return
            if self.blocking.is_new(node, layout):
                attributes = {"group": layout.width, "kernel_shape": [1, 1]}
                reads = (values.value(image, layout), weights, *bias)
                given = (operation.output, layout, NCHWC, "Conv", attributes, reads)
                class_ = values.give(*given, rule, (node,))
                self.blocking.likes.setdefault(class_, node)


def _rule(operation: Operation, images: Sequence[int]) -> str:
    """The rule by which an operator acts on images, and on numbers beside them."""
    operands = operation.operands
    if operation.name in UNARY:
        return KERNELS.get(operation.name, MAP)
    if len(operands) != 2:
        return SEVERAL
    if len(images) == 2:
        return BOTH
    return FROM_NUMBER if operation.name == "Sub" and operands[0] not in images else WITH_NUMBER
