"""Two models of FlexFlow's evaluation (Jia et al. 2019, table 3) for plans over devices."""

from __future__ import annotations

import numpy as np
import onnx

from . import layers
from .network import Network, split, unsqueeze


def alexnet(*, opset: int = 17, batch: int = 64, classes: int = 1000) -> onnx.ModelProto:
    """Build AlexNet on one tower (Krizhevsky 2014): five convolutions, three dense layers."""
    net = Network("alexnet", opset=opset, seed=0)
    value = net.input("image", (batch, 3, 227, 227))
    rows = ((3, 64, 11, 4, 0), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1))
    for number, (inputs, outputs, kernel, stride, pad) in enumerate([*rows, (256, 256, 3, 1, 1)]):
        weight = net.normal(f"conv{number}", outputs, inputs, kernel, kernel, std=0.05)
        value = net.op("Conv", value, weight, strides=[stride] * 2, pads=[pad] * 4)
        value = net.op("Relu", value)
        if number in (0, 1, 4):
            value = layers.pool(net, "MaxPool", value, 3, stride=2)
    value = net.op("Flatten", value)
    for outputs, inputs in ((4096, 256 * 6 * 6), (4096, 4096)):
        value = net.op("Relu", layers.classifier(net, value, inputs, outputs))
    net.output(layers.classifier(net, value, 4096, classes), "logits", (batch, classes))
    return net.model()


def nmt(
    *,
    opset: int = 17,
    batch: int = 64,
    steps: int = 20,
    width: int = 1024,
    vocabulary: int = 32000,
) -> onnx.ModelProto:
    """Build a translator (Wu et al. 2016, shortened), unrolled: two layers of LSTM on each side.

    The decoder attends to what the upper layer of the encoder gave, and names a word a step.
    """
    net = Network("nmt", opset=opset, seed=0)
    sides = []
    for side in ("source", "target"):
        ids = net.input(side, (batch, steps), onnx.TensorProto.INT64)
        table = net.normal(f"{side}.embedding", vocabulary, width, std=0.1)
        words = net.op("Gather", table, ids)
        values = [net.op("Gather", words, net.constant(n, np.int64), axis=1) for n in range(steps)]
        for layer in range(2):
            with net.scope(f"{side}.{layer}"):
                values = _lstm(net, values, batch, width)
        sides.append(values)
    keys = net.op("Concat", *(unsqueeze(net, value, 1) for value in sides[0]), axis=1)
    project = net.normal("words", 2 * width, vocabulary, std=0.02)
    named = []
    for state in sides[1]:
        scores = net.op("MatMul", keys, unsqueeze(net, state, 2))  # [batch, steps, 1]
        weights = net.op("Softmax", scores, axis=1)
        context = net.op("ReduceSum", net.op("Mul", keys, weights), net.integers(1), keepdims=0)
        logits = net.op("MatMul", net.op("Concat", state, context, axis=1), project)
        named.append(unsqueeze(net, net.op("Softmax", logits, axis=1), 1))
    net.output(net.op("Concat", *named, axis=1), "probabilities", (batch, steps, vocabulary))
    return net.model()


def _lstm(net: Network, values: list[str], batch: int, width: int) -> list[str]:
    weight = net.normal("W", 2 * width, 4 * width, std=0.03)
    bias = net.constant(np.zeros(4 * width))
    hidden = cell = net.constant(np.zeros((batch, width)))
    outputs = []
    for value in values:
        joined = net.op("Concat", value, hidden, axis=1)
        gates = net.op("Add", net.op("MatMul", joined, weight), bias)
        entry, forget, exit_, new = split(net, gates, [width] * 4, axis=1)
        kept = net.op("Mul", net.op("Sigmoid", forget), cell)
        cell = net.op("Add", kept, net.op("Mul", net.op("Sigmoid", entry), net.op("Tanh", new)))
        hidden = net.op("Mul", net.op("Sigmoid", exit_), net.op("Tanh", cell))
        outputs.append(hidden)
    return outputs
