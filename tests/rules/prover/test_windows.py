"""Laws of nested windows are proved, and those beside them, whose names say so, are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.language.syntax import Rule
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.functions.extrema import extreme_of
from tensolog.rules.prover.normal.context import Context
from tensolog.rules.prover.normal.definedness import Path as Where
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.solve.smt import Solver

FILE = Path(__file__).parent / "windows.rules"
RULES = parse_rules(FILE.read_text(), str(FILE))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_laws_of_windows(rule: Rule) -> None:
    outcomes = [prove(statement, 20.0) for statement in statements(rule)]
    failed = [
        outcome.reason for outcome in outcomes if outcome.status != "proved" and not outcome.vacuous
    ]
    assert bool(failed) == rule.name.startswith("False"), failed


def test_the_largest_of_nothing_has_no_value() -> None:
    path = Where()
    assert extreme_of("max", [], Context(Solver(), frozenset()), path) == []
    (asked,) = path.conditions
    assert asked.describe() == "()"  # a disjunction of nothing, which is false
