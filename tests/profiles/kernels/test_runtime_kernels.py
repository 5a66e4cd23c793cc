"""What runs for a model; of a model run as it is written, ONNX's shape inference is the oracle."""

from collections import Counter

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tensolog.profiles.kernels.accuracy import accuracy
from tensolog.profiles.kernels.kernel_model import build_model
from tensolog.profiles.kernels.runtime_kernels import runtime_kernels
from tensolog.profiles.sessions.feeds import random_feeds
from tensolog.profiles.sessions.operators_run import operators_run
from tensolog.profiles.sessions.session import AS_WRITTEN, DEFAULTS

from tests.profiles.small_models import MODELS, static_kernels, tensor_type


def built(name):
    model = MODELS[name]()
    (input_info,) = (info for info in model.graph.input if info.name == "x")
    return model, random_feeds({"x": tensor_type(input_info)})


@pytest.mark.parametrize("name", MODELS)
def test_as_written_every_node_is_run_with_its_inferred_shapes(name):
    model, feeds = built(name)
    run = runtime_kernels(model.SerializeToString(), feeds, threads=1, execution=AS_WRITTEN)
    assert Counter(run.kernels) == Counter(kernel for _, kernel in static_kernels(model))
    assert not run.unknown_operators


@pytest.mark.parametrize("name", MODELS)
def test_what_the_runtime_makes_of_a_model_can_be_timed_alone(name):
    model, feeds = built(name)
    source = model.SerializeToString()
    kernels = runtime_kernels(source, feeds, threads=1).kernels
    counted = operators_run(source, feeds, threads=1, execution=DEFAULTS)
    assert sorted(kernel.op_type for kernel in kernels) == sorted(counted.elements())
    assert len(kernels) < len(model.graph.node)
    for kernel in kernels:
        build_model(kernel)


def test_constants_are_counted_once_each():
    weights = numpy_helper.from_array(np.ones((8, 8), dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", [name, "w"], [f"y{name}"]) for name in ("a", "b")]
    input_infos = [helper.make_tensor_value_info(name, 1, [2, 8]) for name in ("a", "b")]
    outputs = [helper.make_tensor_value_info(f"y{name}", 1, [2, 8]) for name in ("a", "b")]
    graph = helper.make_graph(nodes, "shared", input_infos, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    feeds = {name: np.ones((2, 8), dtype=np.float32) for name in ("a", "b")}
    run = runtime_kernels(model.SerializeToString(), feeds, threads=1, execution=AS_WRITTEN)
    assert run.constant_bytes == 8 * 8 * 4


def test_subgraphs_and_what_they_give_are_left_out():
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["t"])], "t", [], [helper.make_empty_tensor_value_info("t")]
    )
    graph = helper.make_graph(
        [
            helper.make_node("Abs", ["x"], ["a"]),
            helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
            helper.make_node("Add", ["a", "i"], ["y"]),
        ],
        "branches",
        [
            helper.make_tensor_value_info("x", 1, [3]),
            helper.make_tensor_value_info("c", 9, []),
        ],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": np.ones(3, np.float32), "c": np.array(True)}
    run = runtime_kernels(model.SerializeToString(), feeds, threads=1, execution=AS_WRITTEN)
    assert {"Abs", "Add"} <= {kernel.op_type for kernel in run.kernels}


@pytest.mark.parametrize("execution", [DEFAULTS, AS_WRITTEN])
def test_every_kernel_has_its_share(execution):
    model, feeds = built("mlp")
    source = model.SerializeToString()
    profile = accuracy(source, feeds, threads=1, execution=execution, rounds=3)
    run = runtime_kernels(source, feeds, threads=1, execution=execution).kernels
    assert sum(share.count for share in profile.shares) == len(run)
    assert {share.kernel for share in profile.shares} == set(run)
    assert profile.measured_ns > 0 and not profile.untimed
    assert profile.ratio == pytest.approx(
        profile.empty + sum(share.part for share in profile.shares)
    )
    assert all(share.ns > 0 for share in profile.shares)
