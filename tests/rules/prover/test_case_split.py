"""Rules as statements: which cases there are, what they assume and what they oblige to."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from tensolog.rules import load_rules
from tensolog.rules.gate.ledger.ledger import shipped
from tensolog.rules.language.conditions import HasAttribute, HasShape, Holds, IsLiteral, conditions
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases import case_split as module
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.cases.composition import UndescribedError
from tensolog.rules.prover.cases.enumeration import (
    Choices,
    NoCaseError,
    TooManyError,
    cases,
    examples,
)
from tensolog.rules.sampling.instances import without

RULES = {rule.name: rule for rule in load_rules()}


def rule(text):
    (parsed,) = parse_rules(
        "rule EliminateIt\n  tags always\n" + text + "\n  equal rounding\n", "t"
    )
    return parsed


def false_obligations(rule_):
    return [o.text for s in statements(rule_) for o in s.obligations if o.condition is False]


def test_operands_of_any_rank_are_tried_at_several():
    ranks = {
        s.free["rank(X)"].length
        for s in statements(rule("match\n Y = Add(X, 0)\n rewrite\n Y = X"))
    }
    assert ranks == {0, 1, 2, 3}


def test_integers_and_reals_are_cases_of_their_own_where_elements_matter():
    plain = rule("match\n Y = Add(X, 0)\n rewrite\n Y = X")
    assert {s.operands[0].algebra for s in statements(plain)} == {"real", "integer"}
    moves = rule("match\n Y = Transpose<perm=p>(X)\n Z = Transpose<perm=q>(Y)\n"
                 " rewrite\n Z = Transpose<perm=compose(p, q)>(X)")  # fmt: skip
    assert {s.operands[0].algebra for s in statements(moves)} == {"real"}


def test_element_types_that_the_right_side_doesnt_take_make_it_ill_typed():
    with pytest.raises(IllTyped, match="Sigmoid doesn't take"):
        statements(rule("match\n Y = Neg(X)\n rewrite\n Y = Sigmoid(X)"))
    assert statements(rule("given X float32\n match\n Y = Neg(X)\n rewrite\n Y = Sigmoid(X)"))


def test_operands_whose_types_may_differ_make_it_ill_typed():
    text = """
  given X [n, m, *s] float32|float64, c [m] {flag}, shift [m], mean [m], var [m]{more}
  match
    Y = BatchNormalization<epsilon=e, momentum=r>(X, c, shift, mean, var)
  rewrite
    Y = Add(X, Reshape(c, [m] ++ repeat(1, len(s))))"""
    with pytest.raises(IllTyped, match="may differ"):
        statements(rule(text.format(flag="", more="")))
    statements(rule(text.format(flag="", more=", dtype(c) = dtype(X), dtype(mean) = dtype(X)")))


def test_an_operator_that_comes_later_is_ill_typed_in_the_opsets_before():
    text = "match\n Y = Tanh(X)\n rewrite\n Y = Gelu(X)"
    with pytest.raises(IllTyped, match="not in opset"):
        statements(rule("given X float32\n " + text))
    statements(rule("opset >= 20\n given X float32\n " + text))


def test_another_rank_is_ill_typed_if_it_is_so_in_every_case():
    with pytest.raises(IllTyped, match="rank"):
        statements(rule("opset >= 13\n match\n Y = Unsqueeze(X, [0])\n rewrite\n Y = X"))


def test_another_rank_in_some_cases_is_an_obligation_that_is_false():
    rule_ = rule("match\n Z = Add(X, Y)\n rewrite\n Z = X")
    assert any("rank" in text for text in false_obligations(rule_))


def test_equal_sizes_are_one_symbol():
    (first, *_) = statements(RULES["MergeMatMulsSharingLeft"])
    assert first.assumptions == ()
    assert {s.name for s in first.symbols} >= {"m", "k", "n1", "n2"}


def test_conditions_become_assumptions():
    for statement in statements(
        rule("given X [n], n > 3\n match\n Y = Neg(X)\n rewrite\n Y = Abs(X)")
    ):
        assert [str(a) for a in statement.assumptions] == ["n > 3"]


def test_attributes_of_the_left_are_in_their_domain_and_must_be_on_the_right():
    text = """
  given X [n, c, h] float32, W [m, c, k]
  match
    Y = Conv<group=1, auto_pad="NOTSET", pads=q, *a>(X, W)
  rewrite
    Y = Conv<group=1, pads=[q[0] - 1, q[1] + 1], *a>(X, W)"""
    (first, *_) = statements(rule(text))
    assert "q.0 >= 0" in [str(a) for a in first.assumptions]
    assert "(q.0 - 1) >= 0" in [str(o.condition) for o in first.obligations]


def test_operators_without_meaning_are_told():
    with pytest.raises(UndescribedError):
        statements(rule("match\n Y = Det(Neg(X))\n rewrite\n Y = Det(X)"))


def test_conditions_that_exclude_each_other_leave_no_case():
    text = "given X [n], n > 3, n < 2\n match\n Y = Neg(X)\n rewrite\n Y = Abs(X)"
    assert statements(rule(text)) == []


def test_numbers_of_statements_stay_small():
    """The ledger counts them where rules are proved."""
    cases_by_rule = {entry.rule: entry.cases for entry in shipped().entries.values()}
    assert cases_by_rule.keys() & RULES.keys()
    assert min(cases_by_rule.values()) >= 1 and max(cases_by_rule.values()) <= 1300


CONTENT = (Holds, HasShape, HasAttribute, IsLiteral)
SOME = [
    "ConvertMatMulAddToGemm",
    "FoldScaleIntoMatMulWeight",
    "JoinClips",
    "JoinReshapes",
    "EliminateSplitOfConcat",
    "FoldPadIntoConv",
    "MergeConvsSharingInput",
    "ConvertEinsumToMatMul",
    "EliminateSlice",
    "ConvertReduceLogSumExp",
]


# These follow from the other conditions and from what the operators require.
IMPLIED = {"fits(s, Y)", "len(ints(p)) = 2 * rank(W)"}


def contents(rule_):
    """What the cases assume, and the shapes that they speak of; `left` of a rule alone."""
    try:
        case_statements = statements(rule_)
    except (IllTyped, UndescribedError) as error:
        return str(error)
    return {
        (frozenset(map(str, s.assumptions)), str(s.operands), str(s.definitions))
        for s in case_statements
    }


@pytest.mark.parametrize("name", SOME)
def test_each_condition_matters(name):
    rule_ = RULES[name]
    whole = contents(rule_)
    for condition in conditions(rule_):
        if not isinstance(condition, CONTENT) or str(condition) in IMPLIED:
            continue
        weaker = without(rule_, condition)
        if weaker is not None:
            assert contents(weaker) != whole, condition


def four_choices(choices: Choices):
    a = choices.pick("a", (3, 2), "index")
    b = choices.pick("b", "xy", "index")
    op = choices.pick("op", "fg", "element")
    form = choices.pick("form", (0, 1), "form")
    return (a, b, op, form)


def test_all_combinations_of_choices_are_cases():
    all_cases = list(cases(four_choices))
    assert len(all_cases) == 16
    assert {*all_cases} == {*product((3, 2), "xy", "fg", (0, 1))}


def test_more_combinations_than_are_built_are_no_cases_at_all():
    assert len(list(cases(four_choices, most=16))) == 16
    with pytest.raises(TooManyError):
        list(cases(four_choices, most=15))


MANY = """
  opset >= 13
  match
    Y = Softmax<axis=i>(X)
    Z = Transpose<perm=p>(Y)
    W = LogSoftmax<axis=j>(Z)
  rewrite
    Z = Transpose<perm=p>(X)
    S = Softmax<axis=i>(Z)
    W = LogSoftmax<axis=j>(S)"""


@pytest.mark.parametrize(("most", "longest"), [(2000, 4), (120, 3), (40, 2)])
def test_of_too_many_cases_those_of_shorter_lists_are_looked_at(monkeypatch, most, longest):
    monkeypatch.setattr(module, "cases", partial(cases, most=most))
    assert {s.free["rank(X)"].length for s in statements(rule(MANY))} == {*range(1, longest + 1)}


def test_where_there_still_are_too_many_nothing_is_proved(monkeypatch):
    monkeypatch.setattr(module, "cases", partial(cases, most=3))
    with pytest.raises(UndescribedError, match="more than"):
        statements(rule(MANY))


def test_examples_differ_in_one_choice_of_a_kind_at_a_time():
    assert sorted(examples(four_choices)) == [
        (2, "x", "f", 0),
        (2, "y", "f", 0),
        (3, "x", "f", 0),
        (3, "x", "f", 1),
        (3, "x", "g", 0),
        (3, "y", "f", 0),
    ]


def test_what_fits_nothing_beside_one_option_is_a_case_beside_another():
    def build(choices: Choices):
        rank = choices.pick("rank", (2, 1), "index")
        op = choices.pick("op", "fg", "element")
        if (rank, op) == (2, "g"):
            raise NoCaseError("g takes vectors")
        return rank, op

    assert {*cases(build)} == {(2, "f"), (1, "f"), (1, "g")}


def test_longer_lists_are_tried_where_no_short_one_is_a_case():
    case_statements = statements(
        rule("given rank(X) > 5\n match\n Y = Relu(Neg(X))\n rewrite\n Y = Abs(X)")
    )
    assert {statement.free["rank(X)"].length for statement in case_statements} == {6}
    match = "given len(A) > 5\n match\n Y = Concat<axis=0>(*A)\n Z = Relu(Y)\n"
    case_statements = statements(rule(f"{match} rewrite\n Z = Concat<axis=0>(*A)"))
    assert {statement.free["len(A)"].length for statement in case_statements} == {6}


def test_what_is_longer_than_all_that_is_tried_is_told():
    with pytest.raises(UndescribedError, match=r"ranks to 9: rank.X. > 20 doesn't hold"):
        statements(rule("given rank(X) > 20\n match\n Y = Neg(X)\n rewrite\n Y = Abs(X)"))


def test_permutations_of_four_axes_are_tried_where_there_is_one():
    moves = rule("match\n Y = Transpose<perm=p>(X)\n Z = Neg(Y)\n"
                 " rewrite\n T = Neg(X)\n Z = Transpose<perm=p>(T)")  # fmt: skip
    assert max(statement.free["rank(X)"].length for statement in statements(moves)) == 4


def test_operators_are_crossed_with_permutations():
    """Only Sub, and only where the permutation is the identity, tells the operands apart."""
    case_statements = statements(
        rule("""
  given Op in [Add, Sub], X [m, m], Z [m, m]
  match
    Y = Op(Transpose<perm=p>(X), Transpose<perm=p>(Z))
  rewrite
    A = Gather<axis=0>(Concat<axis=0>(Unsqueeze(X, [0]), Unsqueeze(Z, [0])), 1 - p[0])
    B = Gather<axis=0>(Concat<axis=0>(Unsqueeze(X, [0]), Unsqueeze(Z, [0])), p[0])
    Y = Transpose<perm=p>(Op(A, B))
  opset >= 13""")
    )
    titles = [statement.title for statement in case_statements]
    assert any("Sub" in title and "p (0, 1)" in title for title in titles)


def test_a_function_and_a_movement_that_change_places_need_no_crossing():
    text = """
  given Op in [Neg, Abs]
  match
    Y = Op(Transpose<perm=p>(X))
  rewrite
    Y = Transpose<perm=p>(Op(X))"""
    identity = [s.title for s in statements(rule(text)) if "p (0, 1)" in s.title]
    assert identity and not any("Abs" in title for title in identity)
