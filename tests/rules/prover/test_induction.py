"""From the ranks and lengths that were proved to all, and what must not be lifted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tensolog.catalog.operators.parser import parse as parse_specification
from tensolog.rules import load_rules
from tensolog.rules.gate.counterexample.search import find_first
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import _statements, statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.ranks import operand_lists
from tensolog.rules.prover.ranks.cutoffs import cutoffs
from tensolog.rules.prover.ranks.data_movement import moves_alike
from tensolog.rules.prover.ranks.induction import lift
from tensolog.rules.prover.ranks.operand_lists import alike_everywhere, block_alike
from tensolog.rules.prover.statement import Outcome

RULES = {rule.name: rule for rule in load_rules()}
JUDGED = Path(__file__).parents[1] / "gate" / "judged" / "ranks.rules"
SMALL = parse_rules(JUDGED.read_text(), "ranks.rules")
# Permutations of five axes are too many to write out, and so are three added axes and four axes in
# any order; of more parts than two only those of higher ranks are.
_BEYOND = {
    "CountParts",
    "KeepLastPlaces",
    "PowerThroughSoftmax",
    "ReduceFirstFour",
    "SqueezeTwo",
    "UndoSwapOfTwo",
}


def rule_of(text):
    (rule,) = parse_rules(f"rule EliminateIt\n  tags always\n{text}\n  equal rounding\n", "t")
    return rule


@cache
def statements_of(rule):
    """Its statements, which don't depend on what becomes of them; those of lists are hundreds."""
    return statements(rule)


def lifted(rule, widest=2):
    case_statements = statements_of(rule)
    return lift(
        rule, case_statements, [Outcome("proved", widest=widest)] * len(case_statements)
    ).ranks


def proved(text):
    """What is said of a rule whose cases are all proved indeed."""
    rule = rule_of(text)
    case_statements = statements(rule)
    outcomes = [prove(statement) for statement in case_statements]
    assert {outcome.status for outcome in outcomes if not outcome.reason.startswith("vacuous")} == {
        "proved"
    }
    return lift(rule, case_statements, outcomes)


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
        "FuseReduceMean",
    ],
)
def test_point_by_point_and_separable_rules_hold_at_all_ranks(name):
    assert lifted(RULES[name]) == "all"


@pytest.mark.parametrize(
    "name",
    [
        "EliminateSplitOfOne",
        "FoldInputScaleIntoGemm",
        "FoldPadIntoAveragePool",
        "FoldScaleIntoGemm",
        "FoldUnsqueezeIntoReduce",
        "JoinPads",
        "MergeAddedConvsOfKernels",
        "MergeTransposesOfBatchesIntoMatMul",
        "PushTransposeThroughPad",
        "PushTransposeThroughSlice",
    ],
)
def test_pads_slices_and_what_is_listed_hold_at_all_ranks(name):
    assert lifted(RULES[name]) == "all"


def test_more_terms_than_axes_leave_separation_undecided():
    assert lifted(RULES["MergeConvsSharingInput"], widest=9) != "all"


def test_a_case_whose_slice_was_not_looked_at_is_not_lifted():
    rule = rule_of("match\n Y = Add(Add(X, X), Add(X, X))\n rewrite\n Y = Mul(X, 4)")
    case_statements = [s for s in statements(rule) if s.free["rank(X)"].length != 2]
    only = lift(rule, case_statements, [Outcome("proved", widest=9)] * len(case_statements))
    assert only.ranks == "ranks 0 to 1 or 3 of X"
    (within,) = only.within
    assert within.holds([3]) and not within.holds([2]) and not within.holds([4])


# Rules that hold up to rank 3 or 4, or three operands, and are false beyond.
FALSE_BEYOND = {
    "an axis more": """
  given X float32, a const, ints(a) = range(rank(X))
  opset >= 13
  match
    Y = ReduceSum<keepdims=1>(X, a)
  rewrite
    Y = ReduceSum<keepdims=1>(X, take(range(rank(X)), 3))""",
    "a rank that is told apart": """
  given X float32, rank(X) <= 3 or rank(X) = 5
  match
    Y = Relu(Relu(X))
    Z = Add(Y, 1)
  rewrite
    Z = Add(Relu(X), 6 - max(rank(X), 5))""",
    "a place of a permutation": """
  given X float32
  match
    Y = Transpose<perm=p>(Relu(X))
  rewrite
    Y = Relu(Transpose<perm=take(p, 4) ++ range(4, rank(X))>(X))""",
    "a length in a number": """
  given X [*s] float32, Z [*s]
  match
    Y = Add(X, Z)
  rewrite
    Y = Add(X, Mul(Z, 4 - max(len(s), 3)))""",
    "an operand more": """
  opset >= 13
  match
    Y = Concat<axis=0>(*A)
  rewrite
    Z = Concat<axis=0>(*A)
    Y = Slice(Z, [0], [sum(take(sizes(A, 0), 3))], [0], [1])""",
    "a part more": """
  opset >= 13
  given s const, A shared
  match
    *A = Split<axis=i>(X, s)
    Y = Concat<axis=i>(*A)
  rewrite
    Y = Slice(X, [0], [sum(take(ints(s), 3))], [axis(i, X)], [1])""",
    "an axis more of an Unsqueeze": """
  opset >= 13
  given a const
  match
    Y = Unsqueeze(Relu(X), a)
  rewrite
    Y = Relu(Unsqueeze(X, take(ints(a), 2)))""",
}


