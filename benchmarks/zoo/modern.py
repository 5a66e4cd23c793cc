"""Later convolutional architectures: ResNeXt-50, EfficientNet-B0, ConvNeXt, U-Net, NASNet cells."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from . import layers
from .network import Dimension, Network, reduce_mean


def resnext50(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    width: int = 128,
    groups: int = 32,
    blocks: Sequence[int] = (3, 4, 6, 3),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build ResNeXt-50 32x4d (Xie et al. 2017, table 1); `width` is of its grouped convolution."""
    net = Network("resnext50", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    channels = width // 2
    with net.scope("stem"):
        value = layers.normalized(net, value, (3, channels), 7, stride=2)
        value = layers.pool(net, "MaxPool", value, 3, stride=2, padding=1)
    for stage, count in enumerate(blocks):
        wide = width << stage
        for block in range(count):
            with net.scope(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                shortcut = value
                value = layers.normalized(net, value, (channels, wide))
                value = layers.normalized(net, value, (wide, wide), 3, stride=stride, groups=groups)
                value = layers.normalized(net, value, (wide, wide * 2), activation=None, gain=0.3)
                if stride != 1 or channels != wide * 2:
                    shortcut = layers.normalized(
                        net, shortcut, (channels, wide * 2), stride=stride, activation=None
                    )
                value = net.op("Relu", net.op("Add", value, shortcut))
                channels = wide * 2
    layers.classify(net, value, channels, classes, batch)
    return net.model()


# kernel, expansion, outputs, repetitions, first stride (Tan and Le 2019, table 1)
EFFICIENTNET_ROWS = (
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)


def efficientnet(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    divide: int = 1,
    rows: Sequence[int] = range(7),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build EfficientNet-B0; `divide` thins every layer, `rows` picks rows of its table."""
    net = Network("efficientnet", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    channels = 32 // divide
    value = layers.normalized(net, value, (3, channels), 3, stride=2, activation="silu")
    for row in rows:
        kernel, expansion, outputs, repetitions, first = EFFICIENTNET_ROWS[row]
        outputs //= divide
        for block in range(repetitions):
            with net.scope(f"features.{row}.{block}"):
                shortcut, wide, stride = value, channels * expansion, first if not block else 1
                if expansion != 1:
                    value = layers.normalized(net, value, (channels, wide), activation="silu")
                value = layers.normalized(
                    net, value, (wide, wide), kernel, stride=stride, groups=wide, activation="silu"
                )
                value = layers.squeeze_and_excite(
                    net, value, wide, max(channels // 4, 1), activation="silu"
                )
                value = layers.normalized(net, value, (wide, outputs), activation=None)
                if stride == 1 and channels == outputs:
                    value = net.op("Add", value, shortcut)
                channels = outputs
    value = layers.normalized(net, value, (channels, 1280 // divide), activation="silu")
    layers.classify(net, value, 1280 // divide, classes, batch)
    return net.model()


def convnext(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    width: int = 96,
    blocks: Sequence[int] = (3, 3, 9, 3),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build ConvNeXt-tiny (Liu et al. 2022): depthwise 7x7, channels last inside of a block."""
    net = Network("convnext", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    channels = width
    value = layers.convolution(net, value, (3, width), 4, stride=4, padding=0)
    value = _normalized_channels(net, value, width)
    for stage, count in enumerate(blocks):
        if stage:
            with net.scope(f"downsample{stage}"):
                value = _normalized_channels(net, value, channels)
                value = layers.convolution(
                    net, value, (channels, channels * 2), 2, stride=2, padding=0
                )
                channels *= 2
        for block in range(count):
            with net.scope(f"stages.{stage}.{block}"):
                inner = layers.convolution(net, value, (channels, channels), 7, groups=channels)
                inner = net.op("Transpose", inner, perm=[0, 2, 3, 1])
                inner = layers.layer_normalization(net, inner, channels, 1e-6)
                inner = layers.gelu_erf(net, layers.dense(net, inner, channels, channels * 4))
                inner = layers.dense(net, inner, channels * 4, channels)
                inner = net.op("Mul", layers.scale(net, channels), inner)
                inner = net.op("Transpose", inner, perm=[0, 3, 1, 2])
                value = net.op("Add", value, inner)
    value = reduce_mean(net, value, 2, 3, keepdims=0)
    value = layers.layer_normalization(net, value, channels, 1e-6)
    value = layers.classifier(net, value, channels, classes)
    net.output(value, "logits", (batch, classes))
    return net.model()


def _normalized_channels(net: Network, value: str, channels: int) -> str:
    """Normalize [n, c, h, w] over its channels."""
    value = net.op("Transpose", value, perm=[0, 2, 3, 1])
    value = layers.layer_normalization(net, value, channels, 1e-6)
    return net.op("Transpose", value, perm=[0, 3, 1, 2])


def unet(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 256,
    width: int = 32,
    depth: int = 4,
    classes: int = 2,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a U-Net (Ronneberger et al. 2015), padded and batch-normalized as it is used today."""
    net = Network("unet", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    channels, skipped = 3, []
    for level in range(depth + 1):
        with net.scope(f"down.{level}"):
            if level:
                value = layers.pool(net, "MaxPool", value, 2, stride=2)
            value = _double_convolution(net, value, channels, width << level)
            channels = width << level
            skipped.append(value)
    skipped.pop()
    for level in reversed(range(depth)):
        with net.scope(f"up.{level}"):
            narrow = width << level
            weight = net.normal("weight", channels, narrow, 2, 2, std=(1 / channels) ** 0.5)
            value = net.op(
                "ConvTranspose",
                value,
                weight,
                net.normal("bias", narrow, std=0.05),
                kernel_shape=[2, 2],
                strides=[2, 2],
            )
            value = net.op("Concat", skipped.pop(), value, axis=1)
            value = _double_convolution(net, value, narrow * 2, narrow)
            channels = narrow
    value = layers.convolution(net, value, (channels, classes))
    net.output(value, "logits", (batch, classes, image, image))
    return net.model()


def _double_convolution(net: Network, value: str, inputs: int, outputs: int) -> str:
    value = layers.normalized(net, value, (inputs, outputs), 3)
    return layers.normalized(net, value, (outputs, outputs), 3)


def nasnet(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    width: int = 44,
    blocks: Sequence[int] = (4, 4, 4),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a network of NASNet-A cells (Zoph et al. 2018, figure 4): many parallel branches."""
    net = Network("nasnet", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    with net.scope("stem"):
        value = layers.normalized(net, value, (3, width), 3, stride=2)
        value = layers.pool(net, "MaxPool", value, 3, stride=2, padding=1)
    before, channels, inputs = value, (width, width), value
    for stage, count in enumerate(blocks):
        wide = width << stage
        if stage:
            with net.scope(f"reduction{stage}"):
                before = _fit(net, before, channels[0], wide)
                inputs = _fit(net, value, channels[1], wide)
                before, value = value, _reduction_cell(net, before, inputs, wide)
                # The cell before the last one is at twice the resolution.
                before = layers.pool(net, "MaxPool", before, 3, stride=2, padding=1)
                channels = (channels[1], wide * 4)
        for block in range(count):
            with net.scope(f"cell{stage}.{block}"):
                fitted = _fit(net, before, channels[0], wide)
                inputs = _fit(net, value, channels[1], wide)
                before, value = value, _normal_cell(net, fitted, inputs, wide)
                channels = (channels[1], wide * 6)
    layers.classify(net, net.op("Relu", value), channels[1], classes, batch)
    return net.model()


def _fit(net: Network, value: str, inputs: int, outputs: int) -> str:
    """Bring a cell's input to its width."""
    value = layers.convolution(net, net.op("Relu", value), (inputs, outputs), bias=False)
    # A cell adds up branches; this gain keeps twelve of them near unit scale.
    return layers.batch_normalization(net, value, outputs, gain=0.5)


def _normal_cell(net: Network, before: str, value: str, width: int) -> str:
    def averaged(of: str) -> str:
        return layers.pool(net, "AveragePool", of, 3, stride=1, padding=1)

    parts = [
        net.op("Add", _separable(net, value, width, 3), value),
        net.op("Add", _separable(net, before, width, 3), _separable(net, value, width, 5)),
        net.op("Add", averaged(value), before),
        net.op("Add", averaged(before), averaged(before)),
        net.op("Add", _separable(net, before, width, 5), _separable(net, before, width, 3)),
    ]
    return net.op("Concat", before, *parts, axis=1)


def _reduction_cell(net: Network, before: str, value: str, width: int) -> str:
    def pooled(kind: str) -> str:
        return layers.pool(net, kind, value, 3, stride=2, padding=1)

    first = net.op(
        "Add",
        _separable(net, value, width, 5, stride=2),
        _separable(net, before, width, 7, stride=2),
    )
    second = net.op("Add", pooled("MaxPool"), _separable(net, before, width, 7, stride=2))
    third = net.op("Add", pooled("AveragePool"), _separable(net, before, width, 5, stride=2))
    fourth = net.op("Add", layers.pool(net, "AveragePool", first, 3, stride=1, padding=1), second)
    fifth = net.op("Add", _separable(net, first, width, 3), pooled("MaxPool"))
    return net.op("Concat", second, third, fourth, fifth, axis=1)


def _separable(net: Network, value: str, width: int, kernel: int, *, stride: int = 1) -> str:
    """Apply two depthwise-separable convolutions, each after an activation."""
    for number in range(2):
        value = layers.convolution(
            net,
            net.op("Relu", value),
            (width, width),
            kernel,
            stride=stride if not number else 1,
            groups=width,
            bias=False,
        )
        value = layers.convolution(net, value, (width, width), bias=False)
        value = layers.batch_normalization(net, value, width)
    return value
