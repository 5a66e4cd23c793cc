"""Whatever is taken out of an e-graph computes what the model computed, whatever it costs."""

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.saturate import Budget

from ..models.agreement import disagreement
from ..models.random_graphs import graphs
from .pricing import searched, shipped_rules

SETTINGS = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
BUDGET = Budget(rounds=3, nodes=600, factor=4)


@SETTINGS
@given(graphs(least_steps=4, most_steps=20), st.integers(0, 1000))
def test_random_graphs_agree_under_any_prices(graph, seed):
    model, feeds, exact = graph
    result, found = searched(model, shipped_rules(), seed, budget=BUDGET)
    onnx.checker.check_model(result)
    problem = disagreement(model, result, feeds, exact=exact)
    fired = sorted({step.rule for step in found.steps})
    assert problem is None, f"{problem}; by {', '.join(fired)}"
    assert found.cost_ns <= found.own_cost_ns + 1e-6


@SETTINGS
@given(graphs(symbolic=True, least_steps=4, most_steps=20), st.integers(0, 1000))
def test_random_graphs_with_an_open_dimension_agree(graph, seed):
    model, feeds, exact = graph
    result, _ = searched(model, shipped_rules(), seed, budget=BUDGET)
    assert list(result.graph.input) == list(model.graph.input)
    assert disagreement(model, result, feeds, exact=exact) is None


def test_without_rules_nothing_changes_but_what_is_computed_twice():
    from ..optimizer.builders import model, value

    built = model(
        [
            ("Neg", ["x"], ["a"]),
            ("Neg", ["x"], ["b"]),
            ("Add", ["a", "b"], ["y"]),
        ],
        [value("x", [3])],
        [value("y", [3])],
    )
    result, found = searched(built, ())
    assert [node.op_type for node in result.graph.node] == ["Neg", "Add"]
    assert found.steps == []


@pytest.mark.parametrize("seed", [7])
def test_equal_questions_have_equal_answers(seed):
    from ..optimizer.test_driver import conv_model

    built = conv_model()
    first, second = (searched(built, shipped_rules(), seed)[0] for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()
