"""Random graphs: whatever the rules do to a graph, its outputs stay what they were."""

import random

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaigns import examples

from .agreement import disagreement
from .random_graphs import graphs
from .rewriting import half_of, rewritten, shipped_rules

pytestmark = pytest.mark.whole

SETTINGS = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

MATCHING = settings(SETTINGS, max_examples=examples(150))


@SETTINGS
@given(graphs())
def test_generated_graphs_are_valid_and_the_runtime_agrees_with_their_values(graph):
    model, feeds, exact = graph
    onnx.checker.check_model(model)
    # ONNX Runtime's own optimizations fail on some graphs with empty tensors.
    empty = not all(value.size for value in [*feeds.values(), *exact])
    level = "disabled" if empty else "all"
    assert disagreement(model, model, feeds, level=level, exact=exact) is None


@MATCHING
@given(graphs(least_steps=6, most_steps=30), st.integers(0, 2), st.integers(0, 3))
def test_rewritten_graph_agrees(graph, selection, seed):
    model, feeds, exact = graph
    rules = (shipped_rules(), half_of(shipped_rules(), random.Random(seed)), ())[selection]
    result, fired = rewritten(model, rules)
    onnx.checker.check_model(result)
    problem = disagreement(model, result, feeds, exact=exact)
    assert problem is None, f"{problem}; fired: {', '.join(sorted(fired))}"


@settings(MATCHING, max_examples=examples(50))
@given(graphs(symbolic=True, least_steps=6, most_steps=30))
def test_rewritten_graph_with_an_open_dimension_agrees(graph):
    model, feeds, exact = graph
    result, fired = rewritten(model, shipped_rules())
    assert list(result.graph.input) == list(model.graph.input)
    problem = disagreement(model, result, feeds, exact=exact)
    assert problem is None, f"{problem}; fired: {', '.join(sorted(fired))}"