def test_permutations_of_more_axes_are_not_made_of_those_of_fewer():
    """Six times a permutation of three axes moves nothing, and of four axes it may."""
    value = "X"
    for _ in range(6):
        value = f"Transpose<perm=p>({value})"
    rule = rule_of(f"given X [*s] float32\n match\n Y = {value}\n rewrite\n Y = X")
    case_statements = [
        replace(statement, free={"len(s)": replace(statement.free["len(s)"], most=3)})
        for statement in statements(rule)
        if statement.free["len(s)"].length < 4
    ]
    assert {prove(statement).status for statement in case_statements} == {"proved"}
    assert lift(rule, case_statements, [Outcome("proved", widest=2)] * len(case_statements)).within


@pytest.mark.parametrize("text", FALSE_BEYOND.values(), ids=FALSE_BEYOND)
def test_what_is_false_at_higher_ranks_is_bounded_to_those_proved(text):
    lifted_ranks = proved(text)
    assert lifted_ranks.within
    numbers = [5] * len(lifted_ranks.within[0].names)
    assert not all(bound.holds(numbers[: len(bound.names)]) for bound in lifted_ranks.within)


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("rank(X) < 4", 4),
        ("rank(X) + 1 < 4", 5),
        ("2 * rank(X) = 4", 4),
        ("rank(X) % 2 = 1", float("inf")),
        ("dim(X, 0) > 8", 1),
        ("dim(X, -3) > 8", 3),
        ("dim(X, 1) = dim(X, -2)", 4),
        ("size(X) > 100", 0),
        ("dtype(X) in [\"float32\", \"float64\"]", 0),
        ("shape(X) = [1, 1, 7]", 3),
        ("rank(X) = 2 or rank(X) > 6", 6),
        ("take(shape(X), 2) = [1, 1]", 2),
    ],
)  # fmt: skip
def test_numbers_reach_as_far_as_they_tell_entries_apart(said, whole):
    assert (
        cutoffs(rule_of(f"given {said}\n match\n Y = Add(X, 0)\n rewrite\n Y = X")).whole == whole
    )


# ----------------------------------------------------------------------------------- lists


@pytest.mark.parametrize(
    "name",
    ["JoinConcats", "JoinSplits", "EliminateSplitOfConcat", "EliminateConcatOfSplit"],
)
def test_neighbours_in_a_list_may_be_joined(name):
    assert lifted(RULES[name]) == "all"


CONCAT = """op Concat (X.. [*p:axis, n.., *q]) -> Y [*p, total(n), *q]
  attribute axis int
  value Y[*i, j, *l] = pick(t in range(length(n)), let start = total(n[:t]), if j < start + n[t]) {}
"""


@pytest.mark.parametrize(
    ("element", "alike"),
    [
        ("X[t][*i, j - start, *l]", True),
        ("X[0][*i, j - start, *l]", False),
        ("X[t][*i, j - start, *l] * (t + 1)", False),
        ("(if t = 0 then 0 else X[t][*i, j - start, *l])", False),
        ("X[t][*i, j - start, *l] / length(n)", False),
        ("X[t][*i, j - total(n[1:]), *l]", False),
    ],
)
def test_a_list_operator_that_tells_entries_apart_is_seen(element, alike):
    parsed = parse_specification(CONCAT.format(element), "t")
    (block,) = (part for part in parsed if hasattr(part, "values"))
    assert block_alike(block) is alike


def test_what_joins_lists_is_read_from_the_specifications(monkeypatch):
    assert alike_everywhere("Concat") and alike_everywhere("Split")
    assert not alike_everywhere("Mean") and not alike_everywhere("Relu")
    monkeypatch.setattr(operand_lists, "alike_everywhere", lambda operator: operator != "Concat")
    assert lifted(RULES["JoinConcats"]) != "all"
    assert lifted(RULES["JoinSplits"]) == "all"


