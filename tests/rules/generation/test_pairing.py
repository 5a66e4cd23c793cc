"""Rules of several outputs, and constants among the leaves: what they say, run by ONNX Runtime."""

import numpy as np
import pytest
from tensolog.rules import parse_rules
from tensolog.rules.gate.onnx_models import draw_sides
from tensolog.rules.generation.candidates import Candidate
from tensolog.rules.generation.choices import size
from tensolog.rules.generation.leaves import constants_of, sort_of
from tensolog.rules.generation.pairing import with_two_outputs
from tensolog.rules.generation.terms import Apply, Operation, Variable
from tensolog.rules.generation.wording import rule_name, rule_text, spellings

X, Y, Z = (Variable(name, sort_of("float32", (0, 1))) for name in "XYZ")
W, V = (Variable(name, sort_of("float32", (1, 2))) for name in "WV")


def of(name, *operands, known=(), **attributes):
    slots = tuple(range(len(operands)))
    return Apply(Operation(name, slots, tuple(attributes.items()), known), operands)


def part(output, whole, first, second, axis):
    said = (("axis", axis),)
    split = Operation("Split", (0,), said, ((1, (first, second)),), output=output, outputs=2)
    return Apply(split, (whole,))


def split_of_concat(output, axis=0):
    """One output of a Split that takes a Concat apart again."""
    whole = of("Concat", X, Y, axis=axis)
    return Candidate(part(output, whole, size(axis), size(axis), axis), (X, Y)[output], False)


def holds_in_onnx_runtime(candidate):
    """The rule of the first spelling with declared sizes, after it was seen to hold."""
    rng = np.random.default_rng(3)
    name = rule_name(candidate, ())
    spelling = [spelling for spelling in spellings(candidate) if all(spelling.shapes.values())][-1]
    (rule,) = parse_rules(rule_text(candidate, name, spelling, source="generated"))
    drawn = draw_sides(rule, 4, 1, "float32")
    assert drawn
    for both in drawn:
        feeds = {
            operand.name: rng.normal(size=operand.shape).astype(operand.dtype)
            for operand in both.operands
        }
        for before, after in zip(*both.run(feeds), strict=True):
            np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-4)
    return rule


def test_both_outputs_of_an_operator_are_one_rule():
    first, second = split_of_concat(0), split_of_concat(1)
    ((both, said),) = with_two_outputs([second, first])
    assert said == [first, second]
    rule = holds_in_onnx_runtime(both)
    assert rule.outputs == ("R", "S") and not [n for n in rule.rewrite if n.operators]


def test_results_that_share_an_operand_are_parts_of_a_larger_one():
    joined = of("Concat", of("MatMul", X, W), of("MatMul", X, V), axis=1)
    whole = of("MatMul", X, of("Concat", W, V, axis=1))
    law = Candidate(joined, whole, False)
    pairs = [split_of_concat(0, 1), split_of_concat(1, 1)]
    merged = [pair for pair, said in with_two_outputs([*pairs, law]) if not said]
    (pair,) = merged
    rule = holds_in_onnx_runtime(pair)
    assert rule.name == "MergeMatMulsSharingFirst"
    assert [node.operator for node in rule.match] == ["MatMul", "MatMul"]
    assert sorted(n.operator for n in rule.rewrite) == ["Concat", "MatMul", "Split"]


def slice_of(whole, start, end, right):
    """Columns of a product of a matrix and two beside each other, and the product that they are."""
    known = ((1, (start,)), (2, (end,)), (3, (1,)))
    return Candidate(Apply(Operation("Slice", (0,), contents=known), (whole,)), right, False)


def test_results_made_of_one_larger_term_are_one_rule():
    whole = of("MatMul", X, of("Concat", W, V, axis=1))
    first = slice_of(whole, 0, size(2), of("MatMul", X, W))
    second = slice_of(whole, size(2), 2**31, of("MatMul", X, V))
    ((pair, said),) = with_two_outputs([first], [second])
    assert said == []
    rule = holds_in_onnx_runtime(pair)
    assert rule.name == "MergeMatMulsSharingFirst"
    assert [node.operator for node in rule.match] == ["MatMul", "MatMul"]
    assert sorted(n.operator for n in rule.rewrite) == ["Concat", "MatMul", "Slice", "Slice"]


def test_results_made_of_one_larger_term_share_an_operand():
    """Relu of two matrices is no less as Relu of both beside each other."""
    whole = of("Relu", of("Concat", X, Y, axis=1))
    parts = [split_of_concat(output, 1) for output in (0, 1)]
    larger = [
        Candidate(part(output, whole, size(1), size(1), 1), of("Relu", variable), False)
        for output, variable in ((0, X), (1, Y))
    ]
    assert all(part in parts for _, some in with_two_outputs(parts, larger) for part in some)


def test_results_that_share_nothing_are_left_alone():
    joined = of("Concat", of("Relu", X), of("Relu", Y), axis=1)
    law = Candidate(joined, of("Relu", of("Concat", X, Y, axis=1)), False)
    pairs = [split_of_concat(0, 1), split_of_concat(1, 1)]
    assert [pair for pair, said in with_two_outputs([*pairs, law]) if not said] == []


@pytest.mark.parametrize(
    ("operator", "constant", "name"),
    [
        ("Add", "ConstantOfShape([d2_3, d3_2])", "EliminateAddOfZeros"),
        ("Mul", "Add(ConstantOfShape([d2_3, d3_2]), 1)", "EliminateMulOfOnes"),
        ("MatMul", "EyeLike(ConstantOfShape([d3_2, d3_2]))", "EliminateMatMulOfIdentity"),
    ],
)
def test_constants_leave_an_operand_as_it_is(operator, constant, name):
    (neutral,) = [term for term in constants_of([X, W]) if str(term) == constant]
    candidate = Candidate(of(operator, X, neutral), X, False)
    assert candidate.left.nodes == 1
    assert holds_in_onnx_runtime(candidate).name == name
