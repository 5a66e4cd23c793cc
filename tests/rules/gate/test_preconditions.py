"""Conditions under which a false rule is true: inferred, and proved."""

from __future__ import annotations

import pytest
from tensolog.rules import parse_rules
from tensolog.rules.gate.inference.condition_candidates import candidates, with_conditions
from tensolog.rules.gate.inference.preconditions import infer_conditions
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.statement import Outcome

from tests.campaigns import search_s

from .test_counterexample import FALSE, rule_of

SECONDS = 60.0
RULES = {
    "MergeGroupedConvs": (FALSE["MergeGroupedConvs"], {("g = 1",)}),
    "FuseGemmOfAnything": (FALSE["FuseGemmOfAnything"], {("fits(c, P)",), ("fits(c, Y)",)}),
    "EliminateQuotient": (FALSE["EliminateQuotient"], {("c != 0",)}),
    "MergeConvsOfTwoKernels": (
        """
rule MergeConvsOfTwoKernels
  tags explore
  given X [n, c, h] float, W1 [m, c, k1], W2 [m, c, k2]
  match
    Y1 = Conv(X, W1)
    Y2 = Conv(X, W2)
    Y = Add(Y1, Y2)
  rewrite
    W = Add(W1, W2)
    Y = Conv(X, W)
  equal rounding
""",
        {("k1 = k2",), ("shape(Y1) = shape(Y2)",)},
    ),
}


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_missing_condition_is_found_and_proves_the_rule(name):
    text, expected = RULES[name]
    rule = rule_of(text)
    conditions = infer_conditions(rule, SECONDS)
    assert conditions in expected
    changed = with_conditions(rule, conditions)
    assert all(prove(statement).status == "proved" for statement in statements(changed))


def test_a_true_rule_needs_no_condition():
    text = FALSE["MergeGroupedConvs"].replace("group=g", "group=1")
    assert infer_conditions(rule_of(text), SECONDS) == ()


def test_nothing_is_inferred_that_is_not_proved():
    def undecided(statement, timeout):
        return Outcome("open", "not today")

    limit_s = search_s(5.0)
    assert infer_conditions(rule_of(FALSE["EliminateQuotient"]), limit_s, undecided) is None


def test_no_condition_is_returned_that_excludes_everything():
    """Only where h is 40 is the slice the whole; a rule of h >= 40 and h < 40 says nothing."""
    rule = rule_of(FALSE["EliminateLongSlice"])
    conditions = infer_conditions(rule, SECONDS)
    assert conditions is not None
    changed = with_conditions(rule, conditions)
    assert statements(changed)


def test_candidates_are_texts_of_the_language():
    for text, _ in RULES.values():
        rule = rule_of(text)
        conditions = candidates(rule)
        assert len({condition.text for condition in conditions}) == len(conditions)
        parsed = [with_conditions(rule, [condition.text]) for condition in conditions]
        assert all(changed is None or changed.hash != rule.hash for changed in parsed)
        assert sum(changed is not None for changed in parsed) >= len(conditions) - 2


def test_conditions_join_those_that_a_rule_has():
    (rule,) = parse_rules(FALSE["EliminateQuotient"])
    changed = with_conditions(rule, ["c != 0", "size(A) > 0"])
    assert changed is not None
    assert len(changed.given) == len(rule.given) + 2
    assert with_conditions(rule, ["nothing > 0"]) is None
