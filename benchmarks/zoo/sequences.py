"""Sequences, second list: scans, recurrences, speech, a decoder's step, a mixture of experts."""

from __future__ import annotations

import numpy as np
import onnx

from . import layers
from .network import Network, reshape, slice_, split, unsqueeze


def mamba(
    *,
    opset: int = 17,
    tokens: int = 32,
    depth: int = 2,
    width: int = 128,
    state: int = 16,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build Mamba-like blocks (Gu and Dao 2023): a scan, which exporters write step by step."""
    net = Network("mamba", opset=opset, seed=seed)
    value = net.input("embedded", (1, tokens, width))
    inner = 2 * width
    for layer in range(depth):
        with net.scope(f"layers.{layer}"):
            normal = layers.rms_normalization(net, value, width)
            merged = layers.dense(net, normal, width, 2 * inner, bias=False)
            x, gate = split(net, merged, (inner, inner), 2)
            x = net.op("Transpose", x, perm=[0, 2, 1])
            kernel = net.normal("conv", inner, 1, 4, std=0.5)
            x = net.op("Conv", x, kernel, group=inner, kernel_shape=[4], pads=[3, 0])
            x = layers.silu(net, net.op("Transpose", x, perm=[0, 2, 1]))
            scanned = _scanned(net, x, tokens, inner, state)
            gated = net.op("Mul", scanned, layers.silu(net, gate))
            out = layers.dense(net, gated, inner, width, bias=False)
            value = net.op("Add", value, out)
    value = layers.rms_normalization(net, value, width)
    net.output(value, "hidden", (1, tokens, width))
    return net.model()


def _scanned(net: Network, x: str, tokens: int, inner: int, state: int) -> str:
    merged = layers.dense(net, x, inner, inner + 2 * state)
    step, into, out = split(net, merged, (inner, state, state), 2)
    step = net.op("Softplus", step)
    decay = net.op("Neg", net.op("Exp", net.normal("A", inner, state, std=0.3)))
    decay = net.op(
        "Exp", net.op("Mul", unsqueeze(net, step, 3), decay)
    )  # [1, tokens, inner, state]
    fed = net.op("Mul", unsqueeze(net, net.op("Mul", step, x), 3), unsqueeze(net, into, 2))
    state_value, rows = net.constant(np.zeros((1, inner, state))), []
    for token in range(tokens):
        place = net.constant(token, np.int64)
        kept = net.op("Mul", net.op("Gather", decay, place, axis=1), state_value)
        state_value = net.op("Add", kept, net.op("Gather", fed, place, axis=1))
        read = unsqueeze(net, net.op("Gather", out, place, axis=1), 2)
        rows.append(reshape(net, net.op("MatMul", state_value, read), (1, 1, inner)))
    scanned = net.op("Concat", *rows, axis=1)
    return net.op("Add", scanned, net.op("Mul", x, net.normal("D", inner, std=0.5)))


def recurrent(
    *,
    opset: int = 17,
    kind: str = "GRU",
    steps: int = 100,
    features: int = 160,
    width: int = 256,
    depth: int = 2,
    classes: int = 29,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a speech model like DeepSpeech 2 (Amodei et al. 2016): a convolution, then GRU or LSTM.

    Layers run in both directions.
    """
    net = Network(kind.lower(), opset=opset, seed=seed)
    value = net.input("spectrum", (1, 1, features, 2 * steps))
    value = layers.normalized(net, value, (1, 32), (11, 11), stride=2)
    value = reshape(net, value, (32 * features // 2, steps, 1))
    value = net.op("Transpose", value, perm=[1, 2, 0])
    inputs, gates = 16 * features, {"GRU": 3, "LSTM": 4}[kind]
    for _ in range(depth):
        weights = (
            net.normal("W", 2, gates * width, inputs, std=inputs**-0.5),
            net.normal("R", 2, gates * width, width, std=width**-0.5),
            net.normal("B", 2, 2 * gates * width, std=0.05),
        )
        value = net.op(kind, value, *weights, hidden_size=width, direction="bidirectional")
        value = net.op("Transpose", value, perm=[0, 2, 1, 3])
        value = reshape(net, value, (steps, 1, 2 * width))
        inputs = 2 * width
    value = net.op("LogSoftmax", layers.dense(net, value, inputs, classes), axis=-1)
    net.output(value, "letters", (steps, 1, classes))
    return net.model()


def wav2vec2(
    *,
    opset: int = 17,
    samples: int = 16000,
    channels: int = 256,
    width: int = 384,
    depth: int = 3,
    heads: int = 6,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build wav2vec 2.0 (Baevski et al. 2020): strided convolutions of samples, an encoder."""
    net = Network("wav2vec2", opset=opset, seed=seed)
    value, inputs, length = net.input("samples", (1, 1, samples)), 1, samples
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        weight = net.normal("conv", channels, inputs, kernel, std=(2 / (inputs * kernel)) ** 0.5)
        value = net.op("Conv", value, weight, kernel_shape=[kernel], strides=[stride])
        if inputs == 1:
            ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
            scale_and_shift = (net.weight("ones", ones), net.weight("zeros", zeros))
            value = net.op("InstanceNormalization", value, *scale_and_shift)
        value, inputs = layers.gelu_erf(net, value), channels
        length = (length - kernel) // stride + 1
    value = net.op("Transpose", value, perm=[0, 2, 1])
    value = layers.layer_normalization(net, value, channels)
    value = layers.dense(net, value, channels, width)
    for layer in range(depth):
        with net.scope(f"encoder.{layer}"):
            value = encoder_layer(net, value, length, width, heads)
    net.output(value, "hidden", (1, length, width))
    return net.model()


def encoder_layer(net: Network, value: str, tokens: int, width: int, heads: int) -> str:
    """Attend and feed forward, normalized behind each."""
    shape = (1, tokens, heads, width // heads)
    query, key, values = (
        layers.heads(net, layers.dense(net, value, width, width), shape, order)
        for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    attended = layers.attend(net, query, key, values, width // heads)
    attended = net.op("Transpose", attended, perm=[0, 2, 1, 3])
    attended = layers.dense(net, reshape(net, attended, (1, tokens, width)), width, width)
    value = layers.layer_normalization(net, net.op("Add", value, attended), width)
    inner = layers.gelu_erf(net, layers.dense(net, value, width, 4 * width))
    inner = layers.dense(net, inner, 4 * width, width)
    return layers.layer_normalization(net, net.op("Add", value, inner), width)


def decoder_step(
    *,
    opset: int = 17,
    past: int = 128,
    heard: int = 500,
    width: int = 384,
    depth: int = 4,
    heads: int = 6,
    vocabulary: int = 20000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a step of Whisper's decoder (Radford et al. 2022): a token, caches, what was heard."""
    net = Network("decoder_step", opset=opset, seed=seed)
    value, size = net.input("embedded", (1, 1, width)), width // heads
    for layer in range(depth):
        query_parts, other = (
            [
                net.input(f"{sort}.{layer}.{name}", (1, heads, count, size))
                for name in ("key", "value")
            ]
            for sort, count in (("past", past), ("cross", heard))
        )
        with net.scope(f"layers.{layer}"):
            normal = layers.layer_normalization(net, value, width)
            query, key, values = (
                layers.heads(net, layers.dense(net, normal, width, width), (1, 1, heads, size))
                for _ in range(3)
            )
            key = net.op("Concat", query_parts[0], key, axis=2)
            values = net.op("Concat", query_parts[1], values, axis=2)
            net.output(key, f"present.{layer}.key", (1, heads, past + 1, size))
            net.output(values, f"present.{layer}.value", (1, heads, past + 1, size))
            value = _stepped(net, value, query, f"present.{layer}.key", f"present.{layer}.value")
            normal = layers.layer_normalization(net, value, width)
            query = layers.heads(net, layers.dense(net, normal, width, width), (1, 1, heads, size))
            value = _stepped(net, value, query, *other)
            normal = layers.layer_normalization(net, value, width)
            inner = layers.gelu_erf(net, layers.dense(net, normal, width, 4 * width))
            value = net.op("Add", value, layers.dense(net, inner, 4 * width, width))
    value = layers.layer_normalization(net, value, width)
    logits = layers.dense(net, value, width, vocabulary, bias=False)
    net.output(logits, "logits", (1, 1, vocabulary))
    return net.model()


def _stepped(net: Network, value: str, query: str, key: str, values: str) -> str:
    heads, size = net.shape_of[key][1], net.shape_of[key][3]
    width = heads * size
    key = net.op("Transpose", key, perm=[0, 1, 3, 2])
    attended = layers.attend(net, query, key, values, size)
    attended = reshape(net, net.op("Transpose", attended, perm=[0, 2, 1, 3]), (1, 1, width))
    return net.op("Add", value, layers.dense(net, attended, width, width))


def experts(
    *,
    opset: int = 17,
    tokens: int = 64,
    width: int = 256,
    hidden: int = 512,
    count: int = 8,
    depth: int = 2,
    heads: int = 4,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build blocks with a mixture of experts (Shazeer et al. 2017), as an exporter writes it.

    The two best experts of each token count, by their gates; all of them are computed.
    """
    net = Network("experts", opset=opset, seed=seed)
    value = net.input("embedded", (1, tokens, width))
    for layer in range(depth):
        with net.scope(f"layers.{layer}"):
            value = encoder_layer(net, value, tokens, width, heads)
            gates = net.op("Softmax", layers.dense(net, value, width, count, bias=False), axis=-1)
            best, chosen = net.ops("TopK", gates, net.integers(2), outputs=2, axis=-1)
            mass = net.op("ReduceSum", best, net.integers(-1), keepdims=1)
            best = net.op("Div", best, mass)
            nothing = net.op("Mul", gates, net.constant(0.0))
            gates = net.op("ScatterElements", nothing, chosen, best, axis=-1)
            parts = []
            for expert in range(count):
                with net.scope(f"experts.{expert}"):
                    expert_output = _gated(net, value, width, hidden)
                    parts.append(
                        net.op("Mul", expert_output, slice_(net, gates, expert, expert + 1, 2))
                    )
            value = net.op("Add", value, net.op("Sum", *parts))
    net.output(value, "hidden", (1, tokens, width))
    return net.model()


def _gated(net: Network, value: str, width: int, hidden: int) -> str:
    inner = layers.silu(net, layers.dense(net, value, width, hidden, bias=False))
    inner = net.op("Mul", inner, layers.dense(net, value, width, hidden, bias=False))
    return layers.dense(net, inner, hidden, width, bias=False)
