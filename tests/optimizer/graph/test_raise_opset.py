"""Models of older operator sets as newer ones: they compute the same, or are left as they are."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer import explain_model
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.raise_opset import RAISED, REDUCTIONS, raised, raised_for
from tensolog.optimizer.setting import Setting
from tensolog.rules import load_rules

from tensolog import optimize

SHAPE = (2, 3, 4, 6)


def model(*nodes, opset=17, constants=(), functions=()):
    """A model from x, of float32, to y."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    y = onnx.ValueInfoProto(name="y")
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants]
    graph = helper.make_graph(list(nodes), "model", [x], [y], initializers)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=7, functions=functions)


def graph_of(proto):
    graph = load_graph(proto)
    graph.types = infer_types(graph)
    return graph


def outputs(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    array = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {"x": array})


def reduction(name, opset, **attributes):
    return model(
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node(name, ["a"], ["y"], **attributes),
        opset=opset,
    )


def split(count, opset=13, **attributes):
    parts = [f"p{place}" for place in range(count)]
    return model(
        helper.make_node("Split", ["x"], parts, **attributes),
        helper.make_node("Sum", parts, ["y"]),
        opset=opset,
    )


def statistics(*outputs):
    names = ("scale", "bias", "mean", "var")
    return model(
        helper.make_node("BatchNormalization", ["x", *names], list(outputs)),
        opset=13,
        constants=[(name, np.full(3, 0.5, np.float32)) for name in names],
    )


SAME = [
    *(reduction(name, 13, axes=[1, -1]) for name in sorted(REDUCTIONS)),
    *(reduction(name, 17, axes=[2], keepdims=0) for name in sorted(REDUCTIONS)),
    *(reduction(name, 16) for name in sorted(REDUCTIONS)),
    split(2, axis=2),
    split(3, axis=1),
    split(1, opset=17, axis=1),
    statistics("y"),
    model(
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("LeakyRelu", ["r"], ["l"], alpha=0.2),
        helper.make_node("Pad", ["l", "pads"], ["p"], mode="reflect"),
        helper.make_node("CumSum", ["p", "axis"], ["c"], reverse=1),
        helper.make_node("Pow", ["c", "two"], ["y"]),
        opset=13,
        constants=[
            ("shape", np.array([0, -1])),
            ("pads", np.array([0, 2, 0, 1])),
            ("axis", np.array(1)),
            ("two", np.float32(2)),
        ],
    ),
    model(
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", nearest_mode="floor"),
        opset=13,
        constants=[("scales", np.array([1, 1, 2, 0.5], np.float32))],
    ),
]


@pytest.mark.parametrize("proto", SAME, ids=lambda proto: proto.graph.node[-1].op_type)
def test_what_is_raised_computes_the_same(proto):
    newer = to_model(raised(graph_of(proto)))
    assert newer.opset_import[0].version == RAISED
    for old, new in zip(outputs(proto), outputs(newer), strict=True):
        np.testing.assert_array_equal(old, new)


BRANCH = helper.make_graph(
    [helper.make_node("ReduceMax", ["x"], ["b"], axes=[0])],
    "branch",
    [],
    [onnx.ValueInfoProto(name="b")],
)
LEFT = [
    model(
        helper.make_node("If", ["c"], ["y"], then_branch=BRANCH, else_branch=BRANCH),
        constants=[("c", np.array(True))],
    ),
    statistics("y", "m", "v", "sm", "sv"),
    model(helper.make_node("NoSuchOperator", ["x"], ["y"])),
    model(
        helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"]),
        opset=13,
        constants=[("rois", np.zeros((1, 4), np.float32)), ("batch", np.zeros(1, np.int64))],
    ),
    model(
        helper.make_node("f", ["x"], ["y"], domain="own"),
        functions=[
            helper.make_function(
                "own",
                "f",
                ["x"],
                ["y"],
                [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1])],
                [helper.make_opsetid("", 17)],
            )
        ],
    ),
]


@pytest.mark.parametrize("proto", LEFT, ids=lambda proto: proto.graph.node[0].op_type)
def test_what_may_mean_something_else_is_left(proto):
    assert raised(load_graph(proto)) is None


@pytest.mark.parametrize(
    ("proto", "target", "is_raised"),
    [
        (reduction("ReduceLogSumExp", 17, axes=[1]), "onnxruntime-cpu", True),
        (reduction("ReduceLogSumExp", 17, axes=[1]), "onnx", False),  # for hosts of its own set
        (reduction("ReduceLogSumExp", 12, axes=[1]), "onnxruntime-cpu", False),  # too much changed
        (split(2, axis=2), "onnxruntime-cpu", False),  # no rule gains by it
    ],
)
def test_models_are_raised_where_rules_need_it(proto, target, is_raised):
    graph = graph_of(proto)
    newer = raised_for(graph, Setting(target), load_rules())
    assert (newer is not graph) == is_raised
    assert list(newer.nodes) == list(graph.nodes)


@pytest.mark.parametrize("search", ["egraph", "gains"])
def test_plans_begin_in_the_operator_set_of_the_rules(search):
    """FuseReduceSumSquare, of set 18 on, matches; nothing else simplifies the model before."""
    proto = model(
        helper.make_node("Pow", ["x", "two"], ["p"]),
        helper.make_node("ReduceSum", ["p", "axes"], ["y"]),
        constants=[("two", np.float32(2)), ("axes", np.array([1]))],
    )
    result = optimize(proto, budget=0, threads=1, catalog=":memory:", search=search)
    assert result.chosen == "original"
    np.testing.assert_array_equal(outputs(proto), outputs(result.model))
    # It is told where it is so, and only there: the original is kept in its own set.
    assert result.details["opset_before"] == result.details["opset_after"]
    assert "became" not in result.explain()
    explanation = explain_model(proto)
    assert (explanation.opset_in_file, explanation.opset) == (proto.opset_import[0].version, RAISED)
    assert f"Operator set {explanation.opset_in_file} became {RAISED}" in explanation.text()
    assert "became" not in explain_model(proto, target="onnx").text()
