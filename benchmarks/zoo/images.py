"""Images, second list: residual super-resolution, dilated segmentation, mixers, windows, detection.

Also a U-Net as diffusion models have, whose blocks normalize groups of channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from . import layers
from .network import Network, reshape, slice_, unsqueeze


def srresnet(
    *, opset: int = 17, image: int = 64, width: int = 64, blocks: int = 8, seed: int = 0
) -> onnx.ModelProto:
    """Build SRResNet (Ledig et al. 2017): residual blocks with PRelu, pixels shuffled twice."""
    net = Network("srresnet", opset=opset, seed=seed)
    value = net.input("image", (1, 3, image, image))
    value = _prelu(net, layers.convolution(net, value, (3, width), 9), width)
    first = value
    for _ in range(blocks):
        inner = layers.normalized(net, value, (width, width), 3, activation=None)
        inner = layers.normalized(
            net, _prelu(net, inner, width), (width, width), 3, activation=None
        )
        value = net.op("Add", value, inner)
    value = layers.normalized(net, value, (width, width), 3, activation=None)
    value = net.op("Add", value, first)
    for _ in range(2):
        value = layers.convolution(net, value, (width, width * 4), 3)
        value = net.op("DepthToSpace", value, blocksize=2, mode="CRD")
        value = _prelu(net, value, width)
    value = layers.convolution(net, value, (width, 3), 9)
    net.output(value, "larger", (1, 3, image * 4, image * 4))
    return net.model()


def _prelu(net: Network, value: str, width: int) -> str:
    return net.op("PRelu", value, net.uniform("slope", width, 1, 1, low=0.1, high=0.3))


def deeplab(
    *,
    opset: int = 17,
    image: int = 256,
    width: int = 64,
    blocks: Sequence[int] = (2, 2, 2),
    classes: int = 21,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build DeepLab (Chen et al. 2017): dilated residual blocks, a pyramid of dilations."""
    net = Network("deeplab", opset=opset, seed=seed)
    value = net.input("image", (1, 3, image, image))
    value = layers.normalized(net, value, (3, width), 7, stride=2)
    value = layers.pool(net, "MaxPool", value, 3, stride=2, padding=1)
    channels = width
    for stage, count in enumerate(blocks):
        wide = width << stage
        for block in range(count):
            stride = 2 if stage == 1 and not block else 1
            dilation = 2 if stage == 2 else 1
            inner = layers.normalized(net, value, (channels, wide), 3, stride=stride)
            inner = _dilated(net, inner, wide, wide, dilation, activation=None)
            if stride != 1 or channels != wide:
                value = layers.normalized(
                    net, value, (channels, wide), stride=stride, activation=None
                )
            value = net.op("Relu", net.op("Add", inner, value))
            channels = wide
    small = image // 8
    pooled = layers.normalized(net, net.op("GlobalAveragePool", value), (channels, width))
    pooled = net.op("Resize", pooled, "", "", net.integers(1, width, small, small), mode="nearest")
    parts = [layers.normalized(net, value, (channels, width)), pooled]
    parts += [_dilated(net, value, channels, width, rate) for rate in (6, 12, 18)]
    value = layers.normalized(net, net.op("Concat", *parts, axis=1), (width * 5, width))
    value = layers.convolution(net, value, (width, classes))
    size = net.integers(1, classes, image, image)
    mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    net.output(net.op("Resize", value, "", "", size, **mode), "scores", (1, classes, image, image))
    return net.model()


def _dilated(
    net: Network,
    value: str,
    inputs: int,
    outputs: int,
    dilation: int,
    activation: str | None = "relu",
) -> str:
    weight = net.normal("weight", outputs, inputs, 3, 3, std=(2 / (inputs * 9)) ** 0.5)
    value = net.op(
        "Conv",
        value,
        weight,
        dilations=[dilation] * 2,
        kernel_shape=[3, 3],
        pads=[dilation] * 4,
    )
    value = layers.batch_normalization(net, value, outputs)
    return net.op("Relu", value) if activation else value


