"""What operators do beyond their descriptions: no rule that may reach there is proved."""

import pytest
from tensolog.rules.language.conditions import HasDefaults, conditions
from tensolog.rules.language.described_uses import limited
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.cases.composition import UndescribedError
from tensolog.rules.prover.prove import prove

DROPOUT = """
rule EliminateAnyDropout
  tags    always
  source  ["test"]
  opset   >= 12
  given   X float32, t scalar default 0{}
  match
    Y = Dropout(X, ratio?, t?)
  rewrite
    Y = X
  equal   exact
"""
NORMALIZED = """
rule EliminateIdentityAfterNormalization
  tags    always
  source  ["test"]
  opset   >= 15
  given   X [n, c] float32
  match
    N = BatchNormalization<{}>(X, s, b, m, v)
    Y = Identity(N)
  rewrite
    Y = BatchNormalization<{}>(X, s, b, m, v)
  equal   exact
"""


def rule_of(text):
    (rule,) = parse_rules(text)
    return rule


@pytest.mark.parametrize(
    "text", [DROPOUT.format(""), NORMALIZED.format("training_mode=t", "training_mode=t")]
)
def test_a_rule_for_what_is_not_described_is_no_statement(text):
    with pytest.raises(UndescribedError, match="described where"):
        statements(rule_of(text))


@pytest.mark.parametrize(
    "text",
    [
        DROPOUT.format(", t = 0"),
        NORMALIZED.format("training_mode=0", "training_mode=0"),
        NORMALIZED.format("*a", "*a"),
    ],
)
def test_a_rule_for_what_is_described_is_proved(text):
    outcomes = [prove(statement).status for statement in statements(rule_of(text))]
    assert outcomes
    assert set(outcomes) == {"proved"}


def test_the_rest_of_the_attributes_has_what_is_described():
    rule = rule_of(NORMALIZED.format("*a", "*a"))
    assert HasDefaults("N", ("training_mode",)) in conditions(rule)


@pytest.mark.parametrize(
    ("operator", "names"),
    [
        ("BatchNormalization", {"training_mode", "spatial"}),
        ("com.microsoft:MultiHeadAttention", {"unidirectional"}),
        ("MaxPool", set()),
    ],
)
def test_limited_attributes(operator, names):
    assert limited(operator, None, None) == names
