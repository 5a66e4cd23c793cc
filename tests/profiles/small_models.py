"""Three small models, built without a runtime, and the kernels of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tensolog.profiles.kernel import VALUE_LIMIT, Kernel, dtype_name
from tensolog.profiles.kernels.graph_kernels import kernels_of

Array = np.ndarray[Any, Any]


def static_kernels(model: ModelProto) -> list[tuple[str, Kernel]]:
    """Return (node name, kernel) of a model whose value_info holds every shape, all static."""
    arrays: dict[str, Array] = {}
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
    for tensor in model.graph.initializer:
        shapes[tensor.name] = (dtype_name(tensor.data_type), tuple(tensor.dims))
        if np.prod(tensor.dims) <= VALUE_LIMIT:
            arrays[tensor.name] = numpy_helper.to_array(tensor)
    for info in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        shapes[info.name] = tensor_type(info)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    return kernels_of(model.graph, shapes, arrays.get, opsets)


def tensor_type(info: onnx.ValueInfoProto) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and static shape of a value."""
    tensor = info.type.tensor_type
    return dtype_name(tensor.elem_type), tuple(size.dim_value for size in tensor.shape.dim)


class _Builder:
    """Collects nodes and random weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = np.random.default_rng(0)

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def weight(self, *shape: int) -> str:
        fan = max(1, int(np.prod(shape[1:]))) if len(shape) > 2 else shape[0]
        return self.constant((self._random.standard_normal(shape) / fan**0.5).astype(np.float32))

    def constant(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def model(self, shape: tuple[int, ...], output: str) -> ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [onnx.ValueInfoProto(name=output)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        return inferred


def mlp() -> ModelProto:
    """Three dense layers, 64 x 784 -> 1024 -> 1024 -> 10."""
    net = _Builder()
    value = "x"
    for inputs, outputs in ((784, 1024), (1024, 1024), (1024, 10)):
        value = net.node("MatMul", value, net.weight(inputs, outputs))
        value = net.node("Add", value, net.weight(outputs))
        if outputs != 10:
            value = net.node("Relu", value)
    return net.model((64, 784), net.node("Softmax", value, axis=-1))


def convnet() -> ModelProto:
    """Six convolutions with normalization and Relu, a residual, pooling and a classifier."""
    net = _Builder()
    value, channels = "x", 3
    for outputs, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        skip = value
        value = net.node(
            "Conv", value, net.weight(outputs, channels, 3, 3), kernel_shape=[3, 3],
            pads=[1, 1, 1, 1], strides=[stride, stride],
        )  # fmt: skip
        ones = net.constant(np.ones(outputs, dtype=np.float32))
        value = net.node(
            "BatchNormalization", value, ones, net.weight(outputs), net.weight(outputs), ones
        )
        value = net.node("Relu", value)
        if stride == 1:
            value = net.node("Add", value, skip)
        channels = outputs
    value = net.node("Flatten", net.node("GlobalAveragePool", value))
    value = net.node("MatMul", value, net.weight(channels, 100))
    return net.model((1, 3, 128, 128), value)


def transformer(tokens: int = 128, width: int = 256, heads: int = 4) -> ModelProto:
    """One block: attention as exporters write it, layer normalization, a GELU of erf."""
    net = _Builder()

    def dense(value: str, inputs: int, outputs: int) -> str:
        product = net.node("MatMul", value, net.weight(inputs, outputs))
        return net.node("Add", product, net.weight(outputs))

    def split(value: str, order: list[int]) -> str:
        shaped = net.node("Reshape", value, net.ints(1, tokens, heads, width // heads))
        return net.node("Transpose", shaped, perm=order)

    def normalize(value: str) -> str:
        return net.node("LayerNormalization", value, net.weight(width), net.weight(width), axis=-1)

    def scalar(value: float) -> str:
        return net.constant(np.array(value, dtype=np.float32))

    queries = split(dense("x", width, width), [0, 2, 1, 3])
    keys = split(dense("x", width, width), [0, 2, 3, 1])
    values = split(dense("x", width, width), [0, 2, 1, 3])
    scores = net.node("Div", net.node("MatMul", queries, keys), scalar(8.0))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), values)
    mixed = net.node("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = net.node("Reshape", mixed, net.ints(1, tokens, width))
    value = normalize(net.node("Add", "x", dense(mixed, width, width)))
    hidden = dense(value, width, 4 * width)
    erf = net.node("Erf", net.node("Div", hidden, scalar(2**0.5)))
    gelu = net.node("Mul", net.node("Mul", hidden, net.node("Add", erf, scalar(1.0))), scalar(0.5))
    value = normalize(net.node("Add", value, dense(gelu, 4 * width, width)))
    return net.model((1, tokens, width), value)


MODELS: dict[str, Callable[[], ModelProto]] = {
    "mlp": mlp,
    "convnet": convnet,
    "transformer": transformer,
}