def mixer(
    *,
    opset: int = 17,
    image: int = 224,
    patch: int = 16,
    depth: int = 8,
    width: int = 512,
    tokens: int = 256,
    channels: int = 2048,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build MLP-Mixer (Tolstikhin et al. 2021): products over tokens, then over channels."""
    net = Network("mixer", opset=opset, seed=seed)
    count = (image // patch) ** 2
    value = _patches(net, net.input("image", (1, 3, image, image)), patch, width)
    for layer in range(depth):
        with net.scope(f"blocks.{layer}"):
            normal = layers.layer_normalization(net, value, width)
            turned = net.op("Transpose", normal, perm=[0, 2, 1])
            mixed = _perceptron(net, turned, count, tokens)
            value = net.op("Add", value, net.op("Transpose", mixed, perm=[0, 2, 1]))
            normal = layers.layer_normalization(net, value, width)
            value = net.op("Add", value, _perceptron(net, normal, width, channels))
    value = layers.layer_normalization(net, value, width)
    value = net.op("ReduceMean", value, axes=[1], keepdims=0)
    net.output(layers.classifier(net, value, width, classes), "logits", (1, classes))
    return net.model()


def _patches(net: Network, value: str, patch: int, width: int) -> str:
    value = layers.convolution(net, value, (3, width), patch, stride=patch, padding=0)
    return net.op("Transpose", reshape(net, value, (1, width, -1)), perm=[0, 2, 1])


def _perceptron(net: Network, value: str, width: int, hidden: int) -> str:
    inner = layers.gelu_erf(net, layers.dense(net, value, width, hidden))
    return layers.dense(net, inner, hidden, width)


def swin(
    *,
    opset: int = 17,
    image: int = 224,
    patch: int = 4,
    window: int = 7,
    depth: int = 4,
    width: int = 96,
    heads: int = 3,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build two stages of Swin (Liu et al. 2021): attention in windows, shifted in every second."""
    net = Network("swin", opset=opset, seed=seed)
    value = _patches(net, net.input("image", (1, 3, image, image)), patch, width)
    side = image // patch
    for layer in range(depth):
        if layer == depth // 2:
            value = _merged(net, value, side, width)
            side, width, heads = side // 2, width * 2, heads * 2
        with net.scope(f"layers.{layer}"):
            shift = window // 2 if layer % 2 else 0
            value = _window_block(net, value, side, window, width, heads, shift)
    value = net.op(
        "ReduceMean", layers.layer_normalization(net, value, width), axes=[1], keepdims=0
    )
    net.output(layers.classifier(net, value, width, classes), "logits", (1, classes))
    return net.model()


def _merged(net: Network, value: str, side: int, width: int) -> str:
    """Four neighbours become one of twice the width."""
    value = reshape(net, value, (1, side // 2, 2, side // 2, 2, width))
    value = net.op("Transpose", value, perm=[0, 1, 3, 4, 2, 5])
    value = reshape(net, value, (1, (side // 2) ** 2, 4 * width))
    value = layers.layer_normalization(net, value, 4 * width)
    return layers.dense(net, value, 4 * width, 2 * width, bias=False)


def _window_block(
    net: Network, value: str, side: int, window: int, width: int, heads: int, shift: int
) -> str:
    count, inside, depth = (side // window) ** 2, window * window, width // heads
    shortcut = value
    value = reshape(net, layers.layer_normalization(net, value, width), (1, side, side, width))
    value = _rolled(net, value, shift, side)
    rows = (1, side // window, window, side // window, window, width)
    value = net.op("Transpose", reshape(net, value, rows), perm=[0, 1, 3, 2, 4, 5])
    value = reshape(net, value, (count, inside, width))
    merged = layers.dense(net, value, width, 3 * width)
    merged = reshape(net, merged, (count, inside, 3, heads, depth))
    merged = net.op("Transpose", merged, perm=[2, 0, 3, 1, 4])
    query, key, values = (
        net.op("Gather", merged, net.constant(part, np.int64), axis=0) for part in range(3)
    )
    query = net.op("Mul", query, net.constant(depth**-0.5))
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = net.op("Add", scores, net.normal("position", 1, heads, inside, inside, std=0.02))
    if shift:
        mask = net.random.choice(np.float32([0, -100]), (count, 1, inside, inside), p=[0.9, 0.1])
        scores = net.op("Add", scores, net.weight("mask", mask))
    value = net.op("MatMul", net.op("Softmax", scores, axis=-1), values)
    value = reshape(net, net.op("Transpose", value, perm=[0, 2, 1, 3]), (count, inside, width))
    value = layers.dense(net, value, width, width)
    back = (1, side // window, side // window, window, window, width)
    value = net.op("Transpose", reshape(net, value, back), perm=[0, 1, 3, 2, 4, 5])
    value = _rolled(net, reshape(net, value, (1, side, side, width)), side - shift, side)
    value = net.op("Add", shortcut, reshape(net, value, (1, side * side, width)))
    normal = layers.layer_normalization(net, value, width)
    return net.op("Add", value, _perceptron(net, normal, width, 4 * width))


def _rolled(net: Network, value: str, shift: int, side: int) -> str:
    """Move rows and columns around by `shift`."""
    if shift % side:
        for axis in (1, 2):
            parts = (slice_(net, value, shift, side, axis), slice_(net, value, 0, shift, axis))
            value = net.op("Concat", *parts, axis=axis)
    return value


def detr(
    *,
    opset: int = 17,
    image: int = 256,
    width: int = 256,
    depth: int = 3,
    heads: int = 8,
    queries: int = 100,
    classes: int = 91,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build DETR (Carion et al. 2020): a convolutional backbone, encoder, decoder, two heads."""
    net = Network("detr", opset=opset, seed=seed)
    value, channels = net.input("image", (1, 3, image, image)), 3
    for wide in (32, 64, 128, 256, width):
        value = layers.normalized(net, value, (channels, wide), 3, stride=2)
        channels = wide
    value = net.op("Transpose", reshape(net, value, (1, width, -1)), perm=[0, 2, 1])
    places = net.normal("places", 1, (image // 32) ** 2, width, std=0.5)
    for layer in range(depth):
        with net.scope(f"encoder.{layer}"):
            value = _attended(net, value, value, places, places, width, heads)
            value = _fed(net, value, width)
    asked = net.normal("queries", 1, queries, width, std=0.5)
    objects = net.normal("start", 1, queries, width, std=0.5)
    for layer in range(depth):
        with net.scope(f"decoder.{layer}"):
            objects = _attended(net, objects, objects, asked, asked, width, heads)
            objects = _attended(net, objects, value, asked, places, width, heads)
            objects = _fed(net, objects, width)
    net.output(layers.dense(net, objects, width, classes + 1), "classes", (1, queries, classes + 1))
    boxes = net.op("Relu", layers.dense(net, objects, width, width))
    boxes = net.op("Sigmoid", layers.dense(net, boxes, width, 4))
    net.output(boxes, "boxes", (1, queries, 4))
    return net.model()


def _attended(
    net: Network, asks: str, memory: str, position: str, places: str, width: int, heads: int
) -> str:
    depth = width // heads
    query = layers.dense(net, net.op("Add", asks, position), width, width)
    key = layers.dense(net, net.op("Add", memory, places), width, width)
    values = layers.dense(net, memory, width, width)
    shape = (1, -1, heads, depth)
    query, values = (layers.heads(net, tensor, shape) for tensor in (query, values))
    attended = layers.attend(net, query, layers.heads(net, key, shape, (0, 2, 3, 1)), values, depth)
    attended = reshape(net, net.op("Transpose", attended, perm=[0, 2, 1, 3]), (1, -1, width))
    attended = layers.dense(net, attended, width, width)
    return layers.layer_normalization(net, net.op("Add", asks, attended), width)


def _fed(net: Network, value: str, width: int) -> str:
    inner = net.op("Relu", layers.dense(net, value, width, 4 * width))
    inner = layers.dense(net, inner, 4 * width, width)
    return layers.layer_normalization(net, net.op("Add", value, inner), width)


def diffusion(
    *, opset: int = 17, image: int = 32, width: int = 64, seed: int = 0
) -> onnx.ModelProto:
    """Build a diffusion model's U-Net (Ho et al. 2020): a time, groups, attention in the middle."""
    net = Network("diffusion", opset=opset, seed=seed)
    value = net.input("noise", (1, 3, image, image))
    time = net.input("time", (1, width))
    time = layers.dense(net, layers.silu(net, layers.dense(net, time, width, width)), width, width)
    value = layers.convolution(net, value, (3, width), 3)
    kept, channels = [], width
    for level, wide in enumerate((width, width * 2, width * 4)):
        with net.scope(f"down.{level}"):
            value = _time_block(net, value, time, channels, wide, width)
            kept.append((value, wide))
            value = layers.convolution(net, value, (wide, wide), 3, stride=2)
            channels = wide
    with net.scope("middle"):
        value = _time_block(net, value, time, channels, channels, width)
        rows = net.op("Transpose", reshape(net, value, (1, channels, -1)), perm=[0, 2, 1])
        place = net.constant(0.0)
        rows = _attended(net, rows, rows, place, place, channels, 4)
        rows = net.op("Transpose", rows, perm=[0, 2, 1])
        value = reshape(net, rows, (1, channels, image // 8, image // 8))
    for level, (other, wide) in enumerate(reversed(kept)):
        with net.scope(f"up.{level}"):
            twice = net.constant([1.0, 1.0, 2.0, 2.0])
            value = net.op("Resize", value, "", twice, mode="nearest")
            value = net.op("Concat", value, other, axis=1)
            value = _time_block(net, value, time, channels + wide, wide, width)
            channels = wide
    value = layers.silu(net, _group_normalization(net, value, channels))
    value = layers.convolution(net, value, (channels, 3), 3)
    net.output(value, "predicted", (1, 3, image, image))
    return net.model()


def _time_block(net: Network, value: str, time: str, inputs: int, outputs: int, width: int) -> str:
    inner = layers.silu(net, _group_normalization(net, value, inputs))
    inner = layers.convolution(net, inner, (inputs, outputs), 3)
    shift = layers.dense(net, layers.silu(net, time), width, outputs)
    inner = net.op("Add", inner, unsqueeze(net, shift, 2, 3))
    inner = layers.silu(net, _group_normalization(net, inner, outputs))
    inner = layers.convolution(net, inner, (outputs, outputs), 3)
    if inputs != outputs:
        value = layers.convolution(net, value, (inputs, outputs))
    return net.op("Add", value, inner)


def _group_normalization(net: Network, value: str, channels: int, groups: int = 8) -> str:
    """Normalize groups of channels as PyTorch's exporter writes it: of instances, reshaped."""
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    shape = net.op("Shape", value)
    value = reshape(net, value, (0, groups, -1))
    value = net.op(
        "InstanceNormalization", value, net.weight("ones", ones), net.weight("zeros", zeros)
    )
    value = net.op("Reshape", value, shape)
    weight = net.uniform("weight", channels, 1, 1, low=0.8, high=1.2)
    return net.op("Add", net.op("Mul", value, weight), net.normal("bias", channels, 1, 1, std=0.05))
