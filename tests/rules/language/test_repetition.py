"""Repeated nodes: read, written, and the same as a rule that names each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.rules import RuleError
from tensolog.rules.language.canonical_text import rule_text
from tensolog.rules.language.formatter import format_file
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.language.repetition import (
    gathers,
    of_one,
    repeated_lists,
    repeats,
    unrolled,
    with_numbers,
)

MERGE = """rule Merge
  tags    pass
  opset   >= 13
  given   X [_, k] float32,
          W [k, n] const,
          sum(sizes(X, 0)) < 64
  match
    *Y = each MatMul(*X, W)
  rewrite
    P  = MatMul(Concat<axis=0>(*X), W)
    *Y = Split<axis=0>(P, sizes(X, 0))
  equal   rounding
"""
PUSH = """rule Push
  tags    pass
  given   Op in [Relu, LeakyRelu]
  match
    X = Concat<axis=i>(*A)
    Y = Op<*a>(X)
  rewrite
    *B = each Neg(Op<*a>(Neg(*A)))
    Y  = Concat<axis=i>(*B)
  equal   exact
"""

ROWS = """rule Rows
  tags    pass
  opset   >= 13
  given   X [k, n] float32,
          k > 0
  match
    Y = ReduceSum<keepdims=1>(X, [0])
  rewrite
    *P = each t < k - 1 Slice(X, [t], [t + 1], [0])
    *Q = each t < k - 1 Neg(Neg(*P))
    L  = Slice(X, [k - 1], [k], [0])
    Y  = Sum(*Q, L)
  equal   rounding
"""


def rule_of(text):
    (rule,) = parse_rules(text)
    return rule


MERGED = rule_of(MERGE)


def written(count):
    """The rule Merge as one writes it without repetition."""
    items = range(count)
    sizes = ", ".join(f"dim(X{i}, 0)" for i in items)
    shapes = "".join(f"X{i} [X{i}_0, k] float32, " for i in items)
    nodes = "".join(f"    Y{i} = MatMul(X{i}, W)\n" for i in items)
    outputs, inputs = (", ".join(f"{name}{i}" for i in items) for name in "YX")
    return rule_of(
        f"rule Merge\n tags pass\n opset >= 13\n"
        f" given {shapes}W [k, n] const, sum([{sizes}]) < 64\n match\n{nodes} rewrite\n"
        f"    P = MatMul(Concat<axis=0>({inputs}), W)\n"
        f"    {outputs} = Split<axis=0>(P, [{sizes}])\n equal rounding\n"
    )


def words(rule):
    """The words of a rule, however its lines are filled."""
    return rule_text(rule).split()


@given(st.integers(1, 6))
def test_it_is_the_rule_that_names_each_node(count):
    unrolled_words = [
        word.replace("X.", "X").replace("Y.", "Y") for word in words(unrolled(MERGED, count))
    ]
    assert unrolled_words == words(written(count))


def test_of_one_node_it_is_a_rule_of_its_own():
    rule = of_one(MERGED)
    assert not repeats(rule)
    wanted = [word.replace("X0", "X").replace("Y0", "Y") for word in words(written(1))]
    assert words(rule) == wanted


@given(st.integers(1, 6))
def test_nodes_with_a_number_are_those_that_say_it(count):
    items = range(count)
    slices = "".join(f"    P{i} = Slice(X, [{i}], [{i} + 1], [0])\n" for i in items)
    inner = "".join(f"    I{i} = Neg(P{i})\n" for i in items)
    outer = "".join(f"    Q{i} = Neg(I{i})\n" for i in items)
    names = ", ".join(f"Q{i}" for i in items)
    before, rest = ROWS.split("    *P = each")
    after = rest[rest.index("    L  = ") :].replace("*Q", names)
    wanted = words(rule_of(before + slices + inner + outer + after))
    text = " ".join(words(with_numbers(rule_of(ROWS), count)))
    for name, other in (("Q_1.", "I"), ("P.", "P"), ("Q.", "Q")):
        text = text.replace(name, other)
    assert text.split() == wanted


@pytest.mark.parametrize("text", [MERGE, PUSH, ROWS])
def test_what_is_written_is_read_as_it_was(text):
    rule = rule_of(text)
    assert rule_of(rule_text(rule)) == rule
    assert format_file(text) == text


def test_nested_operations_are_repeated_together():
    rule = rule_of(PUSH)
    assert not gathers(rule) and gathers(MERGED)
    assert [node.op_type for node in rule.rewrite if node.each] == ["Neg", "Op", "Neg"]
    assert len(repeated_lists(rule)) == 4
    assert [node.op_type for node in unrolled(rule, 3).rewrite] == [
        *("Neg",) * 3,
        *("Op",) * 3,
        *("Neg",) * 3,
        "Concat",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MERGE.replace("tags    pass", "tags    explore"), "matches any number of nodes"),
        (MERGE.replace("each MatMul(*X, W)", "each MatMul(X, W)"), "goes from lists to lists"),
        (MERGE.replace("*Y = each", "Y = each"), "goes from lists to lists"),
        (PUSH.replace("each Neg", "each Negg"), "there is no operator Negg"),
        (ROWS.replace("[t], [t + 1]", "[u], [t + 1]"), "nothing gives u a value"),
        (ROWS.replace("[k - 1], [k]", "[t], [k]"), "nothing gives t a value"),
        (ROWS.replace("k - 1 Slice", "l Slice"), "nothing gives l a value"),
        (ROWS.replace("*P = each", "P = each"), "goes from lists to lists"),
        (ROWS.replace("t < k - 1 Neg", "t < k Neg"), "repeats nodes in several ways"),
        (ROWS.replace("t < k - 1 Neg", "Neg"), "repeats nodes in several ways"),
        (ROWS.replace("[k, n]", "[k, t]"), "t stands for a number and for something else"),
        (PUSH.replace("*A)", "*A)", 1).replace("Y = Op", "Y = each t < 2 Op"), "lists to lists"),
    ],
)
def test_what_is_no_repetition_is_refused(text, reason):
    with pytest.raises(RuleError, match=reason):
        rule_of(text)
