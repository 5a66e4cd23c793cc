"""Folding, sharing and dead code: nothing changes but the number of nodes."""

import sys

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.fold import fold_constants
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.simplify import (
    remove_dead,
    remove_dead_constants,
    share_constants,
    share_subexpressions,
)
from tensolog.profiles.sessions.session import release_memory, resident_bytes

from tests.optimizer.builders import INT64, model, run, value


def graph_of(built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    return graph


def operators(graph):
    return sorted(node.op_type for node in graph.nodes.values())


def test_folds_what_depends_on_constants_alone():
    built = model(
        [("Mul", ["w", "w"], ["v"]), ("Add", ["v", "w"], ["u"]), ("Add", ["x", "u"], ["y"])],
        [value("x", [3])],
        [value("y", [3])],
        {"w": np.array([1, 2, 3], np.float32)},
    )
    graph = graph_of(built)
    assert fold_constants(graph) == 2
    assert operators(graph) == ["Add"]
    x = np.zeros(3, np.float32)
    assert np.array_equal(run(to_model(graph), {"x": x})[0], run(built, {"x": x})[0])


def test_folds_shapes_of_static_values():
    built = model(
        [("Shape", ["x"], ["s"]), ("Reshape", ["z", "s"], ["y"])],
        [value("x", [2, 3]), value("z", [6])],
        [value("y", [2, 3])],
    )
    graph = graph_of(built)
    fold_constants(graph)
    assert operators(graph) == ["Reshape"]


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (-2, -1), (1, 2), (2, 1)])
def test_shape_slices_fold_as_the_runtime_computes_them(start, end):
    attributes = {"start": start} | ({} if end is None else {"end": end})
    built = model(
        [helper.make_node("Shape", ["x"], ["y"], **attributes)],
        [value("x", [2, 3, 4])],
        [value("y", ["k"], INT64)],
    )
    graph = graph_of(built)
    fold_constants(graph)
    assert not graph.nodes
    feeds = {"x": np.zeros((2, 3, 4), np.float32)}
    assert np.array_equal(run(to_model(graph), feeds)[0], run(built, feeds)[0])


def test_shape_of_a_free_dimension_stays():
    built = model([("Shape", ["x"], ["y"])], [value("x", ["n", 3])], [value("y", [2], INT64)])
    graph = graph_of(built)
    assert fold_constants(graph) == 0


def test_a_result_larger_than_its_inputs_and_the_limit_stays():
    nodes = [("Expand", ["w", "s"], ["big"]), ("Add", ["x", "big"], ["y"])]
    built = model(
        nodes,
        [value("x", [100, 100])],
        [value("y", [100, 100])],
        {"w": np.ones((1, 100), np.float32), "s": np.array([100, 100])},
    )
    refused, folded = graph_of(built), graph_of(built)
    assert fold_constants(refused, limit_bytes=39_999) == 0
    assert fold_constants(folded, limit_bytes=40_000) == 1


def test_a_result_of_unknown_size_is_measured_after_the_fact():
    # NonZero's output size shows only when it is computed.
    built = model(
        [("NonZero", ["w"], ["i"]), ("Add", ["x", "i"], ["y"])],
        [value("x", [1], INT64)],
        [value("y", [1, "k"], INT64)],
        {"w": np.ones(1000, np.bool_)},
    )
    refused, folded = graph_of(built), graph_of(built)
    assert fold_constants(refused, limit_bytes=7_999) == 0
    assert fold_constants(folded, limit_bytes=8_000) == 1
    assert np.array_equal(
        run(to_model(folded), {"x": np.array([5])})[0], run(built, {"x": np.array([5])})[0]
    )


def test_what_is_dequantized_stays_integers():
    """Of a bias that isn't dequantized any more the runtime makes no product of integers."""
    built = model(
        [("DequantizeLinear", ["b", "s"], ["w"]), ("Add", ["x", "w"], ["y"])],
        [value("x", [3])],
        [value("y", [3])],
        {"b": np.array([1, 2, 3], np.int32), "s": np.float32(0.5)},
    )
    assert fold_constants(graph_of(built)) == 0


def test_random_numbers_are_not_folded():
    built = model(
        [
            helper.make_node("RandomNormal", [], ["r"], shape=[3]),
            ("Add", ["x", "r"], ["y"]),
        ],
        [value("x", [3])],
        [value("y", [3])],
    )
    assert fold_constants(graph_of(built)) == 0


def test_what_the_runtime_cannot_compute_stays_and_keeps_nothing_else():
    # No kernel takes this Cast to a sequence of strings and back to bfloat16; the Add folds.
    built = model(
        [
            helper.make_node("Cast", ["w"], ["b"], to=TensorProto.BFLOAT16),
            helper.make_node("Erf", ["b"], ["e"]),
            helper.make_node("Cast", ["e"], ["c"], to=TensorProto.FLOAT),
            ("Add", ["w", "w"], ["d"]),
            ("Add", ["c", "d"], ["y"]),
        ],
        [],
        [value("y", [2])],
        {"w": np.ones(2, np.float32)},
    )
    graph = graph_of(built)
    fold_constants(graph)
    assert "Erf" in operators(graph)
    assert operators(graph).count("Add") == 1


