"""Convolutions of signals, [n, c, w], as convolutions of images of one row, [n, c, 1, w].

ONNX Runtime has kernels for images that read channels in blocks; for signals it lays the windows
side by side and multiplies matrices. A signal is an image of one row, and what acts element by
element on either is the same, so that a chain of them need not be taken back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..graph.graph import Shape, constant_of
from .columns import NONE
from .derive import Derivation, Giver

RULE = "ConvertSignalsToImages"
SUMMARY = "computes a convolution of signals as one of images of one row"
UNARY = (
    "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "Relu", "Sigmoid",
    "Softplus", "Sqrt", "Tanh", "com.microsoft:Gelu", "com.microsoft:QuickGelu",
)  # fmt: skip
BINARY = ("Add", "Div", "Mul", "Sub")
_AXIS, _FIRST_OPSET = 2, 13  # of the row; Unsqueeze takes axes as an input


@dataclass
class Images:
    """Signals as images: the class of the image that each is, as far as there is one."""

    derivation: Derivation
    of: dict[int, int] = field(default_factory=dict)

    def convolve(self, class_: int, conv: Giver) -> None:
        """State a convolution of a signal as one of an image."""
        derivation, egraph = self.derivation, self.derivation.egraph
        shape = derivation.shape(class_)
        weights = egraph.constant(conv.operands[1])
        given = conv.attributes
        if shape is None or len(shape) != 3 or weights is None:
            return
        if given.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            return
        made: list[int] = []
        signal = conv.operands[0]
        if signal not in self.of:
            entered = derivation.make("Unsqueeze", [signal, self._row()], {})
            if entered is None:
                return
            made.append(entered)
        array = np.expand_dims(weights.array(), _AXIS)
        filters = egraph.leaf(constant_of(array), (RULE, egraph.find(conv.operands[1])))
        bias = [value for value in conv.operands[2:] if value != NONE]
        image = self.of[signal] if not made else derivation.output(made[0])
        node = derivation.make("Conv", [image, filters, *bias], _of_image(given, array.shape[-1]))
        if node is not None:
            self._state(class_, conv, [*made, node], shape)

    def map(self, class_: int, giver: Giver) -> None:
        """State what acts element by element on signals as the same on their images."""
        shape, name = self.derivation.shape(class_), self.name(giver)
        if shape is None or not any(operand in self.of for operand in giver.operands):
            return
        operands = []
        for operand in giver.operands:
            own = self.of.get(operand, operand)
            if operand in self.of and self.derivation.shape(operand) != shape:
                return
            if operand not in self.of and self.derivation.number(operand) is None:
                return
            operands.append(own)
        node = self.derivation.make(name, operands, giver.attributes)
        if node is not None:
            self._state(class_, giver, [node], shape)

    def name(self, giver: Giver) -> str:
        """The operator of an e-node."""
        egraph = self.derivation.egraph
        return egraph.vocabulary.operators[egraph.columns.operator(giver.node)].name

    def _state(self, class_: int, source: Giver, made: list[int], shape: Shape) -> None:
        image = self.derivation.output(made[-1])
        left = self.derivation.make("Squeeze", [image, self._row()], {}, shape)
        if left is not None:
            self.derivation.state(RULE, SUMMARY, (source.node,), [*made, left], class_)
            self.of[class_] = image

    def _row(self) -> int:
        return self.derivation.integers([_AXIS])


def convert_signals(derivation: Derivation) -> None:
    """State the convolutions of signals of an e-graph, and what is between them, as of images."""
    if derivation.egraph.graph.opset() < _FIRST_OPSET:
        return
    images = Images(derivation)
    # In the order of the model, as far as its own classes go: what comes first has its image first.
    for class_, giver in list(derivation.every("Conv", *UNARY, *BINARY)):
        if images.name(giver) == "Conv":
            images.convolve(class_, giver)
        else:
            images.map(class_, giver)
    derivation.settle()


def _of_image(given: Mapping[str, Any], taps: int) -> dict[str, Any]:
    """The attributes of a convolution of images that does what one of signals does."""
    found = {key: value for key, value in given.items() if key in ("auto_pad", "group")}
    found["kernel_shape"] = (1, taps)
    for name in ("strides", "dilations"):
        if name in given:
            found[name] = (1, *given[name])
    if "pads" in given:
        start, end = given["pads"]
        found["pads"] = (0, start, 0, end)
    return found
