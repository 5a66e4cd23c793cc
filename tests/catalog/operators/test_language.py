"""Mistakes in a specification's text are told with line, column and what would do."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.operators import ShapeError, SpecificationError
from tensolog.catalog.operators.check import check
from tensolog.catalog.operators.definition import _statements, functions
from tensolog.catalog.operators.evaluate import evaluate
from tensolog.catalog.operators.expand import expand
from tensolog.catalog.operators.parser import parse
from tensolog.catalog.operators.syntax import Operator

from tests.campaigns import examples

MATMUL = """op MatMul (A [m, k], B [k, n]) -> Y [m, n]
  attribute scale float = 1.0
  value Y[i, j] = scale * (sum(l < k) A[i, l] * B[l, j])
"""


def mistake(text: str) -> SpecificationError:
    with pytest.raises(SpecificationError) as caught:
        for statement in parse(text, "x.ops", 10):
            assert isinstance(statement, Operator)
            check(statement, functions())
    return caught.value


def test_the_text_itself_is_right() -> None:
    (operator,) = parse(MATMUL)
    assert isinstance(operator, Operator)
    check(operator, functions())


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "reason"),
    [
        ("-> Y [m, n]", "-> Y", 11, 3, "expected .*`\\[` and a shape"),
        ("op MatMul", "op", 10, 4, "expected a name"),
        ("float = 1.0", "real = 1.0", 11, 19, "real is no type; expected int"),
        ("A[i, l]", "A[i, q]", 12, 44, "q is not defined"),
        ("scale *", "scal *", 12, 19, "scal is not defined; did you mean scale?"),
        ("sum(l < k)", "sum(l <= k)", 12, 28, "sum runs over `i < n`"),
        ("sum(l < k) A", "summ(l) * A", 12, 28, "summ is no function; did you mean sum"),
        ("A[i, l]", "exp(A[i, l], 1)", 12, 39, "exp takes 1 arguments, not 2"),
        ("value Y[i, j]", "value Y[i]", 12, 9, "Y has 2 dimensions, 1 indices"),
        ("value Y", "value Z", 10, 35, "Y has no value"),
        (
            "(sum(l < k) A[i, l] * B[l, j])",
            "sum(l < k)",
            12,
            27,
            "the term that it runs over is missing",
        ),
        ("[m, n]\n", "[m, n] real16\n", 10, 35, "real16 is no type"),
        ("[m, n]\n", "[m, n] like C\n", 10, 35, "C is no input"),
        ("  value", "  let k0 = 1\n  let k0 = 2\n  value", 13, 7, "k0 is defined already"),
        ("B [k, n]", "floats B", 10, 22, "an input is `NAME \\[shape\\]`"),
        ("* (sum", "* $(sum", 12, 27, "can't stand here"),
    ],
)
def test_each_mistake_has_its_place(
    old: str, new: str, line: int, column: int, reason: str
) -> None:
    assert MATMUL.count(old) == 1
    error = mistake(MATMUL.replace(old, new))
    assert (error.path, error.line, error.column) == ("x.ops", line, column), str(error)
    assert re.search(reason, error.reason), error.reason


@settings(max_examples=examples(200), deadline=None, derandomize=True, database=None)
@given(st.integers(0, len(MATMUL) - 1), st.sampled_from('()[]<=*,. "xk1'), st.booleans())
def test_any_slip_parses_or_is_told(position: int, letter: str, insert: bool) -> None:
    text = MATMUL[:position] + letter + MATMUL[position + (0 if insert else 1) :]
    try:
        for statement in parse(text, "x.ops"):
            if isinstance(statement, Operator):
                check(statement, functions())
    except SpecificationError as error:
        assert 1 <= error.line <= text.count("\n") + 2
        assert error.column >= 1


def test_every_shipped_text_is_right() -> None:
    for statement in _statements():
        (declared,) = parse(statement.text, statement.path, statement.line)
        if isinstance(declared, Operator):
            check(declared, functions())
        assert declared.place.line == statement.line


QUANTIZE = """op Some (X [*s], zero [..]?) -> Y [*s] like zero else 3
  value Y = saturate(round(X))
"""


@pytest.mark.parametrize("zero", [None, "int8", "uint8", "int16"])
def test_values_saturate_to_the_type_of_the_output(zero: str | None) -> None:
    (operator,) = parse(QUANTIZE)
    assert isinstance(operator, Operator)
    check(operator, functions())
    data = np.array([-1e9, -0.5, 1.5, 2.5, 1e9], np.float32)
    other = None if zero is None else np.zeros((), zero)
    shapes = [data.shape, None if other is None else ()]
    expansion = expand(operator, functions(), shapes, {}, {}, None)
    (result,) = evaluate(expansion, [data, other])
    limits = np.iinfo(zero or "int8")
    assert result.dtype == limits.dtype
    assert result.tolist() == [limits.min, 0, 2, 2, limits.max]


def test_nothing_saturates_to_a_type_of_reals() -> None:
    (operator,) = parse(QUANTIZE.replace("like zero else 3", ""))
    assert isinstance(operator, Operator)
    expansion = expand(operator, functions(), [(2,), None], {}, {}, None)
    with pytest.raises(ShapeError, match="saturation to float32 is not described"):
        evaluate(expansion, [np.zeros(2, np.float32), None])
