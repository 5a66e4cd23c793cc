"""Merges of several outputs, and the limits of growth."""

import numpy as np
import pytest
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturation.e_matching import EMatcher
from tensolog.optimizer.egraph.saturation.saturate import Budget, saturate
from tensolog.rules import parse_rules

from tests.optimizer.builders import model, run, value

from .pricing import graph_of, searched, shipped_rules
from .small_rules import small_rules

RNG = np.random.default_rng(6)


def branches(count):
    """Products of one operand with constant weights, as queries, keys and values are."""
    weights = {f"w{i}": RNG.standard_normal((8, 4)).astype(np.float32) for i in range(count)}
    return model(
        [("MatMul", ["x", f"w{i}"], [f"p{i}"]) for i in range(count)]
        + [("Relu", [f"p{i}"], [f"y{i}"]) for i in range(count)],
        [value("x", [3, 8])],
        [value(f"y{i}", [3, 4]) for i in range(count)],
        weights,
    )


def chosen(*names):
    return [rule for rule in shipped_rules() if rule.name in names]


MERGES = ("MergeMatMulsSharingLeft", "JoinSplits")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_all_branches_become_one_product_where_calls_are_dear(count):
    """A product costs the same whatever its width, a split next to nothing."""
    built = branches(count)
    price = {"MatMul": 100.0, "Split": 1.0, "Relu": 5.0}
    result, search_result = searched(built, chosen(*MERGES), price=lambda k: price[k.op_type])
    assert sum(node.op_type == "MatMul" for node in result.graph.node) == 1
    assert search_result.cost_ns < search_result.original_cost_ns
    assert any(step.rule == "MergeMatMulsSharingLeft" for step in search_result.steps)
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    for got, expected in zip(run(result, {"x": x}), run(built, {"x": x}), strict=True):
        assert np.allclose(got, expected, atol=1e-5)


def test_branches_stay_apart_where_splits_are_dear():
    built = branches(3)
    price = {"MatMul": 10.0, "Split": 1000.0, "Relu": 5.0}
    result, search_result = searched(built, chosen(*MERGES), price=lambda k: price[k.op_type])
    assert sum(node.op_type == "MatMul" for node in result.graph.node) == 3
    assert search_result.cost_ns == search_result.original_cost_ns
    assert not search_result.steps


def test_a_search_goes_on_where_constants_stay_as_they_are():
    """Integers that are dequantized are known, and not computed in advance."""
    built = model(
        [("DequantizeLinear", ["b", "s"], ["w"]), ("MatMul", ["x", "w"], ["y"])],
        [value("x", [3, 8])],
        [value("y", [3, 4])],
        {"b": np.ones((8, 4), np.int8), "s": np.float32(0.5)},
    )
    _, search_result = searched(built, chosen(*MERGES), price=lambda k: 1.0)
    assert not search_result.steps


def negations(count):
    """Products that are negated, each with a place for one rule."""
    nodes = []
    for i in range(count):
        nodes += [("MatMul", ["x", f"w{i}"], [f"p{i}"]), ("Neg", [f"p{i}"], [f"y{i}"])]
    weights = {f"w{i}": RNG.standard_normal((2, 2)).astype(np.float32) for i in range(count)}
    outputs = [value(f"y{i}", [2, 2]) for i in range(count)]
    return model(nodes, [value("x", [2, 2])], outputs, weights)


def test_a_rule_with_too_many_matches_pauses_and_comes_back():
    graph = graph_of(negations(7))
    egraph = EGraph(graph)
    rules = [rule for rule in small_rules() if rule.name == "PushNegationThroughMatMul"]
    matcher = EMatcher(egraph, rules, most=3)
    counts = []
    for round_ in range(6):
        egraph.columns.now += 1
        counts.append(len(matcher.find(round_)))
    assert counts == [3, 0, 4, 0, 0, 0]
    assert not matcher.paused


PAIRS = """
# SplitDifferences is about any two differences that take the same away.
rule SplitDifferences
  tags    explore
  source  [ieee754]
  match
    P = Sub(X, A)
    Q = Sub(Y, A)
  rewrite
    P = Sub(X, Neg(Neg(A)))
    Q = Sub(Y, Neg(Neg(A)))
  equal   exact
"""


