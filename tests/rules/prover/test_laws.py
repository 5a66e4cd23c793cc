"""Laws of order, of sign, of groups, and false ones beside them: a hypothesis less, a sign more.

The two text files hold a name, what is given, and the two sides, four lines to a law.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.language.syntax import Rule
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove

_RULE = """
# Rule is as it says.
rule Rule
  tags    explore
  source  ["algebra"]
  opset   >= 13
  {given}
  match
    Y = {left}
  rewrite
    Y = {right}
  equal   rounding
"""


def _laws(kind: str) -> dict[str, Rule]:
    lines = (Path(__file__).parent / f"laws_{kind}.txt").read_text("utf-8").splitlines()
    laws = {}
    for start in range(0, len(lines), 4):
        name, given, left, right = (line.strip() for line in lines[start : start + 4])
        text = _RULE.format(given=given, left=left, right=right)
        (laws[name],) = parse_rules(text, name)
    return laws


HOLDS, FAILS = _laws("hold"), _laws("fail")


@pytest.mark.parametrize("name", HOLDS)
def test_a_law_is_proved(name: str) -> None:
    cases = statements(HOLDS[name])
    assert cases
    for case in cases:
        outcome = prove(case, 20.0)
        assert outcome.status == "proved", (case.title, outcome.reason)


@pytest.mark.parametrize("name", FAILS)
def test_a_false_neighbour_stays_open(name: str) -> None:
    outcomes = (prove(case, 20.0) for case in statements(FAILS[name]))
    assert any(outcome.status == "open" for outcome in outcomes)
