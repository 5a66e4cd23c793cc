"""Partial equivalences: equal outside of a region, and whole again by a correction."""

from __future__ import annotations

import pytest
from tensolog.rules.language.errors import RuleError
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove

from ..partial_rule import SPLIT_CONV as TEXT


def outcomes(text):
    (rule,) = parse_rules(text)
    return [prove(statement).status for statement in statements(rule)]


def test_outside_of_the_region_and_after_the_correction_both_sides_are_equal():
    assert outcomes(TEXT) == ["proved", "proved"]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("i2 = 3 or i2 = 4", "i2 = 3", ["open", "proved"]),
        ("i2 = 3 or i2 = 4", "i2 = 2 or i2 = 3", ["open", "proved"]),
        ("i2 = 3 or i2 = 4", "i3 = 3 or i3 = 4", ["open", "proved"]),
        ("i2 = 3 or i2 = 4", "2 < i2 and i2 < 5", ["proved", "proved"]),
        ("[2], [6], [2]", "[1], [5], [2]", ["proved", "open"]),
        ("[5], [h]", "[4], [h]", ["proved", "open"]),
        ("h > 6", "h > 3", ["proved", "open"]),
    ],
)
def test_another_region_or_correction_is_not_proved(old, new, wanted):
    assert outcomes(TEXT.replace(old, new)) == wanted


def test_the_text_is_printed_as_it_is_read():
    (rule,) = parse_rules(TEXT)
    (again,) = parse_rules(rule.text)
    assert again.hash == rule.hash and again.text == rule.text
    (other,) = parse_rules(TEXT.replace("[2], [6]", "[1], [5]"))
    assert other.hash != rule.hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("i2 = 3 or i2 = 4", "row = 3", "nothing gives row a value"),
        ("partial except i2 = 3 or i2 = 4", "rounding", "`correct` without a region"),
        ("    Y = Concat<axis=2>(Slice(Y,", "    Z = Concat<axis=2>(Slice(Y,", "doesn't make"),
        ("Slice(Y, [0]", "Slice(Q, [0]", "Q is unknown"),
        ("    F = Conv<pads=[0, 1, 0, 1]>(Slice(X, [2], [6], [2]), W)", "    F = X", "operator"),
    ],
)
def test_what_can_mean_nothing_is_refused(old, new, message):
    with pytest.raises(RuleError, match=message):
        parse_rules(TEXT.replace(old, new))
