"""A rule that is proved for some ranks only is applied at those only."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tensolog.optimizer import explain_model
from tensolog.rules import parse_rules
from tensolog.rules.language.rank_bounds import Within, as_record, from_record, separate

(TWICE,) = parse_rules(
    "rule EliminateTwice\n  tags always\n  given X float32\n  match\n    Y = Relu(Relu(X))\n"
    "  rewrite\n    Y = Relu(X)\n  equal exact\n",
    "t",
)
(JOINED,) = parse_rules(
    "rule PushThrough\n  tags always\n  given A shared\n  opset >= 13\n"
    "  match\n    Z = Concat<axis=1>(*A)\n    Y = Relu(Z)\n"
    "  rewrite\n    Z2 = Concat<axis=1>(*A)\n    Y = LeakyRelu<alpha=0.0>(Z2)\n  equal exact\n",
    "t",
)


def only(rule, **numbers):
    within = tuple(
        Within((f"{function}({name})",), frozenset((n,) for n in admitted))
        for key, admitted in numbers.items()
        for function, _, name in [key.partition("_")]
    )
    return replace(rule, proved_for=within)


def model(nodes, shapes, output):
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=8
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto


def chain(rank):
    shape = [2] * rank
    nodes = [
        helper.make_node("Relu", ["x"], ["t"], name="first"),
        helper.make_node("Relu", ["t"], ["y"], name="second"),
    ]
    return model(nodes, {"x": shape}, shape)


def joined(count):
    names = [f"x{i}" for i in range(count)]
    nodes = [
        helper.make_node("Concat", names, ["t"], axis=1, name="concat"),
        helper.make_node("Relu", ["t"], ["y"], name="relu"),
    ]
    return model(nodes, {name: [2, 3] for name in names}, [2, 3 * count])


def fired(proto, rule):
    return [step.rule for step in explain_model(proto, rules=[rule]).fired]


@pytest.mark.parametrize(("rank", "fires"), [(1, False), (2, True), (3, True), (4, False)])
def test_a_rule_fires_within_its_ranks_and_nowhere_else(rank, fires):
    rule = only(TWICE, rank_X=(2, 3))
    assert bool(fired(chain(rank), rule)) is fires
    assert fired(chain(rank), TWICE)


@pytest.mark.parametrize(("count", "fires"), [(1, True), (2, True), (3, False)])
def test_a_rule_fires_within_its_numbers_of_operands(count, fires):
    rule = only(JOINED, len_A=(1, 2))
    assert bool(fired(joined(count), rule)) is fires
    assert fired(joined(count), JOINED)


def test_explain_says_which_ranks_it_is_proved_for():
    (miss,) = explain_model(chain(4), rules=[only(TWICE, rank_X=(0, 1, 2, 3))]).near_misses
    assert miss.condition == "proved for ranks 0 to 3 of X only"
    assert miss.detail.endswith(
        "but the rule is proved for ranks 0 to 3 of X only (X is [2, 2, 2, 2])"
    )


ROWS = st.sets(st.tuples(*[st.none() | st.integers(0, 3)] * 3), min_size=1)
NAMES = ("rank(X)", "len(b)", "dim(s, 0)")


@given(ROWS, st.sets(st.sampled_from(NAMES)))
def test_separate_conditions_admit_what_was_proved_and_no_more(rows, beyond):
    """Oracle: a row is admitted if, cut at the largest numbers of lifted names, it is there."""
    bounds = separate(NAMES, rows, beyond)
    most = [max((r[i] or 0 for r in rows), default=0) for i in range(3)]
    for first in (None, 0, 1, 3, 5):
        for second in (None, 0, 2, 4):
            for third in (None, 0, 1, 3, 4):
                row = (first, second, third)
                admitted = all(
                    bound.holds([row[NAMES.index(name)] for name in bound.names])
                    for bound in bounds
                )
                cut = tuple(
                    min(n, most[i]) if n is not None and NAMES[i] in beyond else n
                    for i, n in enumerate(row)
                )
                free = [
                    i
                    for i, name in enumerate(NAMES)
                    if name in beyond and not any(name in bound.names for bound in bounds)
                ]
                there = any(
                    all(i in free or cut[i] == proved_row[i] for i in range(3))
                    for proved_row in rows
                )
                assert admitted == there


@given(ROWS, st.sets(st.sampled_from(NAMES)))
def test_the_record_keeps_all_of_it(rows, beyond):
    bounds = separate(NAMES, rows, beyond)
    assert from_record(as_record(bounds)) == bounds


@pytest.mark.parametrize(
    "record", [{"X": [1]}, {"rank(X)": 3}, {"rank(X)": ["3"]}, {"rank(X), len(b)": [[1]]}]
)
def test_what_is_no_record_is_refused(record):
    with pytest.raises(ValueError, match=r"rank|X"):
        from_record(record)
