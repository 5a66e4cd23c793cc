"""A T5 encoder, an unrolled recurrent cell found by search, and a recommendation model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from . import layers
from .network import Dimension, Network, dimension, reshape, unsqueeze
from .transformer import LOWEST


def t5(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    tokens: Dimension = 128,
    depth: int = 6,
    width: int = 512,
    heads: int = 8,
    hidden: int = 2048,
    vocabulary: int = 32128,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build T5-small's encoder (Raffel et al. 2020): RMSNorm, bucketed relative positions, ReLU."""
    net = Network("t5", opset=opset, seed=seed)
    ids, mask = (
        net.input(name, (batch, tokens), TensorProto.INT64)
        for name in ("input_ids", "attention_mask")
    )
    shape = (
        batch if isinstance(batch, int) else dimension(net, ids, 0),
        tokens if isinstance(tokens, int) else dimension(net, ids, 1),
    )
    value = net.op("Gather", net.normal("shared", vocabulary, width, std=0.7), ids)
    with net.scope("mask"):
        mask = net.op("Cast", unsqueeze(net, mask, 1, 2), to=TensorProto.FLOAT)
        mask = net.op("Mul", net.op("Sub", net.constant(1.0), mask), net.constant(LOWEST))
    with net.scope("position"):
        bias = net.op("Add", _relative_bias(net, tokens, shape[1], heads), mask)
    for layer in range(depth):
        with net.scope(f"block.{layer}"):
            normal = layers.rms_normalization(net, value, width)
            value = net.op("Add", value, _attention(net, normal, shape, width, heads, bias))
            normal = layers.rms_normalization(net, value, width)
            inner = net.op("Relu", layers.dense(net, normal, width, hidden, bias=False))
            value = net.op("Add", value, layers.dense(net, inner, hidden, width, bias=False))
    value = layers.rms_normalization(net, value, width)
    net.output(value, "last_hidden_state", (batch, tokens, width))
    return net.model()


