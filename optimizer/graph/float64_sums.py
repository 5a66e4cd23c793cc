"""Sums that ONNX Runtime forms in float32 alone, spelled by operators that it runs in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shapes = dict[str, tuple[int | None, ...]]

_TO_THE_END = np.iinfo(np.int64).max
# From this operator set on all that is used here has its axes and sizes as inputs.
_LEAST_OPSET = 13


def spelled(node: onnx.NodeProto, shapes: Shapes, opset: int) -> Nodes | None:
    """Spell a node by others; None where it is none of these, or what it takes is not known."""
    make = _SPELLINGS.get(node.op_type)
    if make is None or opset < _LEAST_OPSET:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    text = _Text(node.output[0], opset)
    return text.nodes if make(text, node, attributes, shapes) else None


Nodes = list[onnx.NodeProto]


@dataclass
class _Text:
    """Nodes that compute one value, whose names begin with the value's."""

    result: str
    opset: int
    nodes: Nodes = field(default_factory=list)

    def __call__(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{self.result}/wide/{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def integers(self, values: Iterable[int]) -> str:
        return self("Constant", value=numpy_helper.from_array(np.array(list(values), np.int64)))

    def reshaped(self, value: str, sizes: Sequence[int], name: str = "") -> str:
        return self("Reshape", value, self.integers(sizes), name=name)

    def mean(self, value: str, axis: int) -> str:
        if self.opset < 18:
            return self("ReduceMean", value, axes=[axis])
        return self("ReduceMean", value, self.integers([axis]))


def _conv(text: _Text, node: onnx.NodeProto, attributes: dict[str, Any], shapes: Shapes) -> bool:
    """Spell a convolution: for each tap a product of matrices, over all places at once."""
    weight = shapes.get(node.input[1])
    if weight is None or any(size is None for size in weight):
        return False
    filters, depth, *kernel = (size or 0 for size in weight)
    count, groups = len(kernel), attributes.get("group", 1)
    strides, dilations = (attributes.get(key, [1] * count) for key in ("strides", "dilations"))
    spans = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
    pads = _pads(attributes, shapes.get(node.input[0]), spans, strides)
    if pads is None or not depth or filters % groups:
        return False
    image = node.input[0]
    if any(pads):
        widths = [0, 0, *pads[:count], 0, 0, *pads[count:]]
        image = text("Pad", image, text.integers(widths))
    axes, steps = text.integers(range(2, 2 + count)), text.integers(strides)
    total, first = "", ""
    for tap in itertools.product(*map(range, kernel)):
        starts = [tap_index * step for tap_index, step in zip(tap, dilations, strict=True)]
        ends = [start - span or _TO_THE_END for start, span in zip(starts, spans, strict=True)]
        part = text("Slice", image, text.integers(starts), text.integers(ends), axes, steps)
        first = first or part
        columns = text.reshaped(part, [0, groups, depth, -1])
        after = text.integers(tap_index + 1 for tap_index in tap)
        factor = text("Slice", node.input[1], text.integers(tap), after, axes)
        rows = text.reshaped(factor, [groups, filters // groups, depth])
        product = text("MatMul", rows, columns)
        total = text("Add", total, product) if total else product
    if not total:
        return False
    sizes = text("Shape", first)
    batch = text("Gather", sizes, text.integers([0]))
    places = text("Slice", sizes, text.integers([2]), text.integers([_TO_THE_END]))
    shape = text("Concat", batch, text.integers([filters]), places, axis=0)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    result = text("Reshape", total, shape, name="" if has_bias else node.output[0])
    if has_bias:
        bias = text.reshaped(node.input[2], [1, -1, *[1] * count])
        text("Add", result, bias, name=node.output[0])
    return True


def _pads(
    attributes: dict[str, Any],
    image: tuple[int | None, ...] | None,
    spans: Sequence[int],
    strides: Sequence[int],
) -> list[int] | None:
    """Give the widths before and after each axis; None where they depend on unknown sizes."""
    how = attributes.get("auto_pad", b"NOTSET")
    if how == b"NOTSET":
        return list(attributes.get("pads", [0] * 2 * len(spans)))
    if how == b"VALID":
        return [0] * 2 * len(spans)
    if image is None:
        return None
    before, after = [], []
    for size, span, stride in zip(image[2:], spans, strides, strict=True):
        if size is None:
            return None
        total = max(0, (-(-size // stride) - 1) * stride + span + 1 - size)
        less, more = total // 2, total - total // 2
        before.append(less if how == b"SAME_UPPER" else more)
        after.append(more if how == b"SAME_UPPER" else less)
    return [*before, *after]


def _average(text: _Text, node: onnx.NodeProto, attributes: dict[str, Any], shapes: Shapes) -> bool:
    """Spell a global average as a mean over all places."""
    image = shapes.get(node.input[0])
    if image is None:
        return False
    mean = text.mean(text.reshaped(node.input[0], [0, 0, -1]), 2)
    text.reshaped(mean, [0, 0, *[1] * (len(image) - 2)], name=node.output[0])
    return True


def _instance(
    text: _Text, node: onnx.NodeProto, attributes: dict[str, Any], shapes: Shapes
) -> bool:
    """Spell a normalization of each channel, the variance in two passes."""
    rows = text.reshaped(node.input[0], [0, 0, -1])
    centred = text("Sub", rows, text.mean(rows, 2))
    variance = text.mean(text("Mul", centred, centred), 2)
    epsilon = np.array(attributes.get("epsilon", 1e-5), np.float64)
    raised = text("Add", variance, text("Constant", value=numpy_helper.from_array(epsilon)))
    scale, bias = (text.reshaped(name, [-1, 1]) for name in node.input[1:3])
    scaled = text("Mul", text("Div", centred, text("Sqrt", raised)), scale)
    shifted = text("Add", scaled, bias)
    text("Reshape", shifted, text("Shape", node.input[0]), name=node.output[0])
    return True


def _four_bits(
    text: _Text, node: onnx.NodeProto, attributes: dict[str, Any], shapes: Shapes
) -> bool:
    """Spell a product with weights of few bits in blocks as one with the weights they stand for."""
    rows, packed, scales, zeros, order, bias = (*node.input, *[""] * 4)[:6]
    if order or not {"K", "N", "block_size"} <= attributes.keys() or 8 % attributes.get("bits", 4):
        return False
    bits, depth, width, size = (
        attributes.get("bits", 4),
        attributes["K"],
        attributes["N"],
        attributes["block_size"],
    )
    blocks = -(-depth // size)

    per_byte = 8 // bits
    shifts = np.arange(0, 8, bits)
    # looked up, all numbers of a byte at once: this takes a tenth of the time of shifts
    table = (np.arange(256)[:, None] >> shifts & (1 << bits) - 1).astype(np.float64)

    def unpacked(value: str, less: float, sizes: Sequence[int]) -> str:
        numbers = text("Constant", value=numpy_helper.from_array(table - less))
        bytes_ = text("Cast", value, to=TensorProto.INT32)
        return text.reshaped(text("Gather", numbers, bytes_, axis=0), sizes)

    def cut(value: str, end: int) -> str:
        return text("Slice", value, *(text.integers([bound]) for bound in (0, end, 1)))

    weights = unpacked(packed, 0.0 if zeros else float(1 << bits - 1), [width, blocks, size])
    if zeros:
        count = math.prod(size or 0 for size in shapes.get(zeros) or (0,))
        stored = -(-blocks // per_byte)
        if count != width * stored or (blocks == 1 and bits < 8):
            return False  # they may be floats
        shift = cut(unpacked(zeros, 0.0, [width, stored * per_byte]), blocks)
        weights = text("Sub", weights, text.reshaped(shift, [width, blocks, 1]))
    weights = text("Mul", weights, text.reshaped(scales, [width, blocks, 1]))
    weights = text.reshaped(weights, [width, blocks * size])
    if blocks * size != depth:
        weights = cut(weights, depth)
    product = text("Gemm", text.reshaped(rows, [-1, depth]), weights, transB=1)
    product = text("Add", product, bias) if bias else product
    outer = text("Slice", text("Shape", rows), text.integers([0]), text.integers([-1]))
    shape = text("Concat", outer, text.integers([width]), axis=0)
    text("Reshape", product, shape, name=node.output[0])
    return True


_SPELLINGS = {
    "Conv": _conv,
    "GlobalAveragePool": _average,
    "InstanceNormalization": _instance,
    "MatMulNBits": _four_bits,
}
# Operators of other domains that are spelled by ONNX's own.
CONTRIBUTED = frozenset({"MatMulNBits"})
