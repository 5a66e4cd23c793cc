"""One spelling of e-nodes that mean the same, against the runtime that runs either of them."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tensolog.optimizer.egraph.build import build
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import original_selection, problem_of
from tensolog.optimizer.egraph.saturation.saturate import saturate
from tensolog.optimizer.graph.convert import to_model
from tensolog.rules import parse_rules

from tests.campaigns import examples
from tests.optimizer.builders import run, value

from .pricing import graph_of

SHAPE = (2, 3, 4)


def two(first, second, constants=None, opset=18, inputs=1, outputs=1, shape=SHAPE):
    """A model of two nodes over the same inputs."""
    names = [f"X{i}" for i in range(inputs)]
    nodes = []
    for side, (op, reads, attributes) in zip("ab", (first, second), strict=True):
        output_names = [f"{side}{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, [*names, *reads], output_names, **attributes))
    results = [onnx.ValueInfoProto(name=f"{side}{i}") for side in "ab" for i in range(outputs)]
    graph = helper.make_graph(
        nodes,
        "two",
        [value(name, shape) for name in names],
        results,
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    built = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(built, strict_mode=True, data_prop=True)


def are_one(built):
    """Whether the e-graph knows the results to be equal; the runtime must find them so, too."""
    graph = graph_of(built)
    egraph = EGraph(graph)
    half = len(graph.graph_outputs) // 2
    pairs = zip(graph.graph_outputs[:half], graph.graph_outputs[half:], strict=True)
    equal = all(egraph.find(a) == egraph.find(b) for a, b in pairs)
    generator = np.random.default_rng(0)
    feeds = {
        i.name: generator.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for i in built.graph.input
    }
    results = run(built, feeds)
    if equal:
        for a, b in zip(results[:half], results[half:], strict=True):
            np.testing.assert_array_equal(a, b)
    return equal


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(
        ["Softmax", "LogSoftmax", "Hardmax", "Flatten", "LayerNormalization", "Concat"]
    ),
    st.integers(-3, 2),
    st.integers(-3, 2),
)
def test_an_axis_is_one_from_either_end(op, a, b):
    inputs, constants, reads = (2 if op == "Concat" else 1), {}, []
    if op == "LayerNormalization":
        constants, reads = {"s": np.array(2, np.float32)}, ["s"]
    sides = [(op, reads, {"axis": axis}) for axis in (a, b)]
    assert are_one(two(*sides, constants, inputs=inputs)) == (a % 3 == b % 3)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["ReduceSum", "ReduceMax", "ReduceL2", "ReduceMean"]),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3, unique_by=lambda axis: axis % 3),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3, unique_by=lambda axis: axis % 3),
    st.sampled_from([12, 18]),
)
def test_axes_of_a_reduction_are_a_set(op, a, b, opset):
    expected = {axis % 3 for axis in a} == {axis % 3 for axis in b}
    if opset == 12:
        built = two((op, [], {"axes": a}), (op, [], {"axes": b}), opset=12)
    else:
        lists = {"p": np.array(a, np.int64), "q": np.array(b, np.int64)}
        built = two((op, ["p"], {}), (op, ["q"], {}), lists)
    assert are_one(built) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # The same part of other axes is another part.
        (([0, 1], [2, 3], [1, 2]), ([0, 1], [2, 3], [2, 1]), False),
        (([0, 1], [2, 3], [1, 2]), ([0, 1], [2, 3], [-2, -1]), True),
        (([0, 0], [2, 2], [1, 2]), ([0, 0], [2, 2], [2, 1]), True),
    ],
)
def test_the_order_of_axes_counts_where_bounds_belong_to_them(first, second, expected):
    constants = {
        f"{side}{place}": np.array(values, np.int64)
        for side, lists in (("p", first), ("q", second))
        for place, values in enumerate(lists)
    }
    sides = [("Slice", [f"{side}{place}" for place in range(3)], {}) for side in "pq"]
    assert are_one(two(*sides, constants)) == expected


def test_unsqueezed_axes_are_counted_in_the_result():
    constants = {name: np.array(axes, np.int64) for name, axes in (("p", [-1, 0]), ("q", [0, 4]))}
    assert are_one(two(("Unsqueeze", ["p"], {}), ("Unsqueeze", ["q"], {}), constants))
    constants["q"] = np.array([0, 3], np.int64)
    assert not are_one(two(("Unsqueeze", ["p"], {}), ("Unsqueeze", ["q"], {}), constants))


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("Softmax", {"axis": -1}, True),
        ("Softmax", {"axis": 2}, True),
        ("Softmax", {"axis": 1}, False),
        ("Transpose", {"perm": [2, 1, 0]}, True),
        ("Transpose", {"perm": [0, 1, 2]}, False),
        ("ReduceSum", {"keepdims": 1, "noop_with_empty_axes": 0}, True),
        ("ReduceSum", {"keepdims": 0}, False),
        ("Elu", {"alpha": 1.0}, True),
        ("Elu", {"alpha": 0.5}, False),
    ],
)
def test_an_attribute_at_its_default_is_none(op, attributes, expected):
    assert are_one(two((op, [], {}), (op, [], attributes))) == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}, True),
        ({"kernel_shape": [3, 3], "auto_pad": "NOTSET"}, True),
        ({"strides": [1, 2]}, False),
        ({"pads": [0, 0, 0, 1]}, False),
    ],
)
def test_a_window_at_its_defaults_is_none(attributes, expected):
    weight = {"W": np.ones((2, 3, 3, 3), np.float32)}
    sides = (("Conv", ["W"], {}), ("Conv", ["W"], attributes))
    assert are_one(two(*sides, weight, shape=(1, 3, 5, 6))) == expected


def test_a_plan_keeps_the_spelling_of_the_model():
    lists = {"p": np.array([-1, 0], np.int64)}
    built = two(("ReduceSum", ["p"], {"keepdims": 1}), ("Softmax", [], {"axis": -2}), lists)
    graph = graph_of(built)
    egraph = EGraph(graph)
    problem = problem_of(egraph, lambda node: 1.0)
    selection = original_selection(egraph, problem)
    plan = to_model(build(egraph, selection, problem.roots))
    assert [node.attribute[0] for node in plan.graph.node] == [
        node.attribute[0] for node in built.graph.node
    ]
    assert [list(node.input) for node in plan.graph.node] == [["X0", "p"], ["X0"]]


def test_a_window_of_another_size_is_spelled_with_its_own():
    """A plan has the model's spelling of what it has in it alone: of no larger window."""
    weights = {"W": np.ones((2, 3, 3, 3), np.float32), "V": np.ones((2, 3, 1, 3), np.float32)}
    written = {"kernel_shape": [3, 3], "strides": [1, 1]}
    built = two(("Conv", ["W"], written), ("Conv", ["V"], {}), weights, shape=(1, 3, 5, 6))
    graph = graph_of(built)
    egraph = EGraph(graph)
    problem = problem_of(egraph, lambda node: 1.0)
    for node in (choice.node for offered in problem.choices.values() for choice in offered):
        attributes, operands = egraph.written(node)
        values = egraph.vocabulary.attributes[attributes].values
        window = egraph.type(operands[1]).shape[2:]
        assert values.get("kernel_shape", window) == window


