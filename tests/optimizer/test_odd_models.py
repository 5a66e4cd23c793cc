"""Odd but valid models: what they hold survives, and none of them ends in a traceback."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.catalog import Catalog
from tensolog.catalog.errors import ModelError
from tensolog.catalog.onnx.reader import read_model
from tensolog.catalog.onnx.writer import build_model
from tensolog.optimizer import explain_model
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.fold import fold_constants
from tensolog.optimizer.graph.graph import Node
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.relations import graph_facts

import tensolog

from .builders import FLOAT, INT64, model, run, value


def optimize(built):
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(built, catalog=catalog, budget=0.2, threads=1)
        return result, result.model


def assert_passes(built):
    """It survives catalog and graph; that ONNX Runtime lacks its operator is said in a line."""
    with Catalog(":memory:") as catalog:
        assert build_model(catalog, read_model(catalog, built)) == built
    assert to_model(load_graph(built)).graph.node[0] == built.graph.node[0]
    with pytest.raises(ModelError, match=r"can't run the model here.*cu:Foo"):
        optimize(built)


def folded(built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    fold_constants(graph)
    return graph


def custom(node, opset=17):
    return helper.make_model(
        helper.make_graph(
            [node, helper.make_node("Relu", ["x"], ["y"])],
            "custom",
            [value("x", [2])],
            [value("y", [2])],
        ),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("cu", 1)],
        ir_version=8,
    )


def test_float8_is_not_folded_into_its_bytes():
    built = model(
        [
            helper.make_node("Cast", ["c"], ["q"], to=TensorProto.FLOAT8E4M3FN),
            helper.make_node("Cast", ["q"], ["y"], to=FLOAT),
        ],
        [],
        [value("q", [2], TensorProto.FLOAT8E4M3FN), value("y", [2])],
        {"c": np.array([1.5, 2.0], np.float32)},
        opset=19,
        ir_version=9,
    )
    graph = folded(built)
    assert "float8" not in {c.type.dtype for c in graph.constants.values()}
    changed = to_model(graph)
    onnx.checker.check_model(changed, full_check=True)
    assert run(changed, {})[1].tolist() == [1.5, 2.0]


def test_sequences_of_constants_are_not_folded():
    built = model(
        [
            ("SequenceConstruct", ["c", "c"], ["q"]),
            ("SequenceAt", ["q", "i"], ["e"]),
            ("Add", ["x", "e"], ["y"]),
        ],
        [value("x", [2])],
        [value("y", [2])],
        {"c": np.ones(2, np.float32), "i": np.array(0)},
    )
    assert run(to_model(folded(built)), {"x": np.ones(2, np.float32)})[0].tolist() == [2, 2]


def test_large_attribute_tensors_of_custom_operators_pass():
    weight = numpy_helper.from_array(np.ones(40_000, np.float32))
    built = custom(helper.make_node("Foo", ["x"], ["h"], domain="cu", w=weight))
    assert_passes(built)
    explain_model(built)


def test_bytes_that_are_no_text_pass():
    built = custom(helper.make_node("Foo", ["x"], ["h"], domain="cu", blob=b"\xff\xfe\x00a"))
    assert_passes(built)
    graph_facts(load_graph(built))


def test_nodes_without_outputs_pass():
    built = custom(helper.make_node("Foo", ["x"], [], domain="cu"))
    assert_passes(built)


def test_two_outputs_may_become_one_value():
    built = model(
        [
            ("Relu", ["x"], ["r"]),
            helper.make_node("Concat", ["r", "r"], ["c"], axis=0),
            ("Split", ["c", "s"], ["b1", "b2"]),
        ],
        [value("x", [4])],
        [value("b1", [4]), value("b2", [4])],
        {"s": np.array([4, 4])},
    )
    result, _ = optimize(built)
    assert not [c.verdict for c in result.candidates if "does not run" in c.verdict]


@pytest.mark.parametrize("dims", [[-1, 4], ["n", 4]])
def test_negative_dimensions_are_free(dims):
    built = model([("Shape", ["x"], ["y"])], [value("x", dims)], [value("y", [2], INT64)])
    assert folded(built).nodes


def test_a_cycle_is_told_and_not_walked_for_ever():
    graph = load_graph(model([("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))
    a, b = graph.new_value("a"), graph.new_value("b")
    graph.add_node(Node("Neg", "", (b,), (a,), {}))
    graph.add_node(Node("Neg", "", (a,), (b,), {}))
    with pytest.raises(ValueError, match="cycle"):
        graph.order()


def test_a_given_size_is_varied_all_the_same():
    built = model(
        [("Abs", ["x"], ["a"]), ("Pow", ["a", "half"], ["p"]), ("Neg", ["p"], ["y"])],
        [value("x", ["n", 3])],
        [value("y", ["n", 3])],
        {"half": np.array(0.5, np.float32)},
    )
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(
            built, catalog=catalog, budget=0.2, threads=1, input_shapes={"x": (4, 3)}
        )
    assert "other sizes" in {deviation.distribution for deviation in result.deviations}


def test_a_model_that_takes_a_sequence_is_optimized():
    proto = helper.make_graph(
        [
            helper.make_node("ConcatFromSequence", ["s"], ["a"], axis=0),
            helper.make_node("Identity", ["a"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        "sequence",
        [helper.make_tensor_sequence_value_info("s", FLOAT, ["n", 3])],
        [value("y", ["m", 3])],
    )
    built = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result, optimized = optimize(built)
    assert result.deviations and all(deviation.within for deviation in result.deviations)
    feeds = {"s": [np.full((rows, 3), -rows, np.float32) for rows in (2, 1)]}
    np.testing.assert_array_equal(run(optimized, feeds)[0], run(built, feeds)[0])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (helper.make_tensor_value_info("x", FLOAT, None), "declares no rank; declare its shape"),
        (
            helper.make_value_info(
                "x", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
            ),
            "it is no tensor, and no sequence of them",
        ),
    ],
    ids=["no rank", "optional"],
)
def test_inputs_that_cannot_be_generated_are_named(declared, said):
    operator = "Relu" if declared.type.HasField("tensor_type") else "OptionalHasElement"
    output = helper.make_tensor_value_info(
        "y", FLOAT if operator == "Relu" else TensorProto.BOOL, None
    )
    proto = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", [declared], [output])
    built = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ModelError, match=said):
        optimize(built)
