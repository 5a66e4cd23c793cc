"""Models that end the process that runs them: they are reported, and nobody here dies."""

import numpy as np
import pytest
from onnx import helper
from tensolog.catalog.errors import ModelError
from tensolog.optimizer import optimize
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.fold import fold_constants
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.race.isolated_run import is_risky, run_isolated

from tests.optimizer.builders import INT64, model, value

LEAST = np.iinfo(np.int64).min


def dividing(divisor, dividend=LEAST):
    """y = (dividend + x) / divisor: in integers, not foldable, for x is an input."""
    return model(
        [("Add", ["a", "x"], ["s"]), ("Div", ["s", "b"], ["y"])],
        [value("x", [1], INT64)],
        [value("y", [1], INT64)],
        {"a": np.array([dividend]), "b": np.array([divisor])},
    )


def einsum(size):
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation="ij,kj->ik")
    return model(
        [node], [value("x", [2, size])], [value("y", [2, 3])], {"w": np.zeros((3, size), "f4")}
    )


def graph_of(built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    return graph


def risky(built):
    graph = graph_of(built)
    return is_risky(graph, graph.types)


def test_only_models_that_may_die_are_tried_apart():
    assert risky(dividing(-1)) and risky(dividing(0))
    assert not risky(dividing(2))
    assert risky(einsum(0))
    assert not risky(einsum(4))


def test_a_size_that_is_not_known_may_be_zero():
    node = helper.make_node("Einsum", ["x", "z"], ["y"], equation="ij,kj->ik")
    assert risky(model([node], [value("x", [2, "n"]), value("z", [3, "n"])], [value("y", [2, 3])]))


def test_a_process_that_dies_is_an_error():
    feeds = {"x": np.zeros(1, np.int64)}
    with pytest.raises(ModelError, match="ends the process"):
        run_isolated(dividing(-1).SerializeToString(), [feeds], 1)
    run_isolated(dividing(-1, dividend=5).SerializeToString(), [feeds], 1)


def test_the_optimizer_outlives_such_a_model():
    with pytest.raises(ModelError, match="ends the process"):
        optimize(dividing(-1), catalog=":memory:", budget=0.2, threads=1)


@pytest.mark.parametrize(
    "constants",
    [
        {"a": np.array([4, 5]), "b": np.array([2, 0])},
        {"a": np.array([4, LEAST]), "b": np.array([-1])},
    ],
    ids=["by zero", "least by -1"],
)
@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_a_fatal_division_is_not_folded(op_type, constants):
    built = model(
        [(op_type, ["a", "b"], ["q"]), ("Add", ["q", "x"], ["y"])],
        [value("x", [2], INT64)],
        [value("y", [2], INT64)],
        constants,
    )
    graph = graph_of(built)
    assert fold_constants(graph) == 0
    assert sorted(node.op_type for node in graph.nodes.values()) == sorted(["Add", op_type])


def test_a_division_is_folded_once_its_operands_are():
    built = model(
        [("Add", ["a", "a"], ["s"]), ("Div", ["a", "s"], ["q"]), ("Add", ["q", "x"], ["y"])],
        [value("x", [2], INT64)],
        [value("y", [2], INT64)],
        {"a": np.array([4, 5])},
    )
    graph = graph_of(built)
    assert fold_constants(graph) == 2
    assert [node.op_type for node in graph.nodes.values()] == ["Add"]


def test_an_einsum_of_nothing_is_not_folded():
    node = helper.make_node("Einsum", ["e", "w"], ["s"], equation="ij,kj->ik")
    built = model(
        [node, ("Add", ["s", "x"], ["y"])],
        [value("x", [2, 3])],
        [value("y", [2, 3])],
        {"e": np.zeros((2, 0), "f4"), "w": np.zeros((3, 0), "f4")},
    )
    assert fold_constants(graph_of(built)) == 0
