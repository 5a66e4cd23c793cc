"""From the ranks that were proved to all ranks."""

from __future__ import annotations

import pytest
from tensolog.rules import load_rules
from tensolog.rules.parser import parse_rules
from tensolog.rules.prover.cases import statements
from tensolog.rules.prover.ranks import lift
from tensolog.rules.prover.statement import Outcome

RULES = {rule.name: rule for rule in load_rules()}


def lifted(rule, widest=2):
    found = statements(rule)
    return lift(found, [Outcome("proved", widest=widest)] * len(found))


@pytest.mark.parametrize(
    "name",
    [
        "MergeMatMulsSharingLeft",
        "EliminateAddZero",
        "ConvertReciprocalToDiv",
        "JoinTransposes",
        "MergeConvsSharingInput",
        "FuseLayerNormalization",
        "ConvertEinsumToReduceSum",
    ],
)
def test_point_by_point_and_separable_rules_hold_at_all_ranks(name):
    assert lifted(RULES[name]) == "all"


def test_more_terms_than_axes_leave_separation_undecided():
    assert lifted(RULES["MergeConvsSharingInput"], widest=9) != "all"


def test_what_mixes_axes_holds_for_the_ranks_that_were_proved():
    assert "X" in lifted(RULES["JoinReshapes"])


def test_a_case_whose_slice_was_not_looked_at_is_not_lifted():
    (rule,) = parse_rules(
        "rule EliminateIt\n tags always\n match\n Y = Add(X, 0)\n rewrite\n Y = X\n equal rounding",
        "t",
    )
    found = [s for s in statements(rule) if s.free["X"] != 2]
    assert lift(found, [Outcome("proved", widest=9)] * len(found)) == "X 0 to 3"
