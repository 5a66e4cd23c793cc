"""Structures, second list: a graph network, a recommender, an ensemble of trees."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from . import layers
from .network import Network, reshape, unsqueeze


def graph_network(
    *,
    opset: int = 18,
    points: int = 1000,
    edges: int = 8000,
    width: int = 64,
    depth: int = 3,
    classes: int = 7,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build GraphSAGE (Hamilton et al. 2017): messages along edges gathered, and scattered back."""
    net = Network("graph_network", opset=opset, seed=seed)
    value = net.input("features", (points, width))
    senders, receivers = (net.input(n, (edges,), TensorProto.INT64) for n in ("from", "to"))
    net.indices.update({senders: points, receivers: points})
    for layer in range(depth):
        with net.scope(f"layers.{layer}"):
            message = net.op("Gather", value, senders, axis=0)
            message = net.op("Relu", layers.dense(net, message, width, width))
            places = net.op("Expand", unsqueeze(net, receivers, 1), net.integers(edges, width))
            nothing = net.constant(np.zeros((points, width)))
            operands = (nothing, places, message)
            summed = net.op("ScatterElements", *operands, axis=0, reduction="add")
            ones = net.constant(np.ones((edges, 1)))
            counted = net.op(
                "ScatterElements",
                net.constant(np.zeros((points, 1))),
                unsqueeze(net, receivers, 1),
                ones,
                axis=0,
                reduction="add",
            )
            mean = net.op("Div", summed, net.op("Max", counted, net.constant(1.0)))
            root = layers.dense(net, value, width, width)
            value = net.op("Add", root, layers.dense(net, mean, width, width, bias=False))
            value = net.op("Relu", layers.layer_normalization(net, value, width))
    net.output(layers.dense(net, value, width, classes), "scores", (points, classes))
    return net.model()


def recommender(
    *,
    opset: int = 17,
    batch: int = 64,
    fields: int = 26,
    rows: int = 5000,
    width: int = 16,
    hidden: int = 400,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build DeepFM (Guo et al. 2017): tables, products of pairs of fields, a perceptron."""
    net = Network("recommender", opset=opset, seed=seed)
    ids = net.input("ids", (batch, fields), TensorProto.INT64)
    net.indices[ids] = rows
    sums, linear = [], []
    for field in range(fields):
        place = net.op("Gather", ids, net.constant(field, np.int64), axis=1)
        sums.append(
            unsqueeze(net, net.op("Gather", net.normal("table", rows, width, std=0.1), place), 1)
        )
        linear.append(net.op("Gather", net.normal("linear", rows, 1, std=0.1), place))
    value = net.op("Concat", *sums, axis=1)
    first = net.op("Sum", *linear)
    axes = {"axes": [1], "keepdims": 0} if opset < 13 else {"keepdims": 0}
    axes_input = [net.integers(1)] if opset >= 13 else []
    total = net.op("ReduceSum", value, *axes_input, **axes)
    squares = net.op("ReduceSum", net.op("Mul", value, value), *axes_input, **axes)
    pairs = net.op("Sub", net.op("Mul", total, total), squares)
    pairs = net.op("ReduceSum", pairs, net.integers(1), keepdims=1)
    pairs = net.op("Mul", pairs, net.constant(0.5))
    deep, inputs = reshape(net, value, (batch, fields * width)), fields * width
    for _ in range(3):
        deep = net.op("Relu", layers.dense(net, deep, inputs, hidden))
        inputs = hidden
    deep = layers.dense(net, deep, inputs, 1)
    net.output(net.op("Sigmoid", net.op("Sum", first, pairs, deep)), "click", (batch, 1))
    return net.model()


def trees(
    *,
    opset: int = 17,
    batch: int = 32,
    features: int = 20,
    count: int = 100,
    depth: int = 6,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a forest as scikit-learn's converter writes it: features scaled, then full trees."""
    net = Network("trees", opset=opset, seed=seed)
    value = net.input("features", (batch, features))
    offset = [float(number) for number in net.random.normal(size=features)]
    scale = [float(number) for number in net.random.uniform(0.5, 2, features)]
    value = net.op("Scaler", value, offset=offset, scale=scale, domain="ai.onnx.ml")
    inner, whole = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = np.tile(np.arange(whole), count)
    branch = nodes < inner
    leaves = ~branch
    tree = np.repeat(np.arange(count), whole)
    value = net.op(
        "TreeEnsembleRegressor",
        value,
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=nodes.tolist(),
        nodes_featureids=np.where(branch, net.random.integers(0, features, nodes.size), 0).tolist(),
        nodes_values=np.where(branch, net.random.normal(size=nodes.size), 0).tolist(),
        nodes_modes=np.where(branch, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_truenodeids=np.where(branch, 2 * nodes + 1, 0).tolist(),
        nodes_falsenodeids=np.where(branch, 2 * nodes + 2, 0).tolist(),
        target_treeids=tree[leaves].tolist(),
        target_nodeids=nodes[leaves].tolist(),
        target_ids=[0] * int(leaves.sum()),
        target_weights=net.random.normal(size=int(leaves.sum())).tolist(),
    )
    net.output(value, "target", (batch, 1))
    return net.model()
