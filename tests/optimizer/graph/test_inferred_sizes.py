"""Sizes that are computed of other sizes: known layer by layer, once constants are folded."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.shape_inference import InferenceError
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_node, infer_types
from tensolog.optimizer.match.rewrite import clean

from tests.optimizer.builders import INT64, model, run, value

node = helper.make_node
LIMIT = 1 << 16


def chunks(layers, size):
    """Halves by computed sizes, as exporters write `chunk`: each layer's depends on the last."""
    nodes = []
    for i in range(layers):
        nodes += [
            node("Shape", [f"x{i}"], [f"s{i}"]),
            node("Gather", [f"s{i}", "one"], [f"n{i}"], axis=0),
            node("Div", [f"n{i}", "two"], [f"h{i}"]),
            node("Slice", [f"x{i}", "zeros", f"h{i}", "one"], [f"a{i}"]),
            node("Slice", [f"x{i}", f"h{i}", f"n{i}", "one"], [f"b{i}"]),
            node("Add", [f"a{i}", f"b{i}"], [f"x{i + 1}"]),
        ]
    constants = {"one": np.array([1]), "two": np.array([2]), "zeros": np.array([0])}
    inputs, outputs = [value("x0", [2, size])], [value(f"x{layers}", ["a", "b"])]
    return model(nodes, inputs, outputs, constants)


def cleaned(built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    steps = clean(graph, LIMIT)
    return graph, steps


@pytest.mark.parametrize("layers", [1, 2, 6])
def test_each_size_tells_the_next(layers):
    built = chunks(layers, 2**layers * 3)
    graph, _ = cleaned(built)
    assert {node.op_type for node in graph.nodes.values()} == {"Slice", "Add"}
    (output,) = graph.graph_outputs
    assert graph.shape(output) == (2, 3)
    feeds = {"x0": np.random.default_rng(0).normal(size=(2, 2**layers * 3)).astype(np.float32)}
    np.testing.assert_array_equal(run(to_model(graph), feeds)[0], run(built, feeds)[0])


def test_pads_that_are_computed():
    nodes = [
        node("Concat", ["low", "high"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["p"]),
        node("Relu", ["p"], ["y"]),
    ]
    constants = {"low": np.array([0, 1]), "high": np.array([0, 2])}
    built = model(nodes, [value("x", [2, 4])], [value("y", ["a", "b"])], constants)
    graph, _ = cleaned(built)
    assert graph.shape(graph.graph_outputs[0]) == (2, 7)


def test_sizes_that_stay_free():
    """What depends on a free size is as open as before, and the model computes the same."""
    built = chunks(2, "width")
    graph, _ = cleaned(built)
    assert any(node.op_type == "Shape" for node in graph.nodes.values())
    feeds = {"x0": np.random.default_rng(0).normal(size=(2, 12)).astype(np.float32)}
    np.testing.assert_array_equal(run(to_model(graph), feeds)[0], run(built, feeds)[0])


def test_sizes_that_an_input_tells_stay_open():
    nodes = [node("Reshape", ["x", "shape"], ["y"]), node("Add", ["one", "one"], ["two"])]
    inputs = [value("x", [2, 6]), value("shape", [2], INT64)]
    outputs = [value("y", ["a", "b"]), value("two", [1], INT64)]
    graph, steps = cleaned(model(nodes, inputs, outputs, {"one": np.array([1])}))
    assert steps
    assert not all(isinstance(size, int) for size in graph.shape(graph.graph_outputs[0]) or ("",))


def test_operands_of_two_types_are_ill_typed():
    built = model(
        [node("Conv", ["x", "w"], ["y"])],
        [value("x", [1, 2, 5, 5]), value("w", [3, 2, 1, 1])],
        [value("y", [1, 3, 5, 5])],
    )
    graph = load_graph(built)
    graph.types = infer_types(graph)
    assert infer_node(graph, 0)
    double = value("x", [1, 2, 5, 5], TensorProto.DOUBLE)
    built.graph.input[0].CopyFrom(double)
    graph = load_graph(built)
    with pytest.raises(InferenceError, match="inconsistent type"):
        infer_node(graph, 0)
