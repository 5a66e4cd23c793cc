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
    assert [one.reason for one in outcomes if one.status != "proved" and not one.vacuous] == []
    assert any(one.status == "proved" for one in outcomes)


FALSE = JUDGED["false"] + JUDGED["undecided"] + JUDGED["combined"]


@pytest.mark.parametrize("rule", FALSE, ids=lambda rule: rule.name)
def test_false_rules_are_not_proved(rule):
    try:
        cases = statements(rule)
    except IllTyped:
        return
    assert any(one.status != "proved" and not one.vacuous for one in map(prove, cases))
