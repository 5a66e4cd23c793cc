"""How far a rule's pattern goes in a graph: to its end exactly where the matcher finds it."""

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from tensolog.optimizer.explain.partial_match import nearest
from tensolog.optimizer.match.matcher import Matcher
from tensolog.rules import load_rules, parse_rules

from benchmarks.zoo import build
from tests.campaigns import examples
from tests.models.random_graphs import graphs
from tests.optimizer.builders import model, value
from tests.optimizer.egraph.pricing import graph_of

SETTINGS = settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
RULE = """
# FuseExample is about three operators.
rule FuseExample
  tags    explore
  source  [ieee754]
  given   A [m, n],
          c scalar,
          c >= 2
  match
    S = Add(A, B)
    T = Tanh(S)
    Y = Mul(T, c)
  rewrite
    Y = Mul(c, Tanh(Add(B, A)))
  equal   exact
"""
(RULED,) = parse_rules(RULE, "example.rules")


def compared(graph):
    """Both ways of matching, for every rule there is, and around a node of each match."""
    rules = load_rules()
    matched_nodes = defaultdict(set)
    for match in Matcher(rules).find(graph):
        matched_nodes[match.rule.name].add(min(match.nodes.values()))
    for rule in rules:
        assert (nearest(rule, graph).reason == "") == (rule.name in matched_nodes), rule.name
        for number in matched_nodes[rule.name]:
            assert not nearest(rule, graph, number).reason, rule.name


@SETTINGS
@given(graphs(least_steps=6, most_steps=30))
def test_a_pattern_is_whole_where_the_rule_matches_in_random_graphs(graph):
    compared(graph_of(graph[0]))


@pytest.mark.parametrize("name", ["bert", "inception", "nasrnn"])
def test_a_pattern_is_whole_where_the_rule_matches_in_an_architecture(name):
    compared(graph_of(build(name, tiny=True)))


def chain(*, mid="Tanh", factor=3.0, shape=(2, 2), end="Mul"):
    """a + b, an activation, a factor."""
    nodes = [
        ("Add", ["a", "b"], ["s"], "sum"),
        (mid, ["s"], ["t"], "mid"),
        (end, ["t", "c"], ["y"], "end"),
        ("Tanh", ["y"], ["z"], "other"),
        ("Mul", ["z", "c"], ["u"], "last"),
    ]
    inputs = [value(name, list(shape)) for name in ("a", "b")]
    return graph_of(model(nodes, inputs, [value("u", list(shape))], {"c": [factor]}))


@pytest.mark.parametrize(
    ("changes", "missing", "reason"),
    [
        ({}, 0, ""),
        ({"factor": 1.0}, 0, "it does not hold that c >= 2"),
        ({"factor": 1.0, "shape": (2, 2, 2)}, 0, "not [m, n]"),
        ({"mid": "Relu"}, 1, "y is given by Mul, not by Add"),
        ({"end": "Sub"}, 1, "no Mul reads t: Sub does"),
    ],
    ids=lambda case: str(case)[:20],
)
def test_what_is_missing_is_told(changes, missing, reason):
    """Each case breaks one thing, but for the one that breaks two conditions."""
    part = nearest(RULED, chain(**changes))
    assert part.missing == missing
    assert reason in part.reason and bool(reason) == bool(part.reason)
    assert ("1 more condition fails" in part.reason) == (len(changes) == 2)


def test_operators_that_do_not_occur_are_named():
    graph = graph_of(model([("Relu", ["a"], ["y"])], [value("a", [2])], [value("y", [2])]))
    part = nearest(RULED, graph)
    assert (part.missing, part.reason) == (3, "the model has no Add, Tanh and no Mul")


def test_a_node_of_another_operator_is_no_part():
    nodes = [("Add", ["a", "a"], ["s"]), ("Tanh", ["a"], ["t"]), ("Mul", ["a", "a"], ["m"])]
    nodes.append(("Relu", ["a"], ["r"]))
    outputs = [value(name, [2]) for name in "stmr"]
    graph = graph_of(model(nodes, [value("a", [2])], outputs))
    assert nearest(RULED, graph, 3).reason == "it is about Add, Tanh and Mul"
    assert "no Tanh reads s: nothing else does" in nearest(RULED, graph, 0).reason
    assert "a is an input of the model, not given by Add" in nearest(RULED, graph, 1).reason
