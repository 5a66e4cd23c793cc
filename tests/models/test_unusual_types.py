"""Models of what is seldom in them: each is optimized, and computes what it did."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensolog

pytestmark = pytest.mark.whole


def model(nodes, constants, *, shape=(2, 8), opset=21, sparse=()):
    """A model of nodes from `x` to `y`."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(constants),
    )
    graph.sparse_initializer.extend(sparse)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def normal(name, *shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def weights_of_four_bits():
    """Blocks with scales of their own; they don't fold, as no tensor of four bits can be fed."""
    bits = helper.make_tensor("bits", TensorProto.INT4, [8, 6], [n % 16 - 8 for n in range(48)])
    nodes = [
        helper.make_node("DequantizeLinear", ["bits", "scale"], ["w"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    return model(nodes, [bits, normal("scale", 2, 6)])


def quantized_to(element):
    """Values of a narrow type between operators."""
    zero = helper.make_tensor("zero", element, [], [0])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["narrow"]),
        helper.make_node("DequantizeLinear", ["narrow", "scale", "zero"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["m"]),
        helper.make_node("Identity", ["m"], ["y"]),
    ]
    scale = numpy_helper.from_array(np.float32(0.25), "scale")
    return model(nodes, [zero, scale, normal("w", 8, 4)])


def sparse_weight():
    values = numpy_helper.from_array(np.array([1, -2, 3], np.float32), "w")
    places = numpy_helper.from_array(np.array([1, 10, 20], np.int64), "places")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Identity", ["m"], ["same"]),
        helper.make_node("Relu", ["same"], ["y"]),
    ]
    return model(nodes, [], sparse=[helper.make_sparse_tensor(values, places, [8, 4])])


def sparse_weight_in_a_branch():
    """The sparse tensor belongs to a graph inside."""
    whole = sparse_weight()
    inside = whole.graph
    names = {"x": "x", "y": "inner"}
    for node in inside.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    inside.output[0].name = "inner"
    del inside.input[:]
    other = helper.make_graph(
        [helper.make_node("MatMul", ["x", "dense"], ["else_y"])],
        "else",
        [],
        [helper.make_tensor_value_info("else_y", TensorProto.FLOAT, None)],
        [normal("dense", 8, 4)],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=inside, else_branch=other),
    ]
    return model(nodes, [numpy_helper.from_array(np.float32(0), "zero")])


MODELS = {
    "int4": weights_of_four_bits,
    "float8_e4m3fn": lambda: quantized_to(TensorProto.FLOAT8E4M3FN),
    "float8_e5m2": lambda: quantized_to(TensorProto.FLOAT8E5M2),
    "uint4": lambda: quantized_to(TensorProto.UINT4),
    "sparse": sparse_weight,
    "sparse in a branch": sparse_weight_in_a_branch,
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """One for all, so that the machine is measured once."""
    return tmp_path_factory.mktemp("unusual") / "catalog.duckdb"


@pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))
def test_models_of_unusual_types_are_optimized(make, catalog):
    original = make().SerializeToString()
    result = tensolog.optimize(make(), catalog=catalog, budget=0.2, threads=1)
    x = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    for feed in (x, np.zeros_like(x), -x):
        expected, computed = (
            onnxruntime.InferenceSession(content).run(None, {"x": feed})[0]
            for content in (original, result.model.SerializeToString())
        )
        np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-6)