def _attention(
    net: Network, value: str, shape: Sequence[Dimension], width: int, heads: int, bias: str
) -> str:
    """Attend without scaling the scores, as T5 does; `bias` is of the scores' shape."""
    split_shape = (*shape, heads, width // heads)
    query, key, values = (
        layers.heads(net, layers.dense(net, value, width, width, bias=False), split_shape, order)
        for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    # T5 learns small weights in the place of a scale.
    scores = net.op("Mul", net.op("MatMul", query, key), net.constant((heads / width) ** 0.5))
    weights = net.op("Softmax", net.op("Add", scores, bias), axis=-1)
    attended = net.op("Transpose", net.op("MatMul", weights, values), perm=[0, 2, 1, 3])
    return layers.dense(net, reshape(net, attended, (*shape, width)), width, width, bias=False)


def _relative_bias(
    net: Network, tokens: Dimension, count: Dimension, heads: int, buckets: int = 32
) -> str:
    """Look up a bias [1, h, s, s] by the distance's bucket: near ones apart, far ones by log."""
    if isinstance(tokens, int):
        positions = net.constant(range(tokens), np.int64)
    else:
        zero, one = net.constant(0, np.int64), net.constant(1, np.int64)
        positions = net.op("Range", zero, str(count), one)
    half, exact, longest = buckets // 2, buckets // 4, 128
    distances = net.op("Sub", unsqueeze(net, positions, 0), unsqueeze(net, positions, 1))
    after = net.op(
        "Cast", net.op("Greater", distances, net.constant(0, np.int64)), to=TensorProto.INT64
    )
    after = net.op("Mul", after, net.constant(half, np.int64))
    distances = net.op("Abs", distances)
    near = net.op("Less", distances, net.constant(exact, np.int64))
    far = net.op("Cast", net.op("Max", distances, net.constant(1, np.int64)), to=TensorProto.FLOAT)
    far = net.op("Log", net.op("Div", far, net.constant(float(exact))))
    far = net.op("Div", far, net.constant(float(np.log(longest / exact))))
    far = net.op("Mul", far, net.constant(float(half - exact)))
    far = net.op("Add", net.op("Cast", far, to=TensorProto.INT64), net.constant(exact, np.int64))
    far = net.op("Min", far, net.constant(half - 1, np.int64))
    bucket = net.op("Add", after, net.op("Where", near, distances, far))
    bias = net.op("Gather", net.normal("relative_attention_bias", buckets, heads, std=0.5), bucket)
    return unsqueeze(net, net.op("Transpose", bias, perm=[2, 0, 1]), 0)


def nasrnn(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    steps: int = 5,
    width: int = 512,
    seed: int = 0,
) -> onnx.ModelProto:
    """Unroll a recurrent cell found by search (Zoph and Le 2017): eight products of x and of h."""
    net = Network("nasrnn", opset=opset, seed=seed)
    inputs = net.input("inputs", (batch, steps, width))
    state = net.input("state", (batch, width))
    weights = [
        (
            net.normal("W", width, width, std=width**-0.5),
            net.normal("U", width, width, std=0.5 * width**-0.5),
        )
        for _ in range(8)
    ]
    for step in range(steps):
        with net.scope(f"step.{step}"):
            value = net.op("Gather", inputs, net.constant(step, np.int64), axis=1)
            state = _cell(net, value, state, weights)
    net.output(state, "last_state", (batch, width))
    return net.model()


def _cell(net: Network, value: str, state: str, weights: Sequence[tuple[str, str]]) -> str:
    def op(kind: str, *operands: str) -> str:
        return net.op(kind, *operands)

    gates = [op("Add", op("MatMul", value, w), op("MatMul", state, u)) for w, u in weights]
    first = op("Add", op("Relu", gates[0]), op("Sigmoid", gates[3]))
    second = op("Add", op("Sigmoid", gates[1]), op("Tanh", gates[2]))
    third = op("Mul", op("Sigmoid", gates[4]), op("Tanh", gates[5]))
    fourth = op("Mul", op("Sigmoid", gates[6]), op("Relu", gates[7]))
    fifth = op("Add", op("Sigmoid", second), op("Tanh", third))
    sixth = op("Mul", op("Tanh", first), op("Tanh", fourth))
    return op("Tanh", op("Mul", op("Tanh", fifth), op("Tanh", sixth)))


def dlrm(
    *,
    opset: int = 17,
    batch: Dimension = 128,
    tables: int = 26,
    rows: int = 20000,
    width: int = 64,
    lookups: int = 4,
    bottom: Sequence[int] = (512, 256),
    top: Sequence[int] = (512, 256),
    seed: int = 0,
) -> onnx.ModelProto:
    """Build DLRM (Naumov et al. 2019): embedding bags, pairwise dot products, two perceptrons."""
    net = Network("dlrm", opset=opset, seed=seed)
    value = net.input("dense", (batch, 13))
    with net.scope("bottom"):
        value = _perceptron(net, value, (13, *bottom, width))
    features = [value]
    for table in range(tables):
        with net.scope(f"embedding.{table}"):
            ids = net.input(f"ids_{table}", (batch, lookups), TensorProto.INT64)
            bag = net.op("Gather", net.normal("weight", rows, width, std=0.5), ids)
            features.append(net.op("ReduceSum", bag, net.integers(1), keepdims=0))
    with net.scope("interaction"):
        count = tables + 1
        joined = reshape(net, net.op("Concat", *features, axis=1), (-1, count, width))
        dots = net.op("MatMul", joined, net.op("Transpose", joined, perm=[0, 2, 1]))
        flat = reshape(net, dots, (-1, count * count))
        pairs = [row * count + column for row in range(count) for column in range(row)]
        chosen = net.op("Gather", flat, net.constant(pairs, np.int64), axis=1)
        value = net.op("Concat", value, chosen, axis=1)
    with net.scope("top"):
        value = _perceptron(net, value, (width + len(pairs), *top))
        value = net.op("Sigmoid", layers.classifier(net, value, top[-1], 1))
    net.output(value, "click", (batch, 1))
    return net.model()


def _perceptron(net: Network, value: str, widths: Sequence[int]) -> str:
    for inputs, outputs in itertools.pairwise(widths):
        value = net.op("Relu", layers.classifier(net, value, inputs, outputs))
    return value
