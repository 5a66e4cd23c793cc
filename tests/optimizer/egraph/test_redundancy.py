"""What follows from other rules, at several draws of sizes."""

import pytest
from tensolog.optimizer.egraph.equalities import derives
from tensolog.optimizer.egraph.redundancy import redundancy
from tensolog.rules import load_rules, parse_rules

ONE, TWO, OTHER = parse_rules("""
# MergeRelus takes one of two.
rule MergeRelus
  tags explore
  source [generated]
  match
    R = Relu(Relu(X))
  rewrite
    R = Relu(X)
  equal exact

# MergeThreeRelus takes one of three.
rule MergeThreeRelus
  tags explore
  source [generated]
  match
    R = Relu(Relu(Relu(X)))
  rewrite
    R = Relu(X)
  equal exact

# EliminateNegOfNeg takes none of two.
rule EliminateNegOfNeg
  tags explore
  source [generated]
  match
    R = Neg(Neg(X))
  rewrite
    R = X
  equal exact
""")


def test_a_rule_is_derived_by_those_it_needs_alone():
    verdict = redundancy(TWO, [OTHER, ONE])
    assert (verdict.status, verdict.derived_by) == ("derived", ("MergeRelus",))


@pytest.mark.parametrize(
    ("rule", "others", "derived"),
    [(TWO, [OTHER, ONE], True), (ONE, [TWO], False), (ONE, [], False)],
)
def test_generation_drops_what_others_derive(rule, others, derived):
    assert derives(rule, others) == derived


@pytest.mark.parametrize(
    ("rule", "others"), [(ONE, [TWO]), (ONE, [OTHER]), (ONE, []), (ONE, [ONE])]
)
def test_a_rule_that_others_do_not_lead_to_is_new(rule, others):
    assert redundancy(rule, others).status == "new"


def test_what_a_rule_says_of_lists_does_not_follow_from_lists_of_one():
    """Concat and Split of one part do nothing: of several parts that says nothing."""
    shipped = {rule.name: rule for rule in load_rules()}
    others = [shipped[name] for name in ("EliminateConcatOfOne", "EliminateSplitOfOne")]
    assert redundancy(shipped["EliminateSplitOfConcat"], others).status == "new"
    assert not derives(shipped["EliminateSplitOfConcat"], others)


MERGED, ONCE = parse_rules("""
# MergeRelusOfConcat takes the parts of one Concat.
rule MergeRelusOfConcat
  tags explore
  source [generated]
  opset >= 13
  match
    R = Concat<axis=a>(Relu(X), Relu(Y))
  rewrite
    R = Relu(Concat<axis=a>(X, Y))
  equal exact

# MergeReluOfConcat says it of equal parts.
rule MergeReluOfConcat
  tags explore
  source [generated]
  opset >= 13
  match
    T = Relu(X)
    R = Concat<axis=a>(T, T)
  rewrite
    R = Relu(Concat<axis=a>(X, X))
  equal exact
""")


def test_a_law_for_any_operands_derives_it_for_equal_ones():
    """Two nodes of its left side are one e-node then."""
    verdict = redundancy(ONCE, [MERGED])
    assert (verdict.status, verdict.derived_by) == ("derived", ("MergeRelusOfConcat",))
    assert redundancy(MERGED, [ONCE]).status == "new"
