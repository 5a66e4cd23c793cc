"""Drawn indices are valid, and range over all that they index."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.race.index_range import index_limit

from tests.optimizer.builders import model, value

node = helper.make_node
TABLE = np.zeros((50, 7), np.float32)


def limit(nodes, ids, outputs=("y",), **constants):
    shapes = [node("Shape", [name], [f"shape of {name}"]) for name in outputs]
    built = model(
        [*nodes, *shapes],
        [value("ids", ids, TensorProto.INT64)],
        [value(f"shape of {name}", ["rank"], TensorProto.INT64) for name in outputs],
        {"table": TABLE, **constants},
        opset=18,
    )
    graph = load_graph(built)
    graph.types = infer_types(graph)
    return index_limit(graph, graph.graph_inputs[0], {})


@pytest.mark.parametrize(
    ("reader", "ids", "expected"),
    [
        (node("Gather", ["table", "ids"], ["y"]), [4], 50),
        (node("Gather", ["table", "ids"], ["y"], axis=1), [4], 7),
        (node("GatherElements", ["table", "ids"], ["y"], axis=-1), [50, 3], 7),
        (node("GatherND", ["table", "ids"], ["y"]), [4, 1], 50),
        (node("GatherND", ["table", "ids"], ["y"]), [4, 2], 7),
        (node("GatherND", ["table", "ids"], ["y"], batch_dims=1), [50, 4, 1], 7),
        (node("ScatterND", ["table", "ids", "rows"], ["y"]), [4, 1], 50),
        (node("ScatterElements", ["table", "ids", "rows"], ["y"], axis=0), [4, 7], 50),
        (node("Cast", ["ids"], ["y"], to=TensorProto.FLOAT), [4], 2),
        (node("Add", ["table", "ids"], ["y"]), [7], 2),
    ],
    ids=lambda part: getattr(part, "op_type", None),
)
def test_indices_range_over_the_axes_that_they_index(reader, ids, expected):
    assert limit([reader], ids, rows=np.zeros((4, 7), np.float32)) == expected


def test_the_least_of_several_tables_is_the_limit_behind_moves_too():
    nodes = [
        ("Unsqueeze", ["ids", "last"], ["points"]),
        ("GatherND", ["table", "points"], ["rows"]),
        ("Gather", ["small", "ids"], ["y"]),
    ]
    small = np.zeros((9, 2), np.float32)
    assert limit(nodes, [4], ("y", "rows"), small=small, last=np.array([-1])) == 9


@pytest.mark.parametrize("reader", ["Gather", "GatherND"])
def test_indices_of_a_free_axis_range_over_the_size_that_it_is_given(reader):
    """The edges of a graph whose nodes are free: with one node all of them lead to it."""
    built = model(
        [node("Unsqueeze", ["ids", "one"], ["places"]), node(reader, ["nodes", "places"], ["y"])],
        [value("nodes", ["n", 3]), value("ids", ["e"], TensorProto.INT64)],
        [value("y", [None] * (3 if reader == "Gather" else 2))],
        {"one": np.array([1])},
        opset=18,
    )
    graph = load_graph(built)
    graph.types = infer_types(graph)
    ids = graph.graph_inputs[1]
    assert [index_limit(graph, ids, sizes) for sizes in ({"n": 1}, {"n": 9}, {})] == [1, 9, 2]
