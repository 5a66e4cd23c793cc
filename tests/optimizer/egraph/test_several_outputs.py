"""Rules of several outputs while an e-graph grows, against the runtime and against pairs."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.merges import pairs_neighbours
from tensolog.optimizer.egraph.saturation.saturate import saturate
from tensolog.rules import parse_rules

from tests.optimizer.builders import model, run, value

from .pricing import graph_of, searched, shipped_rules

RULES = """
# PushNegThroughSplit negates both parts of what is split.
rule PushNegThroughSplit
  tags    explore
  source  [ieee754]
  match
    A, B = Split<axis=1>(Neg(X), s)
  rewrite
    P, Q = Split<axis=1>(X, s)
    A    = Neg(P)
    B    = Neg(Q)
  equal   exact

# EliminateDoubleNegation lets what is negated twice be itself.
rule EliminateDoubleNegation
  tags    always
  source  [ieee754]
  match
    Y = Neg(Neg(X))
  rewrite
    Y = X
  equal   exact
"""


def split_model():
    """Both parts of a negated value, one of them negated again."""
    return model(
        [
            ("Neg", ["x"], ["n"]),
            helper.make_node("Split", ["n", "s"], ["a", "b"], axis=1),
            ("Neg", ["a"], ["y"]),
            ("Relu", ["b"], ["z"]),
        ],
        [value("x", [2, 5])],
        [value("y", [2, 2]), value("z", [2, 3])],
        {"s": np.array([2, 3], np.int64)},
    )


def test_a_rule_of_several_outputs_takes_part_in_growth():
    """What it makes meets other rules: the negation of a part that was negated goes."""
    rules = parse_rules(RULES, "several.rules")
    egraph = EGraph(graph_of(split_model()))
    growth = saturate(egraph, rules)
    (pushed,) = (a for a in growth.applications if a.rule == "PushNegThroughSplit")
    assert growth.is_saturated and not pushed.refusal and len(pushed.united) == 2
    for old, new in pushed.united:
        assert egraph.find(old) == egraph.find(new)
    assert any(a.rule == "EliminateDoubleNegation" for a in growth.applications)


@pytest.mark.parametrize(("dear", "negations"), [("Neg", 1), ("Split", 2)])
def test_its_result_is_paid_for_once_and_computes_the_same(dear, negations):
    """Pushed down, one of two negations goes; a Split that gives both parts counts once."""
    built = split_model()
    price = {"Neg": 10.0, "Split": 1.0, "Relu": 1.0, dear: 50.0}
    rules = parse_rules(RULES, "several.rules") if dear == "Neg" else ()
    result, search_result = searched(built, rules, price=lambda k: price[k.op_type])
    assert sum(node.op_type == "Neg" for node in result.graph.node) == negations
    assert search_result.cost_ns == negations * price["Neg"] + price["Split"] + price["Relu"]
    x = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    for got, expected in zip(run(result, {"x": x}), run(built, {"x": x}), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_part_of_another_size_does_not_match():
    """The pattern's one condition broken: another axis."""
    built = split_model()
    built.graph.node[1].attribute[0].i = 0
    built.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 1]), "s"))
    for output, size in zip(built.graph.output, (1, 1), strict=True):
        for dim, n in zip(output.type.tensor_type.shape.dim, (size, 5), strict=True):
            dim.dim_value = n
    growth = saturate(EGraph(graph_of(built)), parse_rules(RULES, "several.rules"))
    assert all(a.rule != "PushNegThroughSplit" for a in growth.applications)


def test_rules_that_pair_neighbours_are_told_from_others():
    rules = {rule.name: rule for rule in shipped_rules()}
    several = {name for name, rule in rules.items() if len(rule.outputs) > 1}
    pairing = {name for name, rule in rules.items() if pairs_neighbours(rule)}
    assert {"MergeMatMulsSharingLeft", "MergeConvsSharingInput"} <= pairing <= several
    assert {"JoinSplits", "PushSplitThroughDequantizeLinear"} <= several - pairing
