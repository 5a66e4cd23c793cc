"""Models in float16 computed in float32: as the runtime does, and only where nobody sees it."""

from contextlib import closing

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer import explain_model
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.widen import widen
from tensolog.optimizer.race.verify import Verifier
from tensolog.optimizer.rewrites.compute_in_float32 import NAME, basis_of, in_float32
from tensolog.optimizer.setting import Setting

node = helper.make_node
rng = np.random.default_rng(0)
HALF = TensorProto.FLOAT16


def model(nodes, inputs, outputs, constants=(), imports=(), functions=()):
    """A model in float16: inputs and outputs are {name: shape}, constants {name: array}."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, HALF, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, HALF, s) for n, s in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()],
    )
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(n, 1) for n in imports)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def half(*shape):
    return (rng.standard_normal(shape) / max(1, shape[0]) ** 0.5).astype(np.float16)


def graph_of(proto):
    graph = load_graph(proto)
    graph.types = infer_types(graph)
    return graph


def perceptron():
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Gelu", ["a"], ["g"]),
        node("Softmax", ["g"], ["s"], axis=-1),
        node("Add", ["s", "a"], ["y"]),
    ]
    constants = {"w": half(24, 40), "b": half(40)}
    return model(nodes, {"x": ["n", 24]}, {"y": ["n", 40], "g": ["n", 40]}, constants)


def convolution():
    """With values of other types beside, and a result that is an operand, too."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["y"]),
        node("GlobalAveragePool", ["y"], ["pooled"]),
        node("Greater", ["pooled", "zero"], ["is"]),
        node("Cast", ["is"], ["one"], to=HALF),
        node("Shape", ["one"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["twos"], value=numpy_helper.from_array(half(1))),
        node("Mul", ["one", "twos"], ["z"]),
    ]
    constants = {"w": half(8, 3, 3, 3), "zero": np.float16(0.3)}
    return model(nodes, {"x": [2, 3, 9, 9]}, {"y": [2, 8, 9, 9], "z": [2, 8, 1, 1]}, constants)


def mixed():
    """Of which a part is in float32 already, between the model's own casts."""
    nodes = [
        node("Mul", ["x", "scale"], ["a"]),
        node("Cast", ["a"], ["wide"], to=TensorProto.FLOAT),
        node("ReduceMean", ["wide", "last"], ["mean"]),
        node("Sub", ["wide", "mean"], ["centred"]),
        node("Cast", ["centred"], ["narrow"], to=HALF),
        node("Mul", ["narrow", "x"], ["y"]),
    ]
    constants = {"scale": np.float16(3), "last": np.array([-1], np.int64)}
    return model(nodes, {"x": ["n", 30]}, {"y": ["n", 30]}, constants)


@pytest.mark.parametrize("proto", [perceptron(), convolution(), mixed()])
def test_it_computes_what_the_runtime_does(proto):
    changed = in_float32(graph_of(proto))
    assert {type_.dtype for value, type_ in changed.types.items() if value in changed.producer} - {
        "float32"
    } <= {"float16", "bool", "int64"}
    inner = [n for n in changed.nodes.values() if n.op_type != "Cast"]
    assert all(changed.dtype(value) != "float16" for n in inner for value in n.reads)
    shapes = {
        entry.name: [d.dim_value or 5 for d in entry.type.tensor_type.shape.dim]
        for entry in proto.graph.input
    }
    feeds = {"normal": {name: half(*shape) * 3 for name, shape in shapes.items()}}

    def double(tensor):
        return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(float), tensor.name)

    wide = widen(proto, double).SerializeToString()
    verifier = Verifier(proto.SerializeToString(), feeds, threads=1, wide=lambda: (wide, ""))
    with closing(verifier):
        deviations = verifier.deviations("wide", to_model(changed).SerializeToString())
        assert deviations
        assert all(deviation.within for deviation in deviations), deviations
    names = [
        [entry.name for entry in entries] for entries in (proto.graph.input, proto.graph.output)
    ]
    kept = to_model(changed).graph
    assert [[e.name for e in entries] for entries in (kept.input, kept.output)] == names


def chosen():
    """A choice between two subgraphs, which read a value by its name."""
    branches = [
        helper.make_graph(
            [node(op, ["a"], [f"{op}/y"])],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}/y", HALF, [4])],
        )
        for op in ("Relu", "Neg")
    ]
    nodes = [
        node("Add", ["x", "x"], ["a"]),
        node("ReduceSum", ["a"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["is"], to=TensorProto.BOOL),
        node("If", ["is"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    return model(nodes, {"x": [4]}, {"y": [4]})


def called():
    body = [node("Add", ["p", "p"], ["q"])]
    opsets = [helper.make_opsetid("", 20)]
    function = helper.make_function("own", "Twice", ["p"], ["q"], body, opsets)
    nodes = [node("Twice", ["x"], ["t"], domain="own"), node("Add", ["t", "x"], ["y"])]
    return model(nodes, {"x": [4]}, {"y": [4]}, imports=["own"], functions=[function])


@pytest.mark.parametrize(
    "proto",
    [
        chosen(),
        called(),
        model(
            [node("Odd", ["x"], ["t"], domain="own"), node("Add", ["t", "x"], ["y"])],
            {"x": [4]},
            {"y": [4]},
            imports=["own"],
        ),
        model(
            [node("Cast", ["x"], ["w"], to=TensorProto.FLOAT), node("Cast", ["w"], ["y"], to=HALF)],
            {"x": [4]},
            {"y": [4]},
        ),
    ],
    ids=["subgraphs", "functions", "another domain", "nothing but casts"],
)
def test_where_somebody_might_see_it_a_model_stays_as_it_is(proto):
    assert in_float32(graph_of(proto)) is None


def test_it_rounds_so_it_is_for_plans_that_may_and_for_the_runtime_alone():
    graph = graph_of(perceptron())
    assert [step.rule for step in basis_of(graph, Setting("onnxruntime-cpu"), ())[1]] == [NAME]
    for setting in (Setting("onnx"), Setting("onnxruntime-cpu", allow="exact")):
        assert basis_of(graph, setting, ()) == (graph, [])


def test_it_is_told():
    explanation = explain_model(perceptron(), target="onnxruntime-cpu")
    assert NAME in str(explanation)
