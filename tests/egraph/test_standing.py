"""What is said of one node: alternatives and their price, rules that match, nearly, or may not."""

import json

import numpy as np
import pytest
from tensolog.optimizer.egraph.costs import Costs
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturate import saturate
from tensolog.optimizer.egraph.standing import Asker, tried
from tensolog.optimizer.node_story import Question, answer
from tensolog.optimizer.setting import OptionError, Setting
from tensolog.rules import load_rules

from ..optimizer.builders import model, value
from .pricing import Prices, graph_of
from .small_rules import small_rules


def differences():
    """A difference that is negated, and that something else needs too."""
    return model(
        [("Sub", ["a", "b"], ["d"]), ("Neg", ["d"], ["n"]), ("Abs", ["d"], ["y"])],
        [value("a", [2, 2]), value("b", [2, 2])],
        [value("n", [2, 2]), value("y", [2, 2])],
    )


def asked(operator, prices, rules=small_rules):
    """The standing of the node of an operator, and the rules that were tried and left."""
    graph = graph_of(differences())
    egraph = EGraph(graph)
    growth = saturate(egraph, rules())
    costs = Costs(egraph, Prices(price=lambda kernel: prices[kernel.op_type]))
    (number,) = (n for n, node in graph.nodes.items() if node.op_type == operator)
    answer = Asker(egraph, growth.applications, costs).answer(number)
    return answer, tried(egraph, growth, costs)


def test_the_way_not_taken_costs_what_the_plan_would_take_more():
    """Neg of what is there costs 3, a second Sub 10: the latter is 7 dearer."""
    found, left = asked("Neg", {"Neg": 3.0, "Sub": 10.0, "Abs": 1.0})
    assert found.plan_ns == found.own_ns == 14.0
    assert [(w.operator, w.rule, w.more_ns, w.is_chosen) for w in found.ways] == [
        ("Neg", "", 0.0, True),
        ("Sub", "PushNegationThroughSub", 7.0, False),
    ]
    assert [(u.rule, u.state, u.more_ns) for u in found.uses] == [
        ("PushNegationThroughSub", "costs more", 7.0)
    ]
    assert [(s.rule, s.accepted, s.cost_after_ns - s.cost_before_ns) for s in left] == [
        ("PushNegationThroughSub", False, 7.0)
    ]
    assert left[0].reason.startswith("higher cost: ")


def test_what_is_taken_is_in_the_plan_and_the_own_node_costs_more():
    found, left = asked("Neg", {"Neg": 30.0, "Sub": 10.0, "Abs": 1.0})
    assert (found.own_ns, found.plan_ns) == (41.0, 21.0)
    assert [(w.operator, w.more_ns, w.is_chosen) for w in found.ways] == [
        ("Sub", 0.0, True),
        ("Neg", 20.0, False),
    ]
    assert [use.state for use in found.uses] == ["in the plan"]
    assert not left


def story(built, node, rules, allow=("exact", "rounding"), price=None):
    setting = Setting(allow=allow)
    prices = Prices(price=price)
    return answer(graph_of(built), node, Question(setting, tuple(rules), {}), prices)


def test_a_node_is_found_by_the_name_of_what_it_gives_and_a_wrong_one_is_refused():
    by_output = story(differences(), "n", small_rules(), price=lambda k: 1.0)
    assert by_output.operator == "Neg"
    json.dumps(by_output.to_json())
    assert by_output.node in by_output.text()
    with pytest.raises(OptionError, match="Neg"):
        story(differences(), "Nege(n)", small_rules())


def test_a_node_that_is_folded_shared_or_dropped_says_so():
    built = model(
        [
            ("Neg", ["c"], ["folded"]),
            ("Add", ["x", "folded"], ["y"]),
            ("Abs", ["x"], ["p"]),
            ("Abs", ["x"], ["q"]),
            ("Mul", ["p", "q"], ["z"]),
            ("Relu", ["x"], ["unread"]),
        ],
        [value("x", [2])],
        [value("y", [2]), value("z", [2])],
        {"c": np.array([1.0, 2.0], np.float32)},
    )
    for name, word in (("folded", "folded"), ("q", "shared"), ("unread", "dropped")):
        assert story(built, name, ()).fate.startswith(word)
    assert story(built, "p", ()).fate == "kept in the cheapest plan"


def test_the_condition_that_fails_and_the_class_that_is_not_allowed_are_named():
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "v": np.ones(4, np.float32)}
    built = model(
        [
            ("Conv", ["x", "w"], ["t"]),
            ("BatchNormalization", ["t", "v", "v", "v", "v"], ["u"]),
            ("Conv", ["x", "w2"], ["s"]),
            ("BatchNormalization", ["s", "v", "v", "v", "v"], ["z"]),
            ("Add", ["s", "z"], ["y"]),
        ],
        [value("x", [1, 4, 2, 2]), value("w2", [4, 4, 1, 1])],
        [value("u", [1, 4, 2, 2]), value("y", [1, 4, 2, 2])],
        constants,
    )
    rules = [r for r in load_rules() if r.name == "FoldBatchNormalizationIntoConv"]
    (use,) = story(built, "t", rules, price=lambda k: 10.0).uses
    assert use.state == "in the plan"
    told = story(built, "t", rules, allow=("exact",))
    barred = {r.rule: r for r in told.refusals if r.kind == "not allowed"}
    assert "rounding" in barred["FoldBatchNormalizationIntoConv"].detail
    unproved = story(built, "t", (), price=lambda k: 10.0)
    barred = {r.rule: r for r in unproved.refusals if r.kind == "not allowed"}
    assert barred["FoldBatchNormalizationIntoConv"].detail == "it is not proved"
    near = story(built, "z", rules, price=lambda k: 10.0)
    assert not [u for u in near.uses if u.rule == rules[0].name]
