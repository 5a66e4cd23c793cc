"""Layers as exporters spell them out, with weights that keep activations near unit scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .network import Dimension, Network, reduce_mean, reshape


def convolution(
    net: Network,
    value: str,
    channels: tuple[int, int],
    kernel: int | tuple[int, int] = 1,
    *,
    stride: int = 1,
    padding: int | tuple[int, int] | None = None,
    groups: int = 1,
    bias: bool = True,
) -> str:
    """Convolve [n, c, h, w]; He initialization; padding "same" unless given."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    if padding is None:
        padding = (height // 2, width // 2)
    top, left = (padding, padding) if isinstance(padding, int) else padding
    inputs, outputs = channels
    fan_in = inputs // groups * height * width
    weights = [
        net.normal("weight", outputs, inputs // groups, height, width, std=(2 / fan_in) ** 0.5)
    ]
    if bias:
        weights.append(net.normal("bias", outputs, std=0.05))
    return net.op(
        "Conv",
        value,
        *weights,
        dilations=[1, 1],
        group=groups,
        kernel_shape=[height, width],
        pads=[top, left, top, left],
        strides=[stride, stride],
    )


def batch_normalization(
    net: Network, value: str, channels: int, *, gain: float = 1.0, epsilon: float = 1e-5
) -> str:
    """Normalize with running statistics that are neither zero nor one."""
    with net.scope("bn"):
        statistics = (
            net.uniform("weight", channels, low=0.8 * gain, high=1.2 * gain),
            net.normal("bias", channels, std=0.1),
            net.normal("running_mean", channels, std=0.2),
            net.uniform("running_var", channels, low=0.6, high=1.6),
        )
        return net.op("BatchNormalization", value, *statistics, epsilon=epsilon, momentum=0.9)


def normalized(
    net: Network,
    value: str,
    channels: tuple[int, int],
    kernel: int = 1,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: str | None = "relu",
    gain: float = 1.0,
) -> str:
    """Convolve without bias, normalize, activate ("relu", "hard_swish", "silu" or None)."""
    value = convolution(net, value, channels, kernel, stride=stride, groups=groups, bias=False)
    value = batch_normalization(net, value, channels[1], gain=gain)
    match activation:
        case "relu":
            return net.op("Relu", value)
        case "hard_swish":
            return hard_swish(net, value)
        case "silu":
            return silu(net, value)
    return value


def squeeze_and_excite(
    net: Network, value: str, channels: int, squeezed: int, activation: str = "relu"
) -> str:
    """Scale the channels of [n, c, h, w] by a gate computed of their means (Hu et al. 2018).

    `activation` "relu" goes with a hard sigmoid, "silu" with a sigmoid.
    """
    with net.scope("se"):
        gate = convolution(net, net.op("GlobalAveragePool", value), (channels, squeezed))
        gate = net.op("Relu", gate) if activation == "relu" else silu(net, gate)
        gate = convolution(net, gate, (squeezed, channels))
        gate = hard_sigmoid(net, gate) if activation == "relu" else net.op("Sigmoid", gate)
        return net.op("Mul", gate, value)


def classify(net: Network, value: str, channels: int, classes: int, batch: Dimension) -> None:
    """Make the logits [n, classes] of [n, c, h, w] the output."""
    # PyTorch's adaptive average pool comes out as either of these, depending on the exporter.
    newer = net.opset >= 18
    value = reduce_mean(net, value, 2, 3) if newer else net.op("GlobalAveragePool", value)
    value = classifier(net, net.op("Flatten", value, axis=1), channels, classes)
    net.output(value, "logits", (batch, classes))


def pool(net: Network, kind: str, value: str, kernel: int, *, stride: int, padding: int = 0) -> str:
    """Apply MaxPool or AveragePool (padding counted, as PyTorch does)."""
    extra = {"count_include_pad": 1} if kind == "AveragePool" else {}
    return net.op(
        kind,
        value,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[padding] * 4,
        ceil_mode=0,
        **extra,
    )


def hard_swish(net: Network, value: str) -> str:
    if net.opset >= 14:
        return net.op("HardSwish", value)
    return net.op("Mul", value, hard_sigmoid(net, value))


def hard_sigmoid(net: Network, value: str) -> str:
    return net.op("HardSigmoid", value, alpha=1 / 6)


def dense(net: Network, value: str, inputs: int, outputs: int, *, bias: bool = True) -> str:
    """Apply a linear layer to [..., inputs] as MatMul and Add, Xavier initialization."""
    weight = net.normal("weight", inputs, outputs, std=(2 / (inputs + outputs)) ** 0.5)
    value = net.op("MatMul", value, weight)
    if not bias:
        return value
    return net.op("Add", net.normal("bias", outputs, std=0.02), value)


def classifier(net: Network, value: str, inputs: int, outputs: int) -> str:
    """Apply a linear layer to [n, inputs] as Gemm with a transposed weight."""
    weight = net.normal("weight", outputs, inputs, std=inputs**-0.5)
    return net.op("Gemm", value, weight, net.normal("bias", outputs, std=0.02), transB=1)


def layer_normalization(net: Network, value: str, width: int, epsilon: float = 1e-5) -> str:
    """Normalize over the last axis, spelled out as exporters do below opset 17."""
    centered = net.op("Sub", value, reduce_mean(net, value, -1))
    variance = reduce_mean(net, net.op("Pow", centered, net.constant(2.0)), -1)
    deviation = net.op("Sqrt", net.op("Add", variance, net.constant(epsilon)))
    scaled = net.op("Mul", net.op("Div", centered, deviation), scale(net, width))
    return net.op("Add", scaled, net.normal("bias", width, std=0.05))


def rms_normalization(net: Network, value: str, width: int, epsilon: float = 1e-6) -> str:
    """Normalize by the root mean square over the last axis (Zhang and Sennrich, 2019)."""
    mean_square = reduce_mean(net, net.op("Pow", value, net.constant(2.0)), -1)
    root = net.op("Sqrt", net.op("Add", mean_square, net.constant(epsilon)))
    inverse = net.op("Div", net.constant(1.0), root)
    return net.op("Mul", scale(net, width), net.op("Mul", value, inverse))


def scale(net: Network, width: int) -> str:
    return net.uniform("weight", width, low=0.8, high=1.2)


def gelu_erf(net: Network, value: str) -> str:
    """Apply x * (1 + erf(x / sqrt 2)) / 2."""
    erf = net.op("Erf", net.op("Div", value, net.constant(2**0.5)))
    product = net.op("Mul", value, net.op("Add", erf, net.constant(1.0)))
    return net.op("Mul", product, net.constant(0.5))


def gelu_tanh(net: Network, value: str) -> str:
    """Apply the tanh approximation of GELU, spelled out as GPT-2's source does."""
    half = net.op("Mul", value, net.constant(0.5))
    cubic = net.op("Mul", net.op("Pow", value, net.constant(3.0)), net.constant(0.044715))
    inner = net.op("Mul", net.op("Add", value, cubic), net.constant((2 / np.pi) ** 0.5))
    return net.op("Mul", half, net.op("Add", net.op("Tanh", inner), net.constant(1.0)))


def silu(net: Network, value: str) -> str:
    return net.op("Mul", value, net.op("Sigmoid", value))


def heads(
    net: Network, value: str, shape: Sequence[Dimension], permutation: Sequence[int] = (0, 2, 1, 3)
) -> str:
    """Split [b, s, w] into heads: reshape to [b, s, h, d], then transpose."""
    return net.op("Transpose", reshape(net, value, shape), perm=permutation)


def attend(
    net: Network, query: str, key: str, value: str, depth: int, mask: str | None = None
) -> str:
    """Compute softmax(QK^T / sqrt d + mask) V; Q, V [b, h, s, d] and K transposed already."""
    scores = net.op("Div", net.op("MatMul", query, key), net.constant(depth**0.5))
    if mask is not None:
        scores = net.op("Add", scores, mask)
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