def test_operators_whose_axis_counts_from_the_end_by_default():
    """In whatever order they are asked for."""
    built = two(("Softmax", [], {"axis": 1}), ("LayerNormalization", ["s"], {}),
                {"s": np.array(1, np.float32)})  # fmt: skip
    egraph = EGraph(graph_of(built))
    for name in ("Relu", "TopK", "Gather", "LogSoftmax"):
        egraph.vocabulary.operator("", name)
    egraph.spelling.canonical((egraph.vocabulary.operator("", "Gather"), 0, ()))
    names = [egraph.vocabulary.operators[n].name for n in egraph.spelling.counting_from_the_end()]
    assert sorted(names) == ["LayerNormalization", "LogSoftmax", "Softmax", "TopK"]


RULES = """
# EliminateSumOf{name} is one that only a test would want.
rule EliminateSumOf{name}
  tags    explore
  source  [ieee754]
  given   X [a, b, c]
  match
    Y = ReduceSum<keepdims=1>(X, {axes})
  rewrite
    Y = ReduceSum<keepdims=1>(Neg(Neg(X)), {axes})
  equal   exact

# PushNegThroughSoftmax{name} is another one.
rule PushNegThroughSoftmax{name}
  tags    explore
  source  [ieee754]
  given   X [a, b, c]
  match
    Y = LogSoftmax<axis={axis}>(X)
  rewrite
    Y = LogSoftmax<axis={axis}>(Neg(Neg(X)))
  equal   exact
"""


@pytest.mark.parametrize("written", [-1, 2])
@pytest.mark.parametrize(("name", "axis"), [("End", -1), ("Front", 2), ("Other", 1)])
def test_rules_that_name_an_axis_match_in_any_spelling(written, name, axis):
    """From the front always; from the end what some node was written with, or has by default."""
    rules = parse_rules(RULES.format(name=name, axis=axis, axes=[axis]), "spelling.rules")
    lists = {"p": np.array([written], np.int64)}
    built = two(("ReduceSum", ["p"], {}), ("LogSoftmax", [], {"axis": written}), lists)
    growth = saturate(EGraph(graph_of(built)), rules)
    fired = {application.rule for application in growth.applications if not application.refusal}
    expected = set() if name == "Other" else {f"PushNegThroughSoftmax{name}"}
    if axis == written or name == "Front":
        expected.add(f"EliminateSumOf{name}")
    assert fired == expected
