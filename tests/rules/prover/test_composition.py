"""Specified operators put together over symbolic shapes."""

from __future__ import annotations

import math

import pytest
from tensolog.catalog.operators import ShapeError
from tensolog.catalog.terms.index_notation import Apply, Read, Symbol
from tensolog.rules.prover.cases.composition import Composition, UndescribedError, converted
from tensolog.rules.prover.cases.literals import read_literal

M, K, N = Symbol("m"), Symbol("k"), Symbol("n")


def product():
    whole = Composition(17)
    whole.operand("A", (M, K), "float32")
    whole.operand("B", (K, N), "float32")
    return whole


def test_outputs_get_shapes_and_values_in_terms_of_operands():
    whole = product()
    needs = whole.node("MatMul", ["A", "B"], {}, ["Y"])
    assert needs == []
    (definition,) = whole.definitions
    assert definition.shape == (M, N)
    assert "A[" in str(definition) and "B[" in str(definition)


def test_what_isnt_seen_to_hold_is_required():
    whole = Composition(17)
    whole.operand("A", (M, K), "float32")
    whole.operand("B", (N, N), "float32")
    (need,) = whole.node("MatMul", ["A", "B"], {}, ["Y"])
    assert need.condition == Apply("=", (K, N))


def test_what_is_seen_to_fail_is_refused():
    whole = Composition(17)
    whole.operand("A", (M, 2), "float32")
    whole.operand("B", (3, N), "float32")
    with pytest.raises(ShapeError):
        whole.node("MatMul", ["A", "B"], {}, ["Y"])


def test_locals_are_named_after_the_output():
    whole = Composition(17)
    whole.operand("X", (M, N), "float32")
    whole.node("Softmax", ["X"], {}, ["Y"])
    whole.node("Softmax", ["Y"], {}, ["Z"])
    names = [definition.name for definition in whole.definitions]
    assert len(set(names)) == len(names) == 6
    assert "Z.top" in names


def test_a_tensor_may_bear_the_name_of_an_operators_input():
    whole = Composition(17)
    whole.operand("X", (M,), "float32")
    whole.node("Neg", ["X"], {}, ["A"])
    whole.node("Add", ["X", "A"], {}, ["B"])
    reads = {part.tensor for part in whole.definitions[-1].value.arguments}
    assert reads == {"X", "A"}


def test_lists_must_be_known():
    whole = Composition(17)
    whole.operand("X", (M, N), "float32")
    whole.operand("S", (2,), "int64")
    with pytest.raises(UndescribedError):
        whole.node("Reshape", ["X", "S"], {}, ["Y"])
    whole.known_constant("T", (N, M), "int64")
    whole.node("Reshape", ["X", "T"], {}, ["Y"])
    assert whole.tensors["Y"].shape == (N, M)


def test_an_unknown_size_of_a_target_must_not_be_the_0_that_copies():
    whole = Composition(17)
    whole.operand("X", (M, N), "float32")
    whole.known_constant("T", (1, Apply("*", (M, N))), "int64")
    conditions = [str(need.condition) for need in whole.node("Reshape", ["X", "T"], {}, ["Y"])]
    assert any("!= 0" in text for text in conditions)
    whole.known_constant("U", (M, N), "int64")
    assert whole.node("Reshape", ["X", "U"], {}, ["Z"]) == []


def test_opaque_and_unknown_operators_have_no_meaning():
    whole = product()
    with pytest.raises(UndescribedError):
        whole.node("Det", ["A"], {}, ["Y"])
    with pytest.raises(UndescribedError):
        whole.node("com.example:FusedConv", ["A"], {}, ["Y"])


@pytest.mark.parametrize(
    ("had", "wanted", "function"),
    [
        ("float32", "float64", None),
        ("float64", "float16", None),
        ("int32", "int64", None),
        ("uint8", "int16", None),
        ("int64", "int32", "to_int32"),
        ("int8", "uint8", "to_uint8"),
        ("uint32", "int32", "to_int32"),
        ("float32", "int64", "to_int64"),
        ("int64", "float32", "real"),
        ("float32", "bool", "!="),
    ],
)
def test_conversions_are_functions_where_values_may_change(had, wanted, function):
    value = Read("X", ())
    converted_value = converted(value, had, wanted)
    assert (
        (converted_value == value) if function is None else (converted_value.function == function)
    )


def test_truth_values_convert_to_numbers_by_cases():
    assert str(converted(Read("X", ()), "bool", "int64")) == "if X[] then 1 else 0"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (math.sqrt(2), "sqrt(2)"),
        (0.7071067811865476, "1 / sqrt(2)"),
        (0.7071067690849304, "1 / sqrt(2)"),  # as float32
        (0.7978845608028654, "sqrt(2 / pi())"),
        (-math.pi, "neg(pi())"),
        (0.16666666666666666, "1 / 6"),
        (0.1666666716337204, "1 / 6"),  # as float32
        (0.044715, "0.044715"),
        (0.1, "0.1"),
        (3.0, "3"),
        (1e-5, "1e-05"),
        (0.7071, "0.7071"),
    ],
)
def test_literals_are_read_as_what_they_round(number, text):
    assert str(read_literal(number)) == text
