"""Convolutions of few output channels, as one of more channels and fewer taps, and a sum of parts.

Kernels compute the output channels of a convolution a vector at a time; one that gives three, as
the last of a network that draws an image does, leaves most of each vector empty. For an axis of k
taps at stride 1,

    Y[o, i] = sum over t of (sum over c, s of X[c, i + t d, s] W[o, c, t, s])

is the sum of k parts of one convolution with k times the output channels and one tap along that
axis, each part shifted by its tap. The same products are added, in another order; nothing of the
input is read that was not. How many taps there are no rule can say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...graph.graph import constant_of
from ..congruence import NONE
from .derivation import Derivation, Giver

RULE = "SplitNarrowConv"
SUMMARY = "computes the taps of one axis as channels, where a convolution has few of these"
# Channels of a vector, and how much less has to be computed then.
VECTOR, LEAST_LESS = 16, 0.7
_LAST = np.iinfo(np.int64).max
_FIRST_OPSET = 10  # Slice takes its bounds as inputs


def split_narrow(derivation: Derivation) -> None:
    """State all convolutions of few output channels as ones of more."""
    if derivation.egraph.graph.opset() >= _FIRST_OPSET:
        for class_, conv in list(derivation.every("Conv")):
            _split(derivation, class_, conv)
        derivation.unite_pairs()


def _split(derivation: Derivation, class_: int, conv: Giver) -> None:
    image, shape = derivation.shape(class_), derivation.shape(conv.operands[1])
    weights = derivation.egraph.constant(conv.operands[1])
    if image is None or shape is None or weights is None or len(shape) < 3:
        return
    channels, taps = int(shape[0]), [int(size) for size in shape[2:]]
    axis = int(np.argmax(taps))
    if _vectors(channels * taps[axis]) > LEAST_LESS * _vectors(channels) * taps[axis]:
        return
    given = conv.attributes
    strides, dilations = (
        [int(n) for n in given.get(name, (1,) * len(taps))] for name in ("strides", "dilations")
    )
    if given.get("group", 1) != 1 or strides[axis] != 1:
        return
    if given.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return
    bias = _bias(derivation, conv, channels, taps[axis])
    if bias is None:
        return
    parts = np.moveaxis(weights.array(), 2 + axis, 0)
    parts = np.expand_dims(parts.reshape(-1, *parts.shape[2:]), 2 + axis)
    egraph = derivation.egraph
    whole = egraph.leaf(
        constant_of(np.ascontiguousarray(parts)), (RULE, egraph.find(conv.operands[1]), axis)
    )
    attributes = {**given, "kernel_shape": parts.shape[2:]}
    wide = derivation.make("Conv", [conv.operands[0], whole, *bias], attributes)
    if wide is None:
        return
    made = [wide]
    for tap in range(taps[axis]):
        below = (taps[axis] - 1 - tap) * dilations[axis]
        bounds = (
            [tap * channels, tap * dilations[axis]],
            [(tap + 1) * channels, -below if below else _LAST],
            [1, 2 + axis],
        )
        cut = [derivation.integers(bound) for bound in bounds]
        part = derivation.make("Slice", [derivation.output(wide), *cut], {})
        if part is None:
            return
        made.append(part)
    summands = [derivation.output(node) for node in made[1:]]
    total = derivation.make("Sum", summands, {}, image)
    if total is not None:
        derivation.state(RULE, SUMMARY, (conv.node,), [*made, total], class_)


def _vectors(channels: int) -> int:
    return math.ceil(channels / VECTOR)


def _bias(derivation: Derivation, conv: Giver, channels: int, taps: int) -> Sequence[int] | None:
    """What is added to the channels of the first tap, nothing to others; None if it isn't known."""
    if len(conv.operands) < 3 or conv.operands[2] == NONE:
        return ()
    bias = derivation.egraph.constant(conv.operands[2])
    if bias is None:
        return None
    padded = np.concatenate([bias.array(), np.zeros(channels * (taps - 1), np.float32)])
    return (derivation.egraph.leaf(constant_of(padded), (RULE, "bias", conv.operands[2], taps)),)
