"""Indices that are computed: an element with sizes added to it, chosen by what it is."""

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove

LOOKUP = """
rule Tried
  tags    explore
  source  ["test"]
  opset   >= 13
  given   T [n, d] float32 const, I [m] {type}
  match
    Y = Gather<axis=0>(T, {found})
  rewrite
    Y = Gather<axis=0>(T, {computed})
  equal   exact
"""
# An index below zero counts from the end: so many rows are added to it.
WRAPPED = "Where(Less(I, 0), Add(I, [n]), I)"


def outcomes(lookup_index="I", computed=WRAPPED, type="int64"):
    (rule,) = parse_rules(LOOKUP.format(found=lookup_index, computed=computed, type=type))
    return {prove(statement, 20.0).status for statement in statements(rule)}


@pytest.mark.parametrize(
    "computed",
    [
        WRAPPED,
        "Sub(Where(Less(I, 0), Add(I, [n]), I), [0])",
        # one beyond the table is made one beyond it, so that it is refused as before
        "Where(Or(Less(I, [-n]), Greater(I, [n - 1])), [n], Where(Less(I, 0), Add(I, [n]), I))",
    ],
)
def test_what_is_added_to_an_index_is_counted(computed):
    assert outcomes(computed=computed) == {"proved"}


@pytest.mark.parametrize(
    "computed",
    [
        "Where(Less(I, 0), Add(I, [n - 1]), I)",  # the row above
        "Where(Less(I, 1), Add(I, [n]), I)",  # the first row is read as one beyond the last
        "Where(Less(I, 0), I, Add(I, [n]))",  # the wrong ones
        "Add(I, [n])",  # all of them
        "Where(Less(I, 0), Mul(I, [n]), I)",  # a product is none of these sums
    ],
)
def test_another_sum_is_not_proved(computed):
    assert outcomes(computed=computed) == {"open"}


def test_a_type_that_does_not_hold_all_sizes_is_not_proved():
    wrapped = "Where(Less(I, Cast<to=6>([0])), Add(I, Cast<to=6>([n])), I)"
    assert outcomes(computed=wrapped, type="int32") == {"open"}


def test_what_the_left_side_computes_shows_nothing_of_itself():
    """Added modulo a power of two, the largest integer and 1 are the least, which is in no table;
    that the sum is an index says nothing of the sum of integers."""
    wrapped = "Where(Less(Add(I, [1]), 0), Add(I, [n + 1]), Add(I, [1]))"
    assert outcomes(lookup_index="Add(I, [1])", computed=wrapped) == {"open"}
