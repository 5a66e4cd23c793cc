"""Models become graphs and come back; names that the outside sees survive every change."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tensolog.catalog.subgraphs import free_names
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import Node, TensorType
from tensolog.optimizer.graph.infer import infer_types, same_type, sharpen

from tests.optimizer.builders import FLOAT, model, run, value


def branchy(opset=17):
    """A model whose If reads the outer value `y` by name."""
    then = helper.make_graph(
        [helper.make_node("Neg", ["y"], ["t"])], "then", [], [value("t", None)]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["y"], ["e"])], "else", [], [value("e", None)]
    )
    return model(
        [
            ("Relu", ["x"], ["y"]),
            helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        ],
        [value("x", [2]), value("c", [], TensorProto.BOOL)],
        [value("z", [2])],
        opset=opset,
    )


def test_untouched_nodes_come_back_equal():
    built = model(
        [
            helper.make_node("Relu", ["x"], ["a"], name="first", doc_string="why"),
            helper.make_node("Add", ["a", "w"], ["y"], name="second"),
        ],
        [value("x", ["n", 3])],
        [value("y", ["n", 3])],
        {"w": np.ones(3, np.float32)},
    )
    assert to_model(load_graph(built)) == built


def test_constant_nodes_become_constants():
    built = model(
        [
            helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
            ("Add", ["x", "c"], ["y"]),
        ],
        [value("x", [2])],
        [value("y", [2])],
    )
    graph = load_graph(built)
    assert [node.op_type for node in graph.nodes.values()] == ["Add"]
    x = np.array([3, 4], np.float32)
    assert np.array_equal(run(to_model(graph), {"x": x})[0], run(built, {"x": x})[0])


def test_subgraphs_capture_by_name():
    graph = load_graph(branchy())
    captured = {graph.names[v] for node in graph.nodes.values() for v in node.captures}
    assert captured == {"y"}


def test_free_names_of_nested_graphs():
    inner = helper.make_graph(
        [helper.make_node("Add", ["p", "q"], ["r"])], "inner", [value("p", [1])], [value("r", [1])]
    )
    outer = helper.make_graph(
        [
            helper.make_node("Neg", ["u"], ["v"]),
            helper.make_node("If", ["v"], ["w"], then_branch=inner, else_branch=inner),
        ],
        "outer",
        [value("u", [1])],
        [value("w", [1])],
    )
    assert free_names(outer) == {"q"}


def test_transfer_keeps_what_subgraphs_read():
    built = branchy()
    graph = load_graph(built)
    (relu,) = [n for n, node in graph.nodes.items() if node.op_type == "Relu"]
    y = graph.nodes[relu].outputs[0]
    fresh = graph.new_value("fresh", TensorType("float32", (2,)))
    graph.add_node(Node("Abs", "", (graph.graph_inputs[0],), (fresh,), {}))
    graph.transfer(y, fresh, rename=True)
    graph.remove_node(relu)
    changed = to_model(graph)
    onnx.checker.check_model(changed)
    feeds = {"x": np.array([-1, 2], np.float32), "c": np.array(True)}
    assert run(changed, feeds)[0].tolist() == [-1, -2]


def test_new_names_avoid_names_inside_subgraphs():
    graph = load_graph(branchy())
    assert graph.names[graph.new_value("t")] != "t"


def test_overridable_initializer_is_no_constant():
    built = model(
        [("Add", ["x", "w"], ["y"])],
        [value("x", [2]), value("w", [2])],
        [value("y", [2])],
        {"w": np.ones(2, np.float32)},
    )
    assert not load_graph(built).constants
    assert to_model(load_graph(built)) == built


def test_old_ir_initializers_are_constants():
    built = model(
        [("Add", ["x", "w"], ["y"])],
        [value("x", [2]), value("w", [2])],
        [value("y", [2])],
        {"w": np.ones(2, np.float32)},
        opset=8,
        ir_version=3,
    )
    graph = load_graph(built)
    assert len(graph.constants) == 1
    assert to_model(graph) == built


def test_order_is_topological_whatever_the_insertion():
    graph = load_graph(model([("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))
    y, x = graph.graph_outputs[0], graph.graph_inputs[0]
    late = graph.new_value("late")
    (relu,) = graph.nodes
    graph.remove_node(relu)
    graph.add_node(Node("Neg", "", (late,), (y,), {}))
    graph.add_node(Node("Relu", "", (x,), (late,), {}))
    ops = [graph.nodes[number].op_type for number in graph.order()]
    assert ops == ["Relu", "Neg"]


def test_second_producer_is_refused():
    graph = load_graph(model([("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))
    with pytest.raises(ValueError, match="producer"):
        graph.add_node(Node("Neg", "", graph.graph_inputs, graph.graph_outputs, {}))


def test_types_under_bound_sizes():
    built = model(
        [("MatMul", ["x", "w"], ["h"]), ("Relu", ["h"], ["y"])],
        [value("x", ["n", 3])],
        [value("y", ["n", 4])],
        {"w": np.ones((3, 4), np.float32)},
    )
    graph = load_graph(built)
    h = graph.names.index("h")
    assert infer_types(graph)[h].shape == ("n", 4)
    assert infer_types(graph, {"n": 7})[h].shape == (7, 4)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (TensorType("float32", (2, "n")), TensorType("float32", (2, 3)), True),
        (TensorType("float32", (2, 3)), TensorType("float32", (2, 4)), False),
        (TensorType("float32", (2, 3)), TensorType("float32", (2, 3, 1)), False),
        (TensorType("float32", (2, 3)), TensorType("int64", (2, 3)), False),
        (TensorType("float32", None), TensorType("float32", (2, 3)), True),
        (None, TensorType("float32", (2, 3)), True),
    ],
)
def test_same_type(first, second, same):
    assert same_type(first, second) is same_type(second, first) is same


def test_sharpen_prefers_numbers_then_names():
    first = TensorType("float32", ("?a.0", "n", "m"))
    second = TensorType("float32", ("k", "?b.1", 3))
    assert sharpen(first, second) == sharpen(second, first) == TensorType("float32", ("k", "n", 3))


def test_float_constant_of_value_attribute_keeps_dtype():
    built = model(
        [
            helper.make_node("Constant", [], ["c"], value_int=3),
            helper.make_node("Cast", ["c"], ["y"], to=FLOAT),
        ],
        [],
        [value("y", [])],
    )
    graph = load_graph(built)
    (constant,) = graph.constants.values()
    assert constant.type == TensorType("int64", ())
