"""Assignments of layouts: which there are, what they compute, and what is told of their times."""

import numpy as np
import onnxruntime
import pytest
from tensolog.catalog import Catalog
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import Costs
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.assignments import Assignments
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.layouts.space import space_of
from tensolog.optimizer.layouts.timed_assignments import (
    GROUPS,
    SUMS,
    cost_graph,
    sums,
    time_assignments,
)
from tensolog.profiles.learning.samples.cost_graphs import load_cost_graphs, store_cost_graph
from tensolog.profiles.machine import load_machine

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of

from .networks import has_blocks, network

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked layout here")
SEEDS = (1, 4, 6)


def assignments_of(model, seed=0):
    egraph = EGraph(graph_of(model), {}, FOLD_LIMIT)
    return Assignments(space_of(egraph, Costs(egraph, Prices(seed)), block_size()))


def outputs(model, feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_assignment_computes_what_the_model_does(seed):
    drawn = network(seed)
    model = drawn.model()
    feeds = {"x": np.random.default_rng(seed).normal(size=drawn.shape).astype(np.float32)}
    expected = outputs(model, feeds)
    assignments = assignments_of(model)
    chosen = assignments.sample(16, seed=0)
    assert len({assignment.blocked for assignment in chosen}) == len(chosen) > 1
    for assignment in chosen:
        results = outputs(to_model(assignments.graph(assignment)), feeds)
        for result, other in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_just_what_is_assigned_lies_in_blocks(seed):
    assignments = assignments_of(network(seed).model())
    every = assignments.sample(2 ** len(assignments.operators), seed=0)
    by_blocked = {assignment.blocked: assignment for assignment in every}
    plain = assignments.graph(by_blocked[frozenset()])
    assert all(node.domain != NCHWC for node in plain.nodes.values())
    for blocked, assigned in by_blocked.items():
        nodes = {choice.node for choice in assigned.selection.values()}
        for operator in assignments.operators:
            in_blocks = bool(nodes & assignments.forms[operator])
            assert in_blocks or operator not in blocked
            assert operator not in nodes or operator not in blocked


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cheapest_is_the_cheapest_of_all(seed):
    assignments = assignments_of(network(seed).model(), seed)
    every = assignments.sample(2 ** len(assignments.operators), seed=0)
    least = min(assignment.cost_ns for assignment in every)
    assert assignments.cheapest().cost_ns == pytest.approx(least)


def test_times_become_rows_of_the_catalog():
    assignments = assignments_of(network(1).model())
    chosen = assignments.sample(8, seed=0)
    timed = time_assignments(assignments, chosen, threads=1, budget_s=0.0)
    assert (timed.times_ns > 0).all()
    with Catalog(":memory:") as catalog:
        machine = load_machine(catalog)
        graph = cost_graph("x", assignments, chosen, timed.times_ns, machine, 1)
        store_cost_graph(catalog, graph)
        (loaded,) = load_cost_graphs(catalog)
        assert loaded.hash == graph.hash and loaded.collection == "layout"
    features = graph.arrays["node_config_feat"][:, :, 0]
    for row, assigned in zip(features, chosen, strict=True):
        in_blocks = {op for op, blocked in zip(assignments.operators, row, strict=True) if blocked}
        assert in_blocks == assigned.blocked
    plain = next(assignment for assignment in chosen if not assignment.blocked)
    summed = sums(assignments, plain, machine, 1).reshape(len(GROUPS), 2, len(SUMS))
    assert not summed[:, 1].any() and summed[:, 0, 0].sum() == len(plain.selection)
