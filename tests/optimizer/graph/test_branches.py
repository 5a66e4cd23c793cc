"""Branches and loops taken out of their nodes give what ONNX Runtime gives of the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.branches import hoist_invariants, inline_branches, unroll_loops
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import Graph
from tensolog.optimizer.graph.infer import refine_types as infer
from tensolog.optimizer.match.rewrite import clean

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, tensor = helper.make_node, helper.make_tensor_value_info


def constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def model(nodes: list[Any], outputs: list[Any], known: list[Any], opset: int = 17) -> Any:
    graph = helper.make_graph(nodes, "outer", [tensor("x", FLOAT, [2, 3])], outputs, known)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return proto


def run(proto: onnx.ModelProto) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    return list(session.run(None, {"x": x}))


def agrees(proto: onnx.ModelProto, graph: Graph) -> None:
    changed = to_model(graph)
    onnx.checker.check_model(proto)
    onnx.checker.check_model(changed)
    for first, other in zip(run(proto), run(changed), strict=True):
        assert first.shape == other.shape
        np.testing.assert_array_equal(first, other)


def branch(name: str, inner: list[Any], output: str, known: list[Any] | None = None) -> Any:
    entry = helper.make_empty_tensor_value_info(output)
    return helper.make_graph(inner, name, [], [entry], known or [])


def choice(condition: Any, opset: int = 17) -> Any:
    taken = branch("then", [node("Add", ["x", "one"], ["sum"])], "sum", [constant("one", 1)])
    other = branch("else", [node("Neg", ["h"], ["minus"])], "minus")
    nodes = [node("Relu", ["x"], ["h"])]
    nodes.append(node("If", ["c"], ["y"], then_branch=taken, else_branch=other))
    return model(nodes, [tensor("y", FLOAT, [2, 3])], [constant("c", condition, bool)], opset)


@pytest.mark.parametrize("condition", [True, False, [True], [False]])
@pytest.mark.parametrize("opset", [11, 17])
def test_the_branch_of_a_known_condition_is_inlined(condition: Any, opset: int) -> None:
    proto = choice(condition, opset)
    graph = load_graph(proto)
    assert inline_branches(graph) == 1
    assert not any(node.op_type == "If" for node in graph.nodes.values())
    agrees(proto, graph)


def test_a_branch_of_which_nothing_is_known_stays() -> None:
    proto = choice(True)
    proto.graph.initializer.remove(proto.graph.initializer[0])
    proto.graph.input.append(tensor("c", BOOL, []))
    graph = load_graph(proto)
    assert inline_branches(graph) == 0


def test_branches_within_branches_are_inlined_from_outside_in() -> None:
    inner = branch("inner", [node("Neg", ["x"], ["n"])], "n")
    other = branch("other", [node("Abs", ["x"], ["a"])], "a")
    nested = node("If", ["c"], ["z"], then_branch=inner, else_branch=other)
    outer = node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch("then", [nested], "z"),
        else_branch=branch("else", [node("Exp", ["x"], ["e"])], "e"),
    )
    proto = model([outer], [tensor("y", FLOAT, [2, 3])], [constant("c", True, bool)])
    graph = load_graph(proto)
    steps = clean(graph, 1 << 16)
    assert [step.rule for step in steps].count("inline branches") == 2
    assert "not proved" in steps[0].reason
    agrees(proto, graph)


def test_what_is_nested_and_reads_a_value_of_the_branch_stays() -> None:
    inner = branch("inner", [node("Neg", ["h2"], ["n"])], "n")
    nested = node("If", ["c2"], ["z"], then_branch=inner, else_branch=inner)
    taken = branch("then", [node("Exp", ["x"], ["h2"]), nested], "z")
    outer = node("If", ["c"], ["y"], then_branch=taken, else_branch=taken)
    proto = model([outer], [tensor("y", FLOAT, [2, 3])], [constant("c", True, bool)])
    proto.graph.input.append(tensor("c2", BOOL, []))
    assert inline_branches(load_graph(proto)) == 0


def loop(trips: int, *, ends: bool = False, opset: int = 17, said: str = "cond_in") -> Any:
    """A running sum with a factor that is the same in each trip, and a row for each."""
    inner = [
        node("Mul", ["x", "two"], ["same"]),
        node("Cast", ["i"], ["fi"], to=FLOAT),
        node("Mul", ["same", "fi"], ["step"]),
        node("Add", ["s_in", "step"], ["s_out"]),
        node("ReduceMax", ["s_out"], ["row"], keepdims=0),
    ]
    known = [constant("two", 2)]
    if ends:
        inner.append(node("Less", ["i", "three"], ["cond_out"]))
        known.append(constant("three", 3, np.int64))
    elif said == "constant":
        inner.append(node("Constant", [], ["cond_out"], value=constant("v", True, bool)))
    else:
        inner.append(node("Identity", [said], ["cond_out"]))
    body = helper.make_graph(
        inner,
        "body",
        [tensor("i", INT, []), tensor("cond_in", BOOL, []), tensor("s_in", FLOAT, [2, 3])],
        [
            tensor("cond_out", BOOL, []),
            tensor("s_out", FLOAT, [2, 3]),
            tensor("row", FLOAT, []),
        ],
        known,
    )
    nodes = [node("Loop", ["m", "go", "x"], ["s", "rows"], body=body)]
    outputs = [tensor("s", FLOAT, [2, 3]), tensor("rows", FLOAT, ["r"])]
    start = [constant("m", trips, np.int64), constant("go", True, bool)]
    return model(nodes, outputs, start, opset)


@pytest.mark.parametrize("trips", [1, 2, 7])
@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("said", ["cond_in", "constant"])
def test_a_short_loop_is_written_out(trips: int, opset: int, said: str) -> None:
    proto = loop(trips, opset=opset, said=said)
    graph = load_graph(proto)
    assert unroll_loops(graph) == 1
    assert not any(node.op_type == "Loop" for node in graph.nodes.values())
    agrees(proto, graph)


@pytest.mark.parametrize("proto", [loop(0), loop(5, ends=True), loop(33), loop(27)])
def test_a_loop_that_may_end_early_or_is_long_stays(proto: Any) -> None:
    graph = load_graph(proto)
    assert unroll_loops(graph) == 0
    agrees(proto, graph)


def test_what_is_the_same_in_each_trip_is_computed_before() -> None:
    proto = loop(50)
    graph = load_graph(proto)
    assert hoist_invariants(graph) == 1
    assert sorted(node.op_type for node in graph.nodes.values()) == ["Loop", "Mul"]
    assert hoist_invariants(graph) == 0
    agrees(proto, graph)


@pytest.mark.parametrize("proto", [loop(0), loop(50, ends=True)])
def test_nothing_is_moved_out_of_a_loop_that_may_not_run(proto: Any) -> None:
    graph = load_graph(proto)
    assert hoist_invariants(graph) == 0


def scan(axes: list[int], directions: list[int], out: tuple[int, int], opset: int = 17) -> Any:
    """A running sum over elements of x and of its square, with a factor that doesn't change."""
    long = axes[0] % 2  # the axis of x, which has sizes 2 and 3
    rest = 3 - long
    inner = [
        node("Mul", ["two", "two"], ["four"]),
        node("Mul", ["e_in", "four"], ["scaled"]),
        node("Add", ["s_in", "scaled"], ["sum"]),
        node("Sub", ["sum", "q_in"], ["s_out"]),
        node("Neg", ["s_out"], ["row"]),
    ]
    body = helper.make_graph(
        inner,
        "body",
        [tensor(name, FLOAT, [rest]) for name in ("s_in", "e_in", "q_in")],
        [tensor("s_out", FLOAT, [rest]), tensor("row", FLOAT, [rest])],
        [constant("two", 2)],
    )
    settings: dict[str, Any] = {"body": body, "num_scan_inputs": 2, "scan_input_axes": axes}
    settings |= {"scan_input_directions": directions}
    settings |= {"scan_output_axes": [out[0]], "scan_output_directions": [out[1]]}
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("Scan", ["start", "x", "square"], ["s", "rows"], **settings),
    ]
    outputs = [tensor("s", FLOAT, [rest]), tensor("rows", FLOAT, [None, None])]
    return model(nodes, outputs, [constant("start", np.arange(rest))], opset)


