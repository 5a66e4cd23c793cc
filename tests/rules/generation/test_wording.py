"""Candidates as rules: what they are called, and that every spelling is one of the language."""

import pytest
from tensolog.rules import parse_rules
from tensolog.rules.generation.candidates import Candidate, candidate_of
from tensolog.rules.generation.enumeration import Enumeration
from tensolog.rules.generation.leaves import choose_inputs, sort_of
from tensolog.rules.generation.terms import Apply, Operation, Variable
from tensolog.rules.generation.wording import (
    earliest_opset,
    least_opset,
    rule_name,
    rule_text,
    spellings,
    symbolic_shapes,
)

X = Variable("X", sort_of("float32", (0, 1)))
W = Variable("W", sort_of("float32", (1, 2)))


def of(name, *operands, **attributes):
    said = tuple(attributes.items())
    return Apply(Operation(name, tuple(range(len(operands))), said), operands)


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        (of("Neg", of("Neg", X)), X, "EliminateNegOfNeg"),
        (of("Floor", of("Ceil", X)), of("Ceil", X), "EliminateFloorOfCeil"),
        (of("Ceil", of("Neg", X)), of("Neg", of("Floor", X)), "ConvertCeilOfNegToNegOfFloor"),
        (of("Neg", of("Transpose", X)), of("Transpose", of("Neg", X)), "PushNegThroughTranspose"),
        (
            of("Softmax", of("Softmax", X, axis=0), axis=1),
            of("Softmax", X, axis=1),
            "MergeSoftmaxs",
        ),
    ],
)
def test_names_say_what_happens_to_operators(left, right, name):
    assert rule_name(Candidate(left, right, False), ()) == name
    assert rule_name(Candidate(left, right, False), (name,)) == f"{name}OfMatrices"


@pytest.mark.parametrize(
    "operators",
    [("MatMul", "Concat"), ("Conv", "Relu"), ("Where", "Not"), ("Slice",), ("Cast", "Floor")],
    ids="-".join,
)
def test_every_spelling_is_a_rule_of_the_language(operators):
    pool = choose_inputs(operators, 1)
    enumeration = Enumeration(operators, pool)
    said = 0
    for size in (1, 2):
        for equality in enumeration.grow(size, last=size == 2).equalities:
            candidate = candidate_of(
                enumeration.applied(equality.e_node), enumeration.term(equality.equal_to), pool
            )
            if candidate is None:
                continue
            for spelling in spellings(candidate):
                text = rule_text(candidate, "ConvertThis", spelling, source="generated")
                (rule,) = parse_rules(text)
                assert rule.name == "ConvertThis" and rule.sources == ("generated",)
                said += 1
    assert said


def test_sizes_are_as_general_as_the_specifications_let_them_be():
    turned = of("Transpose", of("MatMul", X, W))
    other = of("MatMul", of("Transpose", W), of("Transpose", X))
    assert symbolic_shapes(Candidate(turned, other, True)) == {"X": ("m", "k"), "W": ("k", "n")}
    joined = of("Concat", X, Variable("Y", X.sort), axis=0)
    assert symbolic_shapes(Candidate(joined, joined, True)) == {"X": ("m", "k"), "Y": ("n", "k")}


def with_list(name, operand, *numbers, **attributes):
    said = tuple(attributes.items())
    return Apply(Operation(name, (0,), said, contents=((1, numbers),)), (operand,))


@pytest.mark.parametrize(
    ("term", "least", "earliest"),
    [
        (of("MatMul", X, W), 13, 13),
        (of("AveragePool", X, kernel_shape=(3, 3)), 19, 13),
        (of("AveragePool", X, dilations=(2, 2), kernel_shape=(3, 3)), 19, 19),
        (with_list("Pad", X, 1, 1, 1, 1), 18, 13),
        (with_list("Split", X, 1, 2, axis=0), 18, 13),
        (with_list("ReduceMax", X, 0), 18, 18),  # its axes were an attribute
    ],
    ids=str,
)
def test_a_rule_may_be_for_operator_sets_that_take_what_it_states(term, least, earliest):
    candidate = Candidate(of("Relu", term), term, False)
    assert (least_opset(candidate), earliest_opset(candidate)) == (least, earliest)


def test_what_is_never_worse_is_always_applied():
    shapes = {"X": ""}
    for right, tag in ((of("Ceil", X), "always"), (of("Round", of("Abs", X)), "explore")):
        candidate = Candidate(of("Floor", of("Ceil", X)), right, False)
        spelling = next(spelling for spelling in spellings(candidate) if spelling.shapes == shapes)
        assert f"  tags    {tag}\n" in rule_text(candidate, "A", spelling, source="generated")


IMAGES = [Variable(name, sort_of("float32", (0, 1, 2, 3))) for name in "XY"]
KERNELS = [Variable(name, sort_of("float32", (4, 1, -2, -2))) for name in ("W", "W1")]


def grouped():
    """Two convolutions as one with two groups."""
    convolutions = [
        of("Conv", image, kernel) for image, kernel in zip(IMAGES, KERNELS, strict=True)
    ]
    kernels = of("Concat", *KERNELS, axis=0)
    return Candidate(
        of("Concat", *convolutions, axis=1),
        of("Conv", of("Concat", *IMAGES, axis=1), kernels, group=2),
        True,
    )


def test_what_one_node_states_a_multiple_of_may_stay_open():
    first = next(spellings(grouped()))
    text = rule_text(grouped(), "ConvertThis", first, source="generated")
    assert "Conv<group=a, *e>" in text and "Conv<group=2 * a, *e>" in text
    assert text.count("group") == 6  # in the rule, and in its comment


def test_what_no_node_states_a_multiple_of_has_no_such_spelling():
    left = of("Concat", *(of("Conv", image, KERNELS[0]) for image in IMAGES), axis=0)
    right = of("Conv", of("Concat", *IMAGES, axis=0), KERNELS[0])
    assert all(spelling.open != "scaled" for spelling in spellings(Candidate(left, right, True)))


def test_variables_of_one_sort_are_declared_alike_where_more_general_sizes_fit():
    sizes = symbolic_shapes(grouped())
    assert sizes["W"][0] != sizes["W1"][0]  # which an even number of outputs together fits
    declared = [spelling.shapes for spelling in spellings(grouped())]
    general = [
        i
        for i, declaration in enumerate(declared)
        if declaration["W"] and declaration["W"] != declaration["W1"]
    ]
    alike = [
        i
        for i, declaration in enumerate(declared)
        if declaration["W"] and declaration["W"] == declaration["W1"]
    ]
    assert alike and max(general) < max(alike)
