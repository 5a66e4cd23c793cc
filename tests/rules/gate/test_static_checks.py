"""What shows in the text of a rule alone: each case breaks one thing of a rule that is sound."""

import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.static_checks import form_problems, impossible, misshapen, static_problem

SOUND = """\
# MergeTransposes makes one of two.
rule MergeTransposes
  tags    always
  source  ["composition"]
  given   X [m, n, k] float32|float64
  match
    Y = Transpose<perm=[1, 0, 2]>(X)
    Z = Transpose<perm=[0, 2, 1]>(Y)
  rewrite
    Z = Transpose<perm=[1, 2, 0]>(X)
  equal   exact
"""


def rule_of(text):
    (rule,) = parse_rules(text)
    return rule


def test_nothing_is_said_against_a_sound_rule():
    rule = rule_of(SOUND)
    assert static_problem(rule) == ""
    assert form_problems(rule) == ()


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.name)
def test_nothing_is_said_against_shipped_rules(rule):
    assert static_problem(rule) == ""
    assert form_problems(rule) == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Z = Transpose<perm=[1, 2, 0]>(X)", "Z = Transpose<perm=[2, 1, 0]>(X)", "on the right"),
        ("Z = Transpose<perm=[1, 2, 0]>(X)", "Z = Flatten(X)", "on the right"),
        (
            "Z = Transpose<perm=[1, 2, 0]>(X)",
            "T = Transpose<perm=[1, 2, 0]>(X)\n    Z = Cast<to=6>(T)",
            "int32 on the right",
        ),
        (
            "Z = Transpose<perm=[1, 2, 0]>(X)",
            "V = Transpose<perm=[1, 0, 2]>(X)\n    Z = Transpose<perm=[0, 2, 1]>(V)",
            "same program",
        ),
        ("float64\n", "float64,\n          2 > 3\n", "2 > 3 never holds"),
        ("float64\n", "float64,\n          m > 3,\n          m < 3\n", "can't hold together"),
        ("float64\n", "float64,\n          m = 3,\n          m > 3\n", "can't hold together"),
        ("float64\n", "float64,\n          m = n,\n          m != n\n", "can't hold together"),
        ("float64\n", "float64,\n          m = n and not m = n\n", "can't hold together"),
        ("float64\n", "float64,\n          m > 2,\n          m < 3\n", "m > 2 and m < 3 can't"),
        ("float64\n", "float64,\n          m > n,\n          n > m\n", "can't hold together"),
        ("float64\n", "float64,\n          2 * m = 2 * n + 1\n", "never holds"),
        ("float64\n", "float64,\n          m * n < 0\n", "m * n < 0 never holds"),
        ("float64\n", "float64,\n          rank(X) > 3 or rank(X) < 3\n", "never holds"),
        ("float64\n", "float64,\n          rank(Z) > 1,\n          rank(Z) < 2\n", "rank(Z)"),
    ],
)
def test_what_can_be_seen_is_said(old, new, reason):
    assert old in SOUND
    assert reason in static_problem(rule_of(SOUND.replace(old, new)))


@pytest.mark.parametrize(
    "conditions",
    [
        "m > 3,\n          m < 5",
        "m >= 3,\n          m <= 3",
        "m * n > 2,\n          m * n < 4",
        "rank(X) = 3,\n          m + n > k",
        "size(X) > 2 or m < 0",
        'dtype(X) = "float32"',
    ],
)
def test_bounds_with_room_between_them_are_possible(conditions):
    text = SOUND.replace("float64\n", f"float64,\n          {conditions}\n")
    assert impossible(rule_of(text)) == ""


def test_sizes_show_where_shapes_differ():
    text = SOUND.replace("perm=[1, 2, 0]", "perm=[1, 0, 2]")
    said = misshapen(rule_of(text))
    assert "Z is [" in said and "for X [" in said


@pytest.mark.parametrize(
    ("old", "new", "missed"),
    [
        ('  source  ["composition"]\n', "", "source"),
        ("# MergeTransposes makes one of two.\n", "", "comment"),
        ("MergeTransposes", "TwoTransposes", "verb"),
    ],
)
def test_form_is_noted(old, new, missed):
    (problem,) = form_problems(rule_of(SOUND.replace(old, new)))
    assert missed in problem
