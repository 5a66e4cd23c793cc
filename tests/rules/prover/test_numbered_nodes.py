"""Nodes with a number: what is proved of a symbol of them holds of any, and no more is."""

from dataclasses import replace

import pytest
from tensolog.catalog.terms.syntax_tree import Binary, Literal, Name
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.language.repetition import with_numbers
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.cases.composition import UndescribedError
from tensolog.rules.prover.prove import prove


def rule_of(match, rewrite, given="k > 0"):
    (rule,) = parse_rules(f"""rule Tried
  tags pass
  opset >= 18
  given X [k, n] float32, {given}
  match
    {match}
  rewrite
    {rewrite}
  equal rounding
""")
    return rule


SUM = "Y = ReduceSum<keepdims=1>(X, [0])"
ROW = "*P = each t < k Slice(X, [t], [t + 1], [0])\n   "
HOLDS = {
    "the sum of rows": rule_of(SUM, f"{ROW} Y = Sum(*P)"),
    "the largest row": rule_of("Y = ReduceMax<keepdims=1>(X, [0])", f"{ROW} Y = Max(*P)"),
    "the smallest row": rule_of("Y = ReduceMin<keepdims=1>(X, [0])", f"{ROW} Y = Min(*P)"),
    "all but the last, and the last": rule_of(
        SUM,
        """*P = each t < k - 1 Slice(X, [t], [t + 1], [0])
    L = Slice(X, [k - 1], [k], [0])
    Y = Sum(*P, L)""",
        given="k > 1",
    ),
    "in steps that are repeated": rule_of(
        "Y = ReduceSum<keepdims=1>(Relu(X), [0])",
        f"""{ROW}
    *Q = each t < k Relu(*P)
    Y = Sum(*Q)""",
    ),
    "what does not depend on the number": rule_of(
        "Y = Mul(X, 3.0)", "*P = each t < 3 Neg(Neg(X))\n    Y = Sum(*P)"
    ),
}
FAILS = {
    "one less": rule_of(SUM, f"{ROW} Y = Sum(*P)".replace("t < k", "t < k - 1"), given="k > 1"),
    "the first row as often": rule_of(
        SUM, f"{ROW} Y = Sum(*P)".replace("[t], [t + 1]", "[0], [1]")
    ),
    "the largest for the sum": rule_of(SUM, f"{ROW} Y = Max(*P)"),
    "parts that grow": rule_of(SUM, f"{ROW} Y = Sum(*P)".replace("[t], ", "[0], ")),
    "a factor of another number": rule_of(
        "Y = Mul(X, 3.0)", "*P = each t < 4 Neg(Neg(X))\n    Y = Sum(*P)"
    ),
}
UNTOLD = {
    "joined": rule_of("Y = Neg(Neg(X))", f"{ROW} Y = Concat<axis=0>(*P)"),
    "a mean": rule_of("Y = ReduceMean<keepdims=1>(X, [0])", f"{ROW} Y = Mean(*P)"),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_holds_of_any_number_is_proved(name):
    outcomes = [prove(case) for case in statements(HOLDS[name])]
    assert {outcome.status for outcome in outcomes} == {"proved"}, outcomes[0].reason


@pytest.mark.parametrize("name", FAILS)
def test_a_neighbour_is_not_proved(name):
    assert any(prove(case).status == "open" for case in statements(FAILS[name]))


@pytest.mark.parametrize("name", UNTOLD)
def test_what_is_made_of_them_in_another_way_is_not_told(name):
    with pytest.raises(UndescribedError, match="nodes with a number"):
        statements(UNTOLD[name])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", ["the sum of rows", "the largest row"])
def test_it_holds_of_as_many_as_are_written_out(name, count):
    """The prover says the same of the rule where each node has a name."""
    rule = HOLDS[name]
    known = Binary("=", Name("k"), Literal(count))
    written = with_numbers(rule, count)
    written = replace(written, given=(*written.given, known), hash=f"{written.hash} known")
    assert {prove(case).status for case in statements(written)} == {"proved"}


def test_a_rule_of_them_is_refuted_by_numbers():
    verdict = prove_rule(FAILS["one less"], infer=0.0)
    assert verdict.status == "refuted"