def test_a_folded_output_keeps_its_name():
    built = model([("Neg", ["w"], ["y"])], [], [value("y", [2])], {"w": np.ones(2, np.float32)})
    graph = graph_of(built)
    fold_constants(graph)
    assert run(to_model(graph), {})[0].tolist() == [-1, -1]


def test_shares_equal_subexpressions():
    built = model(
        [
            ("Neg", ["x"], ["a"]),
            ("Neg", ["x"], ["b"]),
            ("Abs", ["a"], ["c"]),
            ("Abs", ["b"], ["d"]),
            ("Add", ["c", "d"], ["y"]),
        ],
        [value("x", [2])],
        [value("y", [2])],
    )
    graph = graph_of(built)
    assert len(share_subexpressions(graph)) == 2
    assert operators(graph) == ["Abs", "Add", "Neg"]


def test_outputs_are_not_shared_away():
    built = model(
        [("Neg", ["x"], ["a"]), ("Neg", ["x"], ["b"])],
        [value("x", [2])],
        [value("a", [2]), value("b", [2])],
    )
    graph = graph_of(built)
    share_subexpressions(graph)
    assert [o.name for o in to_model(graph).graph.output] == ["a", "b"]
    assert len(run(to_model(graph), {"x": np.ones(2, np.float32)})) == 2


@pytest.mark.parametrize("other", [("Abs", ["x"]), ("Neg", ["z"])])
def test_different_nodes_are_not_shared(other):
    built = model(
        [("Neg", ["x"], ["a"]), (other[0], other[1], ["b"]), ("Add", ["a", "b"], ["y"])],
        [value("x", [2]), value("z", [2])],
        [value("y", [2])],
    )
    assert share_subexpressions(graph_of(built)) == []


def test_different_attributes_are_not_shared():
    built = model(
        [
            helper.make_node("LeakyRelu", ["x"], ["a"], alpha=0.1),
            helper.make_node("LeakyRelu", ["x"], ["b"], alpha=0.2),
            ("Add", ["a", "b"], ["y"]),
        ],
        [value("x", [2])],
        [value("y", [2])],
    )
    assert share_subexpressions(graph_of(built)) == []


def test_random_nodes_are_not_shared():
    built = model(
        [
            helper.make_node("RandomNormalLike", ["x"], ["a"]),
            helper.make_node("RandomNormalLike", ["x"], ["b"]),
            ("Sub", ["a", "b"], ["y"]),
        ],
        [value("x", [2])],
        [value("y", [2])],
    )
    assert share_subexpressions(graph_of(built)) == []


def test_zeros_of_either_sign_are_different_constants():
    built = model(
        [("Div", ["x", "p"], ["a"]), ("Div", ["x", "n"], ["b"]), ("Sub", ["a", "b"], ["y"])],
        [value("x", [1])],
        [value("y", [1])],
        {"p": np.zeros(1, np.float32), "n": -np.zeros(1, np.float32)},
    )
    assert share_constants(graph_of(built)) == 0


def test_drops_what_feeds_no_output():
    built = model(
        [("Neg", ["x"], ["dead"]), ("Add", ["x", "w"], ["deader"]), ("Abs", ["x"], ["y"])],
        [value("x", [2])],
        [value("y", [2])],
        {"w": np.ones(2, np.float32)},
    )
    graph = graph_of(built)
    assert remove_dead(graph) == 2
    assert remove_dead_constants(graph) == 1
    assert operators(graph) == ["Abs"]
    assert not to_model(graph).graph.initializer


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says what memory is in use")
def test_a_small_result_does_not_hold_the_memory_it_was_computed_in():
    size = 32 << 20
    built = model(
        [
            ("Expand", ["one", "shape"], ["many"]),
            ("Add", ["many", "many"], ["twice"]),
            ("ReduceMax", ["twice"], ["two"]),
            ("Mul", ["x", "two"], ["y"]),
        ],
        [value("x", [3])],
        [value("y", [3])],
        {"one": np.ones(1, np.float32), "shape": np.array([size // 4])},
    )
    graph = graph_of(built)
    release_memory()
    before = resident_bytes()
    assert fold_constants(graph, limit_bytes=size) == 3
    remove_dead_constants(graph)
    release_memory()
    assert operators(graph) == ["Mul"]
    assert resident_bytes() - before < size // 2


def test_places_of_what_is_not_zero_are_known_of_constants():
    # of anything else not even their number is: no specification says what the operator gives
    built = model(
        [("NonZero", ["w"], ["p"]), ("NonZero", ["z"], ["y"])],
        [value("z", [2, 3])],
        [value("p", [2, 3], INT64), value("y", [2, None], INT64)],
        {"w": np.array([[0, 1, 2], [-1, 0, 0]], np.float32)},
    )
    graph = graph_of(built)
    assert fold_constants(graph) == 1
    assert operators(graph) == ["NonZero"]
    (places,) = (
        constant.array() for constant in graph.constants.values() if constant.type.dtype == "int64"
    )
    assert places.tolist() == [[0, 0, 1], [1, 2, 0]]
