"""Evaluation of statements at numbers: against the specifications, and where there is no value."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.operators import specification
from tensolog.catalog.terms.index_notation import Apply, Read, Reduce, Select, Symbol, Variable
from tensolog.rules.gate.counterexample.symbol_values import SymbolSampler
from tensolog.rules.gate.evaluation.arithmetic import (
    Assignment,
    NoValueError,
    TooLargeError,
    number,
)
from tensolog.rules.gate.evaluation.evaluate import compute
from tensolog.rules.gate.evaluation.exact import Exact
from tensolog.rules.gate.evaluation.field import PRIME, Field
from tensolog.rules.gate.evaluation.float64 import Float
from tensolog.rules.gate.evaluation.intervals import Interval, UncertainError, bounds

from tests.campaigns import examples

from .statements_by_hand import Sides, quotient, wrong_from

FLOAT, FIELD, EXACT = Float(), Field(), Exact()


def middle(value):
    low, high = bounds(value)
    assert high - low <= 1e-9 * max(1, abs(low))
    return float((low + high) / 2)


# operator, inputs (shape by name), attributes; the oracle is the specification's own evaluation
NODES = [
    ("Add", {"A": (2, 3), "B": (3,)}, {}),
    ("Div", {"A": (2, 3), "B": (2, 1)}, {}),
    ("MatMul", {"A": (2, 2, 3), "B": (3, 2)}, {}),
    ("Gemm", {"A": (3, 2), "B": (4, 3), "C": (4,)}, {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("Conv", {"X": (1, 4, 5), "W": (2, 2, 3)}, {"group": 2, "pads": [1, 1], "strides": [2]}),
    ("MaxPool", {"X": (1, 2, 5)}, {"kernel_shape": [3], "pads": [1, 1]}),
    ("AveragePool", {"X": (1, 2, 5)}, {"kernel_shape": [2], "pads": [1, 0]}),
    ("Softmax", {"X": (2, 3)}, {}),
    ("LogSoftmax", {"X": (2, 3)}, {"axis": 0}),
    ("LayerNormalization", {"X": (2, 3), "S": (3,), "B": (3,)}, {}),
    ("Concat", {"A": (2, 1), "B": (2, 2)}, {"axis": 1}),
    ("Transpose", {"X": (2, 3, 4)}, {"perm": [2, 0, 1]}),
    ("Flatten", {"X": (2, 3, 2)}, {"axis": 2}),
    ("ReduceMean", {"X": (2, 3)}, {"axes": [1], "keepdims": 0}),
    ("Gelu", {"X": (4,)}, {}),
    ("Gelu", {"X": (4,)}, {"approximate": "tanh"}),
    ("Elu", {"X": (4,)}, {"alpha": 0.5}),
    ("Erf", {"X": (4,)}, {}),
    ("Sin", {"X": (4,)}, {}),
    ("Tan", {"X": (4,)}, {}),
    ("Sinh", {"X": (4,)}, {}),
    ("Cosh", {"X": (4,)}, {}),
    ("Atan", {"X": (4,)}, {}),
    ("Floor", {"X": (4,)}, {}),
    ("HardSigmoid", {"X": (4,)}, {}),
    ("Sign", {"X": (4,)}, {}),
]


def one_node(operator, shapes, attributes):
    opset = 20 if operator == "Gelu" else 17
    sides = Sides(opset=opset)
    for name, shape in shapes.items():
        sides.operand(name, *shape)
    sides.left(operator, " ".join(shapes), "Y", **attributes)
    return sides.right("Identity", "Y", "T").statement()


@pytest.mark.parametrize(("operator", "shapes", "attributes"), NODES)
def test_nodes_have_the_values_of_their_specification(operator, shapes, attributes):
    rng = np.random.default_rng(0)
    statement = one_node(operator, shapes, attributes)
    arrays = {name: rng.integers(1, 9, shape) / 8 for name, shape in shapes.items()}
    opset = 20 if operator == "Gelu" else 17
    meaning = specification("", operator, opset)
    (expected,) = meaning.evaluate(list(arrays.values()), attributes, outputs=1)
    rounded = compute(statement, Assignment({}, arrays), FLOAT)["Y"]
    assert rounded.defined.all()
    np.testing.assert_allclose(rounded.values, expected, rtol=1e-12, atol=1e-12)
    exact = compute(statement, Assignment({}, arrays), EXACT)["Y"]
    assert exact.defined.all()
    enclosed = np.vectorize(middle, otypes=[float])(exact.values)
    np.testing.assert_allclose(enclosed, expected, rtol=1e-9, atol=1e-9)


# Of those above, the ones that + - * / and order make up, at integers.
RATIONAL = {"Add", "Div", "MatMul", "Conv", "MaxPool", "AveragePool", "Concat", "Transpose",
            "Flatten", "ReduceMean", "Sign"}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes"), [node for node in NODES if node[0] in RATIONAL]
)
def test_the_field_computes_residues_of_rationals(operator, shapes, attributes):
    rng = np.random.default_rng(1)
    statement = one_node(operator, shapes, attributes)
    arrays = {name: rng.integers(-9, -1, shape).astype(float) for name, shape in shapes.items()}
    exact = compute(statement, Assignment({}, arrays), EXACT)["Y"].values
    residues = compute(statement, Assignment({}, arrays), FIELD)["Y"].values
    expected = np.vectorize(
        lambda v: Fraction(v).numerator * pow(Fraction(v).denominator, -1, PRIME) % PRIME,
        otypes=[np.int64],
    )(exact)
    np.testing.assert_array_equal(residues, expected)


# ------------------------------------------------------------------------------- definedness


def one_element(operator, *values, arithmetic=FLOAT, **attributes):
    sides = Sides()
    names = "ABC"[: len(values)]
    for name in names:
        sides.operand(name, 1)
    sides.left(operator, " ".join(names), "Y", **attributes).right("Identity", "Y", "T")
    arrays = {n: np.array([v], float) for n, v in zip(names, values, strict=True)}
    return bool(compute(sides.statement(), Assignment({}, arrays), arithmetic)["T"].defined.all())


@pytest.mark.parametrize("arithmetic", [FLOAT, EXACT], ids=["float", "exact"])
@pytest.mark.parametrize(
    ("operator", "values", "has_value"),
    [
        ("Div", (1, 0), False),
        ("Div", (0, 2), True),
        ("Reciprocal", (0,), False),
        ("Sqrt", (-1,), False),
        ("Sqrt", (0,), True),
        ("Log", (0,), False),
        ("Log", (-1,), False),
        ("Log", (2,), True),
        ("Asin", (2,), False),
        ("Acos", (0.5,), True),
        ("Acosh", (0.5,), False),
        ("Atanh", (1,), False),
        ("Pow", (-1, 0.5), False),
        ("Pow", (-1, 3), True),
        ("Pow", (0, -1), False),
    ],
)
def test_elements_without_a_value(arithmetic, operator, values, has_value):
    assert one_element(operator, *values, arithmetic=arithmetic) is has_value


def test_what_uses_an_element_without_a_value_has_none():
    sides = Sides().operand("A", 3)
    sides.left("Reciprocal", "A", "R").left("Exp", "R", "Y").right("Identity", "Y", "T")
    tensors = compute(sides.statement(), Assignment({}, {"A": np.array([1.0, 0.0, 2.0])}), FLOAT)
    assert tensors["T"].defined.tolist() == [True, False, True]


def test_the_maximum_of_nothing_has_no_value_and_its_sum_has():
    sides = Sides("n").operand("A", "n").listed("axis", 0)
    sides.left("ReduceMax", "A", "Y", axes=[0], keepdims=0)
    sides.right("ReduceSum", "A axis", "T", keepdims=0)
    tensors = compute(sides.statement(), Assignment({"n": 0}, {"A": np.zeros(0)}), FLOAT)
    assert not tensors["Y"].defined
    assert tensors["T"].defined
    assert tensors["T"].values == 0


def test_a_window_of_padding_alone_has_no_maximum():
    sides = Sides().operand("X", 1, 1, 1)
    sides.left("MaxPool", "X", "Y", kernel_shape=[1], pads=[1, 1]).right("Identity", "Y", "T")
    tensors = compute(sides.statement(), Assignment({}, {"X": np.zeros((1, 1, 1))}), FLOAT)
    assert tensors["Y"].defined.reshape(-1).tolist() == [False, True, False]


def test_reads_out_of_bounds_have_no_value():
    sides = Sides().operand("X", 3).operand("I", 3, dtype="int64")
    sides.left("Gather", "X I", "Y").right("Identity", "Y", "T")
    arrays = {"X": np.arange(3.0), "I": np.array([1, 7, -1])}
    tensors = compute(sides.statement(), Assignment({}, arrays), FLOAT)
    assert tensors["Y"].defined.tolist() == [True, False, True]
    assert tensors["Y"].values[[0, 2]].tolist() == [1, 2]


def test_a_choice_needs_only_what_it_takes():
    sides = Sides().operand("X", 2)
    i = Variable("i", 77)
    element = Read("X", (i,))
    safe = Select(Apply("=", (element, 0)), 5, Apply("/", (1, element)))
    from tensolog.catalog.operators.expand import Definition

    sides.left("Identity", "X", "Y").define(Definition("T", (2,), (i,), safe))
    tensors = compute(sides.statement(), Assignment({}, {"X": np.array([0.0, 4.0])}), FLOAT)
    assert tensors["T"].defined.all()
    assert tensors["T"].values.tolist() == [5, 0.25]


# ---------------------------------------------------------------------------------- integers


def test_integers_wrap_around_and_their_division_truncates():
    sides = Sides().operand("A", 2, dtype="int64").operand("B", 2, dtype="int64")
    sides.left("Div", "A B", "Y").right("Mul", "A A", "T")
    arrays = {"A": np.array([-7, 2**40]), "B": np.array([2, 0])}
    tensors = compute(sides.statement(), Assignment({}, arrays), FLOAT)
    assert tensors["Y"].defined.tolist() == [True, False]
    assert tensors["Y"].values[0] == -3
    assert tensors["T"].values.tolist() == [49, 0]


def test_casts_truncate_and_wrap_around():
    sides = Sides().operand("A", 3)
    sides.left("Cast", "A", "Y", to=3).right("Identity", "Y", "T")  # int8
    arrays = {"A": np.array([-1.75, 2.5, 300.0])}
    for arithmetic in (FLOAT, EXACT):
        result = compute(sides.statement(), Assignment({}, arrays), arithmetic)["Y"]
        assert result.values.tolist() == [-1, 2, 44]


# --------------------------------------------------------------------------------- intervals

FRACTIONS = st.fractions(min_value=-50, max_value=50, max_denominator=64)
FUNCTIONS = {
    "exp": math.exp, "erf": math.erf, "tanh": math.tanh, "sinh": math.sinh, "cosh": math.cosh,
    "atan": math.atan, "asinh": math.asinh, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


@given(st.sampled_from(sorted(FUNCTIONS)), FRACTIONS)
def test_intervals_enclose_functions(function, value):
    interval, _ = EXACT.apply(function, [EXACT.real(value)])
    low, high = bounds(interval[()])
    assert low <= Fraction(FUNCTIONS[function](float(value))) <= high
    assert high - low <= Fraction(1, 10**9) * max(1, abs(low))


@given(st.fractions(min_value=0, max_value=50, max_denominator=64))
def test_intervals_enclose_roots(value):
    interval, _ = EXACT.apply("sqrt", [EXACT.real(value)])
    low, high = bounds(interval[()])
    assert low * low <= value <= high * high


@given(FRACTIONS, FRACTIONS, FRACTIONS, FRACTIONS)
def test_intervals_enclose_what_is_computed_with_them(a, b, c, d):
    first = Interval(min(a, b), max(a, b))
    second = Interval(min(c, d), max(c, d))
    for x, y in itertools.product((a, b, (a + b) / 2), (c, d, (c + d) / 2)):
        for result, exact in (
            (first + second, x + y),
            (first - second, x - y),
            (first * second, x * y),
        ):
            low, high = bounds(result)
            assert low <= exact <= high


def test_what_intervals_cannot_tell_is_refused():
    around, _ = EXACT.apply("sin", [EXACT.real(3)])
    other, _ = EXACT.apply("sin", [EXACT.real(3)])
    with pytest.raises(UncertainError):
        EXACT.compare("<", around, other)
    difference, _ = EXACT.apply("-", [around, other])
    with pytest.raises(UncertainError):
        EXACT.apply("/", [EXACT.real(1), difference])


# ------------------------------------------------------------------------------------- sizes


def test_numbers_of_terms():
    n, m = Symbol("n"), Symbol("m")
    assert number(Apply("//", (Apply("-", (n, 7)), m)), {"n": 2, "m": 2}) == -3
    assert number(Select(Apply("<", (n, m)), n, Apply("//", (n, 0))), {"n": 1, "m": 2}) == 1
    with pytest.raises(NoValueError):
        number(Apply("%", (n, m)), {"n": 1, "m": 0})


@settings(deadline=None, max_examples=examples(15))
@given(st.integers(0, 10**6))
def test_sizes_meet_the_assumptions(seed):
    sides = Sides("n", "c", "m", "d", "h", "k")
    sides.operand("X", "n", "c", "h").operand("W", "m", "d", "k")
    sides.left("Conv", "X W", "Y", group=2).right("Identity", "Y", "T")
    statement = sides.statement()
    sizes = SymbolSampler(statement, seed)
    for drawn in itertools.islice(filter(None, sizes.schedule()), 4):
        assert all(number(condition, drawn) for condition in statement.assumptions)
        assert drawn["c"] == 2 * drawn["d"]
        assert all(value >= 0 for value in drawn.values())


def test_one_size_is_drawn_far_beyond_the_others():
    sizes = SymbolSampler(wrong_from(40))
    drawn = list(itertools.islice(filter(None, sizes.schedule()), 60))
    assert any(d["h"] >= 40 and d["n"] <= 2 for d in drawn)
    assert any(d["n"] == 0 for d in drawn)


def test_sizes_at_which_a_condition_fails():
    sizes = SymbolSampler(quotient())
    assert sizes.violating(Apply("<=", (Symbol("n"), 5)))["n"] > 5
    assert sizes.violating(Apply(">=", (Symbol("n"), 0))) is None


def test_too_large_sizes_are_refused():
    n = Symbol("n")
    i, k = Variable("i", 60), Variable("k", 61)
    from tensolog.catalog.operators.expand import Definition

    huge = Reduce("sum", (k,), (Apply("*", (n, n)),), True, Read("A", (i,)))
    sides = Sides("n").operand("A", "n").left("Identity", "A", "Y")
    statement = sides.define(Definition("T", (n,), (i,), huge)).statement()
    with pytest.raises(TooLargeError):
        compute(statement, Assignment({"n": 1000}, {"A": np.zeros(1000)}), FLOAT)
