"""Any number of nodes: seen to follow of rules where it does, and of no neighbour of theirs."""

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.ranks.induction import lift
from tensolog.rules.prover.ranks.repeated_nodes import any_number_of_nodes


def rule_of(text):
    (rule,) = parse_rules(f"rule Tried\n  tags pass\n{text}\n  equal rounding\n  finite_math\n")
    return rule


def joined(join, each, given="X [_, n] float32", **said):
    """A rule that does to operands joined what it does to each; `said` changes one of its words."""
    words = {"axis": 0, "split": 0, "sizes": ", sizes(X, 0)", "once": each, **said}
    return rule_of(f"""
  opset 13..17
  given {given}
  match
    *Y = each {each.format("*X")}
  rewrite
    R = Concat<axis={words["axis"]}>({join})
    P = {words["once"].format("R")}
    *Y = Split<axis={words["split"]}>(P{words["sizes"]})""")


def joined_pairs(given, second="*Z", axis=0, operands="R, S"):
    """A rule that does to two lists joined what it does to each pair of their items."""
    return rule_of(f"""
  opset >= 13
  given {given}
  match
    *Y = each Add(*X, *Z)
  rewrite
    R = Concat<axis=0>(*X)
    S = Concat<axis={axis}>({second})
    P = Add({operands})
    *Y = Split<axis=0>(P, sizes(X, 0))""")


HOLDS = {
    "pairs of one size": joined_pairs("X [m, n] float32, Z [m, n]"),
    "pairs of which one is broadcast": joined_pairs("X [m, n] float32, Z [m, 1]"),
    "a literal": joined("*X", "Mul({}, 2.0)"),
    "an activation": joined("*X", "Relu({})"),
    "something for each column": joined("*X", "Add({}, C)", "X [_, n] float32, C [1, n]"),
    "rows of a product": joined("*X", "MatMul({}, W)", "X [_, k] float32, W [k, n] const"),
    "equal parts, told no sizes": joined("*X", "Relu({})", "X [m, n] float32", sizes=""),
    "what is normalized by rows": joined("*X", "Softmax<axis=1>({})"),
}
FAILS = {
    "pairs of which one has a row for all": joined_pairs("X [m, n] float32, Z [1, n]"),
    "pairs of sizes of their own": joined_pairs("X [_, n] float32, Z [_, n]"),
    "pairs joined along two axes": joined_pairs("X [m, n] float32, Z [m, n]", axis=1),
    "one list joined twice": joined_pairs("X [m, n] float32, Z [m, n]", second="*X"),
    "pairs the other way round": joined_pairs("X [m, n] float32, Z [m, n]", operands="S, R"),
    "another literal": joined("*X", "Mul({}, 2.0)", once="Mul({}, 3.0)"),
    "what is normalized along the axis": joined("*X", "Softmax<axis=0>({})"),
    "something for each row": joined("*X", "Add({}, C)", "X [_, n] float32, C [m, n]"),
    "something of which no shape is said": joined("*X", "Add({}, C)", "X [_, n] float32, C"),
    "parts of any size, told none": joined("*X", "Relu({})", sizes=""),
    "sizes of another axis": joined("*X", "Relu({})", sizes=", sizes(X, 1)"),
    "another axis": joined("*X", "Relu({})", split=1),
    "another operator": joined("*X", "Relu({})", once="Abs({})"),
    "another attribute": joined("*X", "Elu<alpha=1.0>({})", once="Elu<alpha=2.0>({})"),
    "something read backwards": joined(
        "*X",
        "Slice({}, [-1], [-9], [0], [-1])",
        "X [m, n] float32, m < 9",
        sizes="",
    ),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_acts_point_by_point_is_proved_for_any_number(name):
    rule = HOLDS[name]
    cases = statements(rule)
    outcomes = [prove(case) for case in cases]
    assert {outcome.status for outcome in outcomes} == {"proved"}
    assert lift(rule, cases, outcomes).ranks == "all"


@pytest.mark.parametrize("name", FAILS)
def test_nothing_follows_of_a_neighbour(name):
    rule = FAILS[name]
    assert not any_number_of_nodes(rule, statements(rule))


@pytest.mark.parametrize(("axis", "follows"), [("i", True), ("0", False)])
def test_what_is_joined_is_joined_along_the_same_axis(axis, follows):
    rule = rule_of(f"""
  match
    X = Concat<axis=i>(*A)
    Y = Relu(X)
  rewrite
    *B = each Relu(*A)
    Y  = Concat<axis={axis}>(*B)""")
    assert any_number_of_nodes(rule, statements(rule)) is follows
