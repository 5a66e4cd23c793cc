"""Convolutional architectures: ResNet-50, SqueezeNet 1.1, MobileNetV3-Large, Inception-like."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from . import layers
from .network import Dimension, Network


def resnet50(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    width: int = 64,
    blocks: Sequence[int] = (3, 4, 6, 3),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build ResNet-50 (He et al. 2015, table 1); `width` is the first stage's channel count."""
    net = Network("resnet50", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    with net.scope("stem"):
        value = layers.normalized(net, value, (3, width), 7, stride=2)
        value = layers.pool(net, "MaxPool", value, 3, stride=2, padding=1)
    channels = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            with net.scope(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                value = _bottleneck(net, value, channels, width << stage, stride)
                channels = (width << stage) * 4
    layers.classify(net, value, channels, classes, batch)
    return net.model()


def _bottleneck(net: Network, value: str, inputs: int, width: int, stride: int) -> str:
    shortcut = value
    outputs = width * 4
    value = layers.normalized(net, value, (inputs, width))
    value = layers.normalized(net, value, (width, width), 3, stride=stride)
    # A small gain on the residual branch keeps the sum of sixteen blocks near unit scale.
    value = layers.normalized(net, value, (width, outputs), activation=None, gain=0.3)
    if stride != 1 or inputs != outputs:
        with net.scope("downsample"):
            shortcut = layers.normalized(
                net, shortcut, (inputs, outputs), stride=stride, activation=None, gain=0.7
            )
    return net.op("Relu", net.op("Add", value, shortcut))


def squeezenet(
    *,
    opset: int = 13,
    batch: Dimension = 1,
    image: int = 224,
    width: int = 64,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build SqueezeNet 1.1 (Iandola et al. 2016): fire modules, no normalization."""
    net = Network("squeezenet", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    value = net.op("Relu", layers.convolution(net, value, (3, width), 3, stride=2, padding=0))
    channels = width
    for index, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if index in (0, 2, 4):
            value = layers.pool(net, "MaxPool", value, 3, stride=2)
        with net.scope(f"fire{index + 2}"):
            value = _fire(net, value, channels, squeezed * width // 64)
        channels = squeezed * width // 64 * 8
    value = net.op("Relu", layers.convolution(net, value, (channels, classes)))
    value = net.op("Flatten", net.op("GlobalAveragePool", value), axis=1)
    net.output(value, "logits", (batch, classes))
    return net.model()


def _fire(net: Network, value: str, inputs: int, squeezed: int) -> str:
    value = net.op("Relu", layers.convolution(net, value, (inputs, squeezed)))
    branches = [
        net.op("Relu", layers.convolution(net, value, (squeezed, squeezed * 4), kernel))
        for kernel in (1, 3)
    ]
    return net.op("Concat", *branches, axis=1)


# kernel, expanded width, outputs, squeeze-and-excitation, activation, stride (Howard 2019, table 1)
MOBILENET_ROWS = (
    (3, 16, 16, False, "relu", 1),
    (3, 64, 24, False, "relu", 2),
    (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2),
    (5, 120, 40, True, "relu", 1),
    (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hard_swish", 2),
    (3, 200, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 480, 112, True, "hard_swish", 1),
    (3, 672, 112, True, "hard_swish", 1),
    (5, 672, 160, True, "hard_swish", 2),
    (5, 960, 160, True, "hard_swish", 1),
    (5, 960, 160, True, "hard_swish", 1),
)


def mobilenetv3(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    image: int = 224,
    divide: int = 1,
    rows: Sequence[int] = range(15),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build MobileNetV3-Large; `divide` thins every layer, `rows` picks rows of its table."""
    net = Network("mobilenetv3", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    channels = 16 // divide
    value = layers.normalized(net, value, (3, channels), 3, stride=2, activation="hard_swish")
    for row in rows:
        kernel, expanded, outputs, squeeze, activation, stride = MOBILENET_ROWS[row]
        with net.scope(f"features.{row}"):
            shortcut, wide = value, expanded // divide
            if wide != channels:
                value = layers.normalized(net, value, (channels, wide), activation=activation)
            value = layers.normalized(
                net, value, (wide, wide), kernel, stride=stride, groups=wide, activation=activation
            )
            if squeeze:
                value = layers.squeeze_and_excite(net, value, wide, max(wide // 4, 1))
            value = layers.normalized(net, value, (wide, outputs // divide), activation=None)
            if stride == 1 and channels == outputs // divide:
                value = net.op("Add", value, shortcut)
            channels = outputs // divide
    value = layers.normalized(net, value, (channels, 960 // divide), activation="hard_swish")
    value = net.op("Flatten", net.op("GlobalAveragePool", value), axis=1)
    value = layers.classifier(net, value, 960 // divide, 1280 // divide)
    value = layers.hard_swish(net, value)
    value = layers.classifier(net, value, 1280 // divide, classes)
    net.output(value, "logits", (batch, classes))
    return net.model()


def inception(
    *,
    opset: int = 18,
    batch: Dimension = 1,
    image: int = 299,
    divide: int = 1,
    blocks: Sequence[int] = (3, 4, 2),
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build an Inception-v3-like network (Szegedy 2015): parallel branches, factored kernels."""
    net = Network("inception", opset=opset, seed=seed)
    value = net.input("image", (batch, 3, image, image))
    stem, wide = 32 // divide, 192 // divide
    value = _unit(net, value, (3, stem), 3, stride=2)
    value = _unit(net, value, (stem, stem * 2), 3)
    value = layers.pool(net, "MaxPool", value, 3, stride=2)
    value = _unit(net, value, (stem * 2, wide), 3)
    value = layers.pool(net, "MaxPool", value, 3, stride=2)
    channels = wide
    for stage, count in enumerate(blocks):
        if stage:
            with net.scope(f"reduction{stage}"):
                value, channels = _reduction(net, value, channels, wide)
        for block in range(count):
            with net.scope(f"mixed{stage}.{block}"):
                kernel = (3, 7, 3)[stage]
                value, channels = _mixed(net, value, channels, wide // (3 - stage), kernel)
    layers.classify(net, value, channels, classes, batch)
    return net.model()


def _mixed(net: Network, value: str, inputs: int, width: int, kernel: int) -> tuple[str, int]:
    """Join four branches: 1x1; 1x1 and k x k factored; twice that; pool and 1x1."""
    narrow = (width * 2 // 3 + 15) // 16 * 16  # whole blocks of channels, as real widths are
    single = _unit(net, value, (inputs, width))
    factored = _unit(net, value, (inputs, narrow))
    factored = _unit(net, factored, (narrow, narrow), (1, kernel))
    factored = _unit(net, factored, (narrow, width), (kernel, 1))
    double = _unit(net, value, (inputs, narrow))
    double = _unit(net, double, (narrow, width), 3)
    double = _unit(net, double, (width, width), 3)
    pooled = layers.pool(net, "AveragePool", value, 3, stride=1, padding=1)
    pooled = _unit(net, pooled, (inputs, width))
    return net.op("Concat", single, factored, double, pooled, axis=1), width * 4


def _reduction(net: Network, value: str, inputs: int, width: int) -> tuple[str, int]:
    strided = _unit(net, value, (inputs, width), 3, stride=2, padding=0)
    double = _unit(net, value, (inputs, width // 2))
    double = _unit(net, double, (width // 2, width), 3, stride=2, padding=0)
    pooled = layers.pool(net, "MaxPool", value, 3, stride=2)
    return net.op("Concat", strided, double, pooled, axis=1), inputs + 2 * width


def _unit(
    net: Network,
    value: str,
    channels: tuple[int, int],
    kernel: int | tuple[int, int] = 1,
    *,
    stride: int = 1,
    padding: int | None = None,
) -> str:
    value = layers.convolution(
        net, value, channels, kernel, stride=stride, padding=padding, bias=False
    )
    return net.op("Relu", layers.batch_normalization(net, value, channels[1], epsilon=1e-3))