def test_parts_of_one_size_are_not_joined():
    rule = rule_of("""
  opset >= 18
  given A shared, B shared
  match
    *A = Split<axis=0, num_outputs=m>(X)
    *B = Split<axis=0, num_outputs=n>(Concat<axis=0>(*A))
  rewrite
    *B = Split<axis=0, num_outputs=n>(X)""")
    assert not operand_lists.any_number_follows(rule, "len(A)", 2)


# --------------------------------------------------------------------------------- movements


@pytest.mark.parametrize(
    "name",
    [
        "JoinReshapes",
        "JoinReshapeIntoFlatten",
        "JoinSqueezeIntoReshape",
        "ConvertUnsqueezeToReshape",
        "EliminateFlatten",
        "PushReshapeThroughUnary",
        "PushGatherThroughDequantizeLinear",
    ],
)
def test_movements_need_no_rank(name):
    assert moves_alike(RULES[name])


@pytest.mark.parametrize(
    "text",
    [
        # the target of the second copies a dimension of what the first made
        "given t const\n match\n Y = Reshape(X, s)\n Z = Reshape(Y, t)\n"
        " rewrite\n Z = Reshape(X, t)",
        # another target
        "given t const, not 0 in ints(t)\n match\n Y = Reshape(X, t)\n Z = Reshape(Y, s)\n"
        " rewrite\n Z = Reshape(X, t)",
        # another operand
        "given t const, not 0 in ints(t)\n match\n Y = Reshape(X, s)\n Z = Reshape(Y, t)\n"
        " rewrite\n Z = Reshape(s, t)",
        # elements in another order
        "given t const, not 0 in ints(t)\n match\n Y = Transpose<perm=p>(X)\n Z = Reshape(Y, t)\n"
        " rewrite\n Z = Reshape(X, t)",
        # not of that shape
        "match\n Y = Reshape(X, s)\n rewrite\n Y = X",
        # a function of several elements
        "opset >= 13\n match\n Y = Softmax<axis=i>(X)\n Z = Gather<axis=0>(Y, I)\n"
        " rewrite\n T = Gather<axis=0>(X, I)\n Z = Softmax<axis=i>(T)",
        # of another operand beside
        "match\n Y = Add(X, c)\n Z = Gather<axis=0>(Y, I)\n"
        " rewrite\n T = Gather<axis=0>(X, I)\n Z = Add(T, c)",
        # along another axis
        "match\n Y = Relu(X)\n Z = Gather<axis=0>(Y, I)\n"
        " rewrite\n T = Gather<axis=1>(X, I)\n Z = Relu(T)",
        # another function
        "match\n Y = Relu(X)\n Z = Gather<axis=0>(Y, I)\n"
        " rewrite\n T = Gather<axis=0>(X, I)\n Z = Neg(T)",
        # padding is no movement of elements
        "opset >= 13\n match\n Y = Sigmoid(X)\n Z = Pad(Y, q)\n"
        " rewrite\n T = Pad(X, q)\n Z = Sigmoid(T)",
    ],
)  # fmt: skip
def test_what_is_no_such_movement(text):
    assert not moves_alike(rule_of(text))


def test_another_rule_of_the_form_is_found():
    rule = RULES["PushGatherThroughUnary"]
    assert moves_alike(replace(rule, match=rule.match[::-1]))


# ------------------------------------------------------- true at small ranks and lengths only


@pytest.mark.parametrize("rule", SMALL, ids=[rule.name for rule in SMALL])
def test_what_is_false_from_some_rank_on_is_not_proved_for_all(rule):
    """Most are true of all cases that are looked at: the argument alone keeps them bounded."""
    case_statements = statements(rule)
    outcomes = [prove(statement) for statement in case_statements]
    if {outcome.status for outcome in outcomes if not outcome.vacuous} == {"proved"}:
        assert lift(rule, case_statements, outcomes).within


@pytest.mark.parametrize("name", sorted({rule.name for rule in SMALL} - _BEYOND))
def test_what_is_false_from_some_rank_on_is_false_there(name):
    (rule,) = (rule for rule in SMALL if rule.name == name)
    for by in (1, 2):
        longer = _statements(rule, by, [])
        if any(prove(statement).status == "open" for statement in longer):
            break
    else:
        pytest.fail("it was proved at longer lists, too")
    assert find_first(longer, 2.0) is not None


@pytest.mark.parametrize(("axis", "joins"), [(0, True), (1, False)])
def test_lists_are_joined_along_one_axis(axis, joins):
    rule = rule_of(
        f"""
  given   X [m, n] float32
  match
    Y = Concat<axis=0>(X, *A)
    Z = Concat<axis={axis}>(X, *A)
  rewrite
    Y = Concat<axis=0>(X, *A)
    C = Concat<axis={axis}>(X, *A)
    Z = Identity(C)"""
    )
    assert operand_lists.any_number_follows(rule, "len(A)", 2) is joins