@pytest.mark.parametrize("axes", [[0, 0], [1, 1], [-1, 1], [-2, 0]])
@pytest.mark.parametrize("directions", [[0, 0], [1, 0], [0, 1]])
@pytest.mark.parametrize("out", [(0, 0), (1, 1), (-1, 0), (-2, 1)])
def test_a_short_scan_is_written_out(
    axes: list[int], directions: list[int], out: tuple[int, int]
) -> None:
    proto = scan(axes, directions, out)
    graph = load_graph(proto)
    clean(graph, 1 << 16)
    assert not any(node.op_type == "Scan" for node in graph.nodes.values())
    agrees(proto, graph)


@pytest.mark.parametrize("opset", [9, 11])
def test_scans_of_older_operator_sets_are_written_out(opset: int) -> None:
    proto = scan([0, 0], [0, 1], (1, 1), opset)
    graph = load_graph(proto)
    infer(graph)
    assert unroll_loops(graph) == 1
    agrees(proto, graph)


def test_a_scan_of_unknown_length_stays() -> None:
    proto = scan([0, 0], [0, 0], (0, 0))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    graph = load_graph(proto)
    infer(graph)
    assert unroll_loops(graph) == hoist_invariants(graph) == 0
    agrees(proto, graph)


def test_what_is_the_same_in_each_step_of_a_scan_is_computed_before() -> None:
    proto = scan([0, 0], [0, 1], (0, 0))
    graph = load_graph(proto)
    infer(graph)
    assert hoist_invariants(graph) == 1
    assert sorted(node.op_type for node in graph.nodes.values()) == ["Mul", "Mul", "Scan"]
    agrees(proto, graph)