def differences(count):
    """Independent differences, of which a rule about any two has as many places as pairs."""
    names = [f"x{i}" for i in range(count)]
    nodes = [("Sub", [name, "a"], [f"y{i}"]) for i, name in enumerate(names)]
    inputs = [value(name, [2]) for name in (*names, "a")]
    return model(nodes, inputs, [value(f"y{i}", [2]) for i in range(count)])


@pytest.mark.parametrize("bindings", [50, 10_000])
def test_a_rule_with_more_partial_matches_than_may_be_is_capped(bindings):
    egraph = EGraph(graph_of(differences(12)))
    rules = parse_rules(PAIRS, "pairs.rules")
    matches = []
    for _ in range(2):  # the same ones each time
        matcher = EMatcher(egraph, rules, bindings=bindings)
        egraph.columns.now += 1
        matches.append([tuple(match.nodes.values()) for match in matcher.find(0)])
        assert matcher.capped == (("SplitDifferences",) if bindings == 50 else ())
    assert matches[0] == matches[1]
    assert len(matches[0]) == 66 if bindings > 50 else 0 < len(matches[0]) <= 50


def test_a_round_ends_where_the_budget_does():
    """Of many matches of one round, those beyond the budget are not applied."""
    built = negations(40)
    rules = [rule for rule in small_rules() if rule.name == "PushNegationThroughMatMul"]
    whole = saturate(EGraph(graph_of(built)), rules, Budget(rounds=1))
    part = saturate(EGraph(graph_of(built)), rules, Budget(rounds=1, nodes=100, factor=0, step=5))
    again = saturate(EGraph(graph_of(built)), rules, Budget(rounds=1, nodes=100, factor=0, step=5))
    assert sum(a.rule == rules[0].name for a in whole.applications) == 40
    assert 0 < len(part.applications) < 40 and "e-nodes" in part.ended
    assert [a.nodes for a in part.applications] == [a.nodes for a in again.applications]


def test_steps_of_a_round_lead_to_what_the_round_leads_to():
    built = negations(6)
    sizes = []
    for step in (1, 2_000):
        egraph = EGraph(graph_of(built))
        growth = saturate(egraph, small_rules(), Budget(step=step))
        assert growth.is_saturated
        leaders = egraph.columns.canonical(np.arange(len(egraph.graph.names)))
        sizes.append((len(egraph.columns.living()), leaders.tolist()))
    assert sizes[0] == sizes[1]


def test_the_budget_ends_growth_and_the_result_still_agrees():
    built = negations(5)
    egraph = EGraph(graph_of(built))
    growth = saturate(egraph, small_rules(), Budget(nodes=1, factor=1))
    assert not growth.is_saturated
    assert "e-nodes" in growth.ended
    result, _ = searched(built, small_rules(), budget=Budget(nodes=1, factor=1))
    x = RNG.standard_normal((2, 2)).astype(np.float32)
    for got, expected in zip(run(result, {"x": x}), run(built, {"x": x}), strict=True):
        assert np.allclose(got, expected, atol=1e-5)


def test_a_use_count_is_no_condition_in_an_e_graph():
    """A rewrite takes nothing away; the value that has other users stays available."""
    built = model(
        [("Sub", ["a", "b"], ["d"]), ("Neg", ["d"], ["n"]), ("Abs", ["d"], ["y"])],
        [value("a", [2, 2]), value("b", [2, 2])],
        [value("n", [2, 2]), value("y", [2, 2])],
    )
    prices = {"Neg": 50.0, "Sub": 1.0, "Abs": 1.0}
    result, _ = searched(built, small_rules(), price=lambda k: prices[k.op_type])
    assert sorted(node.op_type for node in result.graph.node) == ["Abs", "Sub", "Sub"]


def test_a_class_that_nothing_is_known_of_yet_may_become_part_of_another():
    """Joining types of a RegNet with a free batch once met such a class, which had no place."""
    graph = graph_of(branches(2))
    egraph = EGraph(graph)
    kept = graph.graph_outputs[0]
    known = egraph.type(kept)
    (unlisted,) = egraph.columns.new_classes(1)
    egraph.unite(np.array([kept]), np.array([unlisted]))
    assert egraph.find(unlisted) == egraph.find(kept)
    assert egraph.type(egraph.find(unlisted)) == known
