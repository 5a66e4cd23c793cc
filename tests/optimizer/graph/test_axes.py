"""Reductions as plans have them written: their axes count from the front, as empty batches need."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from tensolog.catalog import Catalog
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.axes import from_the_front
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.matcher import Matcher
from tensolog.optimizer.match.rewrite import simplify
from tensolog.optimizer.native.fuse_graph import fused_graph
from tensolog.optimizer.race.candidate_files import CandidateFiles
from tensolog.profiles.sessions.execution import Execution
from tensolog.rules import load_rules

from tests.optimizer.builders import FLOAT, INT64, model, run, value
from tests.optimizer.native.build import needs_compiler

REDUCTIONS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"]
REDUCTIONS += ["ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]
CHOICES = ["ArgMax", "ArgMin"]
# By release: the axes of all are attributes; of all but ReduceSum; of none but the choices.
OPSETS = [11, 13, 18]


def graph_of(built, rule=""):
    """A model as a graph, its nodes brought by a rule if one is named."""
    graph = load_graph(built)
    graph.types = infer_types(graph)
    graph.nodes = {number: replace(node, rule=rule) for number, node in graph.nodes.items()}
    return graph


def reduction(op, axes, opset, keepdims=1, **attributes):
    """A model that reduces x to y."""
    attributes["keepdims"], constants = keepdims, {}
    if op in CHOICES:
        attributes["axis"] = axes[0]
    elif opset < (13 if op == "ReduceSum" else 18):
        attributes["axes"] = axes
    else:
        constants["axes"] = np.array(axes, np.int64)
    node = helper.make_node(op, ["x", *constants], ["y"], **attributes)
    rank = 3 if keepdims else 3 - len(axes)
    y = value("y", [f"size{i}" for i in range(rank)], INT64 if op in CHOICES else FLOAT)
    return model([node], [value("x", ["n", 4, 8])], [y], constants, opset=opset)


def of_any_rank():
    nodes = [("Reshape", ["x", "shape"], ["r"]), ("ReduceSum", ["r", "axes"], ["y"])]
    inputs = [value("x", ["n"]), value("shape", ["rank"], INT64)]
    return model(nodes, inputs, [value("y", ["m"])], {"axes": np.array([-1])})


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("op", REDUCTIONS + CHOICES)
@pytest.mark.parametrize("axes", [[-1], [-2], [1], [-1, 1], [-1, -2]])
def test_a_reduction_has_the_shape_of_numpys_for_any_batch(op, axes, opset):
    if op in CHOICES and len(axes) > 1:
        return
    for keepdims in (0, 1):
        built = reduction(op, axes, opset, keepdims=keepdims)
        written = to_model(from_the_front(graph_of(built, "Rule")))
        for batch in (0, 3):
            x = normal(batch, 4, 8)
            (result,) = run(written, {"x": x})
            assert result.shape == x.sum(tuple(axes), keepdims=bool(keepdims)).shape
        np.testing.assert_array_equal(result, run(built, {"x": x})[0])


def test_axes_that_others_read_as_well_stay_theirs():
    nodes = [
        ("Unsqueeze", ["x", "axes"], ["u"]),
        ("ReduceSum", ["x", "axes"], ["s"]),
        ("Add", ["u", "s"], ["y"]),
    ]
    built = model(
        nodes, [value("x", ["n", 4])], [value("y", ["n", 4, "m"])], {"axes": np.array([-1])}
    )
    x = normal(4, 4)
    written = to_model(from_the_front(graph_of(built, "Rule")))
    np.testing.assert_array_equal(run(written, {"x": x})[0], run(built, {"x": x})[0])


@pytest.mark.parametrize(
    ("built", "rule"),
    [
        (reduction("ReduceSum", [-1], 18), ""),
        (reduction("ReduceSum", [1], 18), "Rule"),
        (of_any_rank(), "Rule"),
        (reduction("ReduceSum", [], 18, noop_with_empty_axes=1), "Rule"),
        (model([("Softmax", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]), "Rule"),
    ],
    ids=["the model's own", "from the front already", "of any rank", "none", "no reduction"],
)
def test_everything_else_stays_as_it_is(built, rule):
    graph = graph_of(built, rule)
    assert from_the_front(graph) is graph


def written_by(candidate_files, graph, *libraries):
    """A session of a plan as it is written where the runtime opens it."""
    options = onnxruntime.SessionOptions()
    path = candidate_files.place_graph("plan", graph)
    Execution(libraries=tuple(library.path for library in libraries)).apply(options, path.parent)
    return onnxruntime.InferenceSession(path, options)


@pytest.mark.parametrize("batch", [0, 3])
def test_what_a_rule_makes_of_a_model_takes_an_empty_batch_as_the_model_did(batch):
    node = helper.make_node("Einsum", ["x"], ["y"], equation="abc->ab")
    built = model([node], [value("x", ["n", 4, 8])], [value("y", ["n", 4])])
    graph = graph_of(built)
    rules = [rule for rule in load_rules() if rule.name == "ConvertEinsumToSum"]
    assert simplify(graph, Matcher(rules), fold_limit=0)
    x = normal(batch, 4, 8)
    (wanted,) = run(built, {"x": x})
    assert wanted.shape == (batch, 4)
    with Catalog(":memory:") as catalog, CandidateFiles(catalog) as candidate_files:
        for session in (
            written_by(candidate_files, graph),
            onnxruntime.InferenceSession(candidate_files.skeleton(graph).SerializeToString()),
        ):
            (result,) = session.run(None, {"x": x})
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("batch", [0, 3])
def test_a_kernel_behind_a_reduction_takes_an_empty_batch(batch):
    """The model itself does: what has too many elements is none, and is broadcast."""
    built = model(
        [
            helper.make_node("ArgMax", ["x"], ["place"], axis=-1),
            helper.make_node("Cast", ["place"], ["float"], to=FLOAT),
            ("Add", ["float", "c"], ["moved"]),
            ("Mish", ["moved"], ["y"]),
        ],
        [value("x", ["n", 4, 8])],
        [value("y", ["n", 4, 8])],
        {"c": normal(4, 8)},
        opset=18,
    )
    fused, library = fused_graph(graph_of(built), levels=(native_level(),))
    assert [node.op_type for node in fused.nodes.values() if not node.domain] == ["ArgMax", "Cast"]
    x = normal(batch, 4, 8)
    (wanted,) = run(built, {"x": x})
    with Catalog(":memory:") as catalog, CandidateFiles(catalog) as candidate_files:
        candidate_files.place_file(library.path, library.name)
        (result,) = written_by(candidate_files, fused, library).run(None, {"x": x})
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
