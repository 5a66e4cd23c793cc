"""What is said of one node: alternatives and their price, rules that match, nearly, or may not."""

import json

import numpy as np
import pytest
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import Costs
from tensolog.optimizer.egraph.saturation.saturate import saturate
from tensolog.optimizer.explain.node_options import Asker, steps_not_in_plan
from tensolog.optimizer.explain.node_story import Question, about, answer
from tensolog.optimizer.setting import OptionError, Setting
from tensolog.rules import load_rules

from tests.optimizer.builders import model, value
from tests.optimizer.egraph.pricing import Prices, graph_of
from tests.optimizer.egraph.small_rules import small_rules


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
    return answer, steps_not_in_plan(egraph, growth, costs)


def test_the_way_not_taken_costs_what_the_plan_would_take_more():
    """Neg of what is there costs 3, a second Sub 10: the latter is 7 dearer."""
    options, left = asked("Neg", {"Neg": 3.0, "Sub": 10.0, "Abs": 1.0})
    assert options.plan_ns == options.own_ns == 14.0
    assert [(w.operator, w.rule, w.more_ns, w.is_chosen) for w in options.ways] == [
        ("Neg", "", 0.0, True),
        ("Sub", "PushNegationThroughSub", 7.0, False),
    ]
    assert [(u.rule, u.outcome, u.more_ns) for u in options.matches] == [
        ("PushNegationThroughSub", "costs more", 7.0)
    ]
    assert [(s.rule, s.accepted, s.cost_after_ns - s.cost_before_ns) for s in left] == [
        ("PushNegationThroughSub", False, 7.0)
    ]
    assert left[0].reason.startswith("higher cost: ")


def test_what_is_taken_is_in_the_plan_and_the_own_node_costs_more():
    options, left = asked("Neg", {"Neg": 30.0, "Sub": 10.0, "Abs": 1.0})
    assert (options.own_ns, options.plan_ns) == (41.0, 21.0)
    assert [(w.operator, w.more_ns, w.is_chosen) for w in options.ways] == [
        ("Sub", 0.0, True),
        ("Neg", 20.0, False),
    ]
    assert [use.outcome for use in options.matches] == ["in the plan"]
    assert not left


def story(built, node, rules, allow=("exact", "rounding"), price=None):
    setting = Setting(allow=allow)
    prices = Prices(price=price)
    return answer(graph_of(built), node, Question(setting, tuple(rules), {}), prices)


def test_a_node_is_found_by_the_name_of_what_it_gives_and_a_wrong_one_is_refused():
    by_output = story(differences(), "n", small_rules(), price=lambda k: 1.0)
    assert by_output.operator == "Neg"
    said = json.loads(json.dumps(by_output.to_json()))
    assert set(said) == {
        *("node", "operator", "cost_ns", "source", "fate", "plan_ns", "own_ns", "steps", "ways"),
        *("uses", "refusals", "layouts", "beside", "refusal", "refusing_clause", "growth"),
    }
    assert {tuple(use) for use in said["uses"]} == {("rule", "nodes", "state", "detail", "more_ns")}
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
    (use,) = story(built, "t", rules, price=lambda k: 10.0).matches
    assert use.outcome == "in the plan"
    node_story = story(built, "t", rules, allow=("exact",))
    barred = {r.rule: r for r in node_story.refusals if r.outcome == "not allowed"}
    assert "rounding" in barred["FoldBatchNormalizationIntoConv"].detail
    unproved = story(built, "t", (), price=lambda k: 10.0)
    barred = {r.rule: r for r in unproved.refusals if r.outcome == "not allowed"}
    assert barred["FoldBatchNormalizationIntoConv"].detail == "it is not proved"
    near = story(built, "z", rules, price=lambda k: 10.0)
    assert not [u for u in near.matches if u.rule == rules[0].name]


def branches():
    """Two products that share their left factor, and are added up."""
    nodes = [
        ("MatMul", ["x", "v"], ["p"]),
        ("MatMul", ["x", "w"], ["q"]),
        ("Relu", ["p"], ["r"]),
        ("Tanh", ["q"], ["t"]),
        ("Add", ["r", "t"], ["y"]),
    ]
    constants = {name: np.full((4, 4), ord(name), np.float32) for name in "vw"}
    return model(nodes, [value("x", [2, 4])], [value("y", [2, 4])], constants)


@pytest.mark.parametrize(
    ("products", "state", "fate"),
    [(100.0, "in the plan", "replaced"), (1.0, "costs more", "kept")],
    ids=["dear", "cheap"],
)
def test_rules_of_several_outputs_are_told(products, state, fate):
    """A product costs the same however wide, taking it apart costs 10."""
    rules = [rule for rule in load_rules() if rule.name == "MergeMatMulsSharingLeft"]
    prices = {"MatMul": products, "Split": 10.0, "Add": 1.0, "Relu": 1.0, "Tanh": 1.0}
    node_story = story(branches(), "p", rules, price=lambda kernel: prices.get(kernel.op_type, 0.0))
    (use,) = (use for use in node_story.matches if use.rule == rules[0].name)
    assert use.outcome == state or (state == "costs more" and use.outcome == "without use")
    assert node_story.fate.startswith(fate)
    assert node_story.plan_ns == min(2 * products, products + 10.0) + 3.0


def test_of_every_rule_about_an_operator_something_is_said():
    rules = load_rules()
    node_story = story(branches(), "p", rules, price=lambda kernel: 1.0)
    setting = Setting()
    about_it = [rule for rule in rules if any("MatMul" in node.operators for node in rule.match)]
    said = {use.rule for use in node_story.matches} | {
        refusal.rule for refusal in node_story.refusals
    }
    assert said >= {rule.name for rule in about_it if not setting.bar(rule, 17)}
    lacking = {r.rule: r.detail for r in node_story.refusals if r.outcome == "pattern"}
    assert "no Transpose" in lacking["PushTransposeThroughMatMul"]


@pytest.mark.parametrize(
    ("rule", "detail"),
    [
        ("MergeMatMulsSharingRight", "no MatMul reads v"),
        ("FoldBatchNormalizationIntoConv", "it is about Conv, BatchNormalization; this is MatMul"),
    ],
)
def test_of_one_rule_it_is_told_why_it_is_not_at_a_node(rule, detail):
    (asked_for,) = (known for known in load_rules() if known.name == rule)
    node_story = about(story(branches(), "p", load_rules(), price=lambda kernel: 1.0), asked_for)
    assert {refusal.rule for refusal in node_story.refusals} == {rule} and not node_story.matches
    assert detail in node_story.refusals[0].detail and detail in node_story.text()
