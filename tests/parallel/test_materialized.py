"""Divided in whatever way, a model computes what it computes: ONNX Runtime says so of both."""

import random

import numpy as np
import onnxruntime
import pytest
from tensolog.parallel.materialization import materialize
from tensolog.parallel.search.goals import PlanError

from .models import random_graph, random_plan, space


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)


def inputs_of(model, seed=0):
    draw = np.random.default_rng(seed)
    return {
        input_.name: draw.standard_normal(
            [size.dim_value for size in input_.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for input_ in model.graph.input
    }


def agree(model, devices, draw, plans=1):
    space_ = space(model, devices)
    feeds = inputs_of(model)
    expected = run(model, feeds)
    for _ in range(plans):
        plan = random_plan(draw, space_)
        materialized = materialize(space_.problem, plan)
        for left, right in zip(expected, run(materialized.model, feeds), strict=True):
            np.testing.assert_allclose(right, left, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("seed", range(500))
def test_random_plans_of_random_graphs(seed):
    source = random.Random(seed)
    agree(random_graph(source.randrange, 6), 1 + source.randrange(4), source.randrange)


def test_what_the_package_gives_are_functions():
    """A module of the name of a function would take its place once it is imported."""
    import tensolog.parallel as parallel

    for name in parallel.__all__:
        assert callable(getattr(parallel, name)), name


def test_older_operator_sets_are_refused():
    model = random_graph(random.Random(0).randrange, 2)
    model.opset_import[0].version = 11
    space_ = space(model, 2)
    with pytest.raises(PlanError, match="operator set 11 can't be divided: convert it to 13"):
        materialize(space_.problem, random_plan(random.Random(1).randrange, space_))
