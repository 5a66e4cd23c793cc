"""Rules whose verdict is known: every true one is proved, and no false one."""

from pathlib import Path

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.prove import prove

JUDGED = {
    kind: parse_rules((Path(__file__).parent / "judged" / f"{kind}.rules").read_text("utf-8"))
    for kind in ("true", "false", "undecided", "combined")
}


@pytest.mark.parametrize("rule", JUDGED["true"], ids=lambda rule: rule.name)
def test_true_rules_are_proved(rule):
    outcomes = [prove(statement) for statement in statements(rule)]
    assert [
        outcome.reason for outcome in outcomes if outcome.status != "proved" and not outcome.vacuous
    ] == []
    assert any(outcome.status == "proved" for outcome in outcomes)


FALSE = JUDGED["false"] + JUDGED["undecided"] + JUDGED["combined"]


@pytest.mark.parametrize("rule", FALSE, ids=lambda rule: rule.name)
def test_false_rules_are_not_proved(rule):
    try:
        cases = statements(rule)
    except IllTyped:
        return
    assert any(outcome.status != "proved" and not outcome.vacuous for outcome in map(prove, cases))
