"""Bits proved equal in the theory of floating-point numbers, refuted, or left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from tensolog.catalog.terms.index_notation import Apply, Read, Select, Symbol, Variable
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.floating.bit_equality import bit_equality, moves_only, unfit
from tensolog.rules.gate.floating.ieee754 import CHOICES, Formulas, NotFloatingError, Numbers
from tensolog.rules.gate.floating.inlining import NotScalarError
from tensolog.rules.gate.floating.input_families import feeds
from tensolog.rules.gate.floating.scalar_bits import Problem, equal_bits
from tensolog.rules.gate.onnx_models import draw_sides
from tensolog.rules.prover.cases.case_split import statements

from tests.campaigns import examples

SHIPPED = {rule.name: rule for rule in load_rules()}


def rule_of(given, match, rewrite, equal="exact", more=""):
    lines = ["rule R", "  tags explore", "  opset >= 13", f"  given {given}", "  match"]
    lines += [f"    {line}" for line in match] + ["  rewrite"]
    lines += [f"    {line}" for line in rewrite] + [f"  equal {equal}", more]
    (rule,) = parse_rules("\n".join(lines) + "\n")
    return rule


def bits(rule, timeout=10.0):
    return {b.dtype: b for b in bit_equality(rule, statements(rule), proved=True, timeout=timeout)}


def results(*sides_, given="X float", **more):
    return {dtype: b.result for dtype, b in bits(rule_of(given, *sides_, **more)).items()}


BOTH = {"float32": "proved", "float16": "proved"}
NEITHER = {"float32": "refuted", "float16": "refuted"}

# ------------------------------------------------------------------------------ known laws


def test_halving_is_a_product():
    assert results(["Y = Div(X, 2)"], ["Y = Mul(X, 0.5)"]) == BOTH


def test_a_third_is_not():
    equality = bits(rule_of("X float", ["Y = Div(X, 3)"], ["Y = Mul(X, 0.3333333333333333)"]))[
        "float32"
    ]
    assert (equality.result, equality.method) == ("refuted", "search")
    # the example is one: in float32 the two do differ there
    value = np.float32(float(equality.reason.split(" = ")[1].split(" (")[0]))
    assert value / np.float32(3) != value * np.float32(0.3333333333333333)
    assert "0x" in equality.reason


def test_sums_do_not_associate():
    declarations = "X [*s] float, Z [*s], W [*s]"
    assert (
        results(["Y = Add(Add(X, Z), W)"], ["Y = Add(X, Add(Z, W))"], given=declarations) == NEITHER
    )


def test_sums_commute():
    declarations = "X [*s] float, Z [*s]"
    by_dtype = bits(rule_of(declarations, ["Y = Sub(Add(X, Z), Z)"], ["Y = Sub(Add(Z, X), Z)"]))
    assert {b.result for b in by_dtype.values()} == {"proved"}
    assert {b.method for b in by_dtype.values()} == {"same"}


def test_a_second_relu_does_nothing():
    assert results(["Y = Relu(Relu(X))"], ["Y = Relu(X)"]) == BOTH


def test_adding_zero_fails_for_a_negative_zero():
    in_float32 = bits(rule_of("X float", ["Y = Add(X, 0)"], ["Y = X"]))["float32"]
    assert in_float32.result == "refuted"
    assert "X = -0 (0x80000000)" in in_float32.reason


def test_subtracting_zero_fails_because_the_zero_may_be_negative():
    assert results(["Y = Sub(X, 0)"], ["Y = X"]) == NEITHER


def test_products_by_powers_of_two():
    assert results(["Y = Mul(X, 1)"], ["Y = X"]) == BOTH
    assert results(["Y = Add(X, X)"], ["Y = Mul(X, 2)"]) == BOTH
    # 2 * (X / 2) is X but for subnormal numbers, whose last digit is lost
    assert results(["Y = Mul(Mul(X, 0.5), 2)"], ["Y = X"]) == NEITHER


def test_finite_math_is_supposed_where_a_rule_says_so():
    declarations = "X [*s] float32, Z [*s]"
    sides_ = (["Y = Not(Less(X, Z))"], ["Y = GreaterOrEqual(X, Z)"])
    assert results(*sides_, given=declarations) == {"float32": "refuted"}
    equality = bits(rule_of(declarations, *sides_, more="  finite_math"))["float32"]
    assert (equality.result, equality.finite) == ("proved", True)


def test_the_two_zeros_of_a_maximum_are_for_each_kernel_to_choose():
    declarations = "X [*s] float, Z [*s]"
    in_float32 = bits(rule_of(declarations, ["Y = Max(X, Z)"], ["Y = Max(Z, X)"]))["float32"]
    assert in_float32.result == "unknown"
    assert "zero" in in_float32.reason
    # a maximum of a number and itself is no choice
    assert results(["Y = Max(X, X)"], ["Y = X"]) == BOTH


def test_truth_values_have_no_rounding():
    by_dtype = bits(rule_of("X bool", ["Y = Not(Not(X))"], ["Y = X"]))
    assert {dtype: b.result for dtype, b in by_dtype.items()} == {"bool": "proved"}
    declarations = "X [*s] float, Z [*s]"
    less, greater = ["Y = Not(Less(X, Z))"], ["Y = GreaterOrEqual(X, Z)"]
    assert results(less, greater, given=declarations) == NEITHER  # a NaN is neither
    assert results(["Y = Less(X, Z)"], ["Y = Greater(Z, X)"], given=declarations) == BOTH


def test_arithmetic_may_move():
    by_dtype = bits(SHIPPED["MergeTransposesIntoBinary"])
    assert {b.result for b in by_dtype.values()} == {"proved"}


def test_constants_are_those_of_the_model():
    """1 / sqrt(2) is read as such by the prover; a model holds its rounding."""
    declarations = "X [*s] float"
    law = ["Y = Mul(X, 0.7071067811865476)"], ["Y = Mul(0.7071067811865476, X)"]
    assert results(*law, given=declarations) == BOTH
    law = ["Y = Mul(X, 0.7071067811865476)"], ["Y = Div(X, 1.4142135623730951)"]
    assert results(*law, given=declarations) == NEITHER


# ------------------------------------------------------------------- movement, and the rest


@pytest.mark.parametrize(
    "name", ["EliminateIdentity", "JoinTransposes", "JoinReshapes", "EliminateSliceOfConcat"]
)
def test_what_only_moves_is_exact_once_it_is_proved(name):
    (equality,) = bit_equality(SHIPPED[name], [], proved=True)
    assert (equality.dtype, equality.result, equality.method) == ("any", "proved", "movement")
    (equality,) = bit_equality(SHIPPED[name], [], proved=False)
    assert equality.result == "unknown"


def test_a_cast_moves_only_to_its_own_type():
    assert moves_only(SHIPPED["EliminateCast"])
    declarations = "X float32, dtype(Y) = dtype(Y)"
    assert not moves_only(rule_of(declarations, ["Y = Cast<to=10>(X)"], ["Y = Identity(X)"]))


def test_a_number_that_fills_may_be_a_negative_zero():
    declarations = "p const, v scalar, v = 0"
    rule = rule_of(declarations, ["Y = Pad(X, p, v)"], ["Y = Pad(X, p, 0)"])
    assert not moves_only(rule)
    assert bit_equality(rule, [], proved=True)[0].result != "proved"
    rule = rule_of("p const", ["Y = Pad(Identity(X), p, v)"], ["Y = Pad(X, p, v)"])
    assert moves_only(rule)
    rule = rule_of("X float", ["Y = Concat<axis=0>(X, 0)"], ["Y = Identity(Concat<axis=0>(X, 0))"])
    assert not moves_only(rule)


@pytest.mark.parametrize("operator", ["Exp", "Where", "MatMul", "Pow", "LeakyRelu"])
def test_kernels_that_may_round_as_they_like_are_left_alone(operator):
    arguments = {"Where": "C, X, Z", "MatMul": "X, Z", "Pow": "X, Z"}.get(operator, "X")
    line = f"Y = {operator}({arguments})"
    rule = rule_of("X float32", [line], [line])
    assert operator in unfit(rule)
    (equality,) = bit_equality(rule, statements(rule), proved=True)
    assert (equality.result, equality.method) == ("unknown", "none")
    assert operator in equality.reason


def test_the_kernels_that_proofs_rely_on_do_as_supposed():
    """Relu, Clip, Max and Min hand NaN on; division, root and reciprocal round once."""
    rng = np.random.default_rng(0)
    declarations = "X [*s] float32, Z [*s]"
    for operator, inputs in (("Max", "X, Z"), ("Min", "X, Z"), ("Relu", "X"), ("Clip", "X")):
        rule = rule_of(
            declarations if "Z" in inputs else "X float32", [f"Y = {operator}({inputs})"], ["Y = X"]
        )
        for pair in draw_sides(rule, 4, 0, "float32"):
            drawn = feeds(pair.operands, rng, "normal")
            for array in drawn.values():
                array[rng.random(array.shape) < 0.3] = np.nan
            expected = np.isnan(sum(drawn[name] for name in inputs.split(", ")))
            np.testing.assert_array_equal(np.isnan(pair.run(drawn)[0][0]), expected)
    exact = {"Div(X, Z)": np.divide, "Mul(X, Z)": np.multiply, "Sqrt(X)": np.sqrt,
             "Reciprocal(X)": np.reciprocal, "Add(X, Z)": np.add}  # fmt: skip
    for text, function in exact.items():
        rule = rule_of(declarations if "Z" in text else "X float32", [f"Y = {text}"], ["Y = X"])
        pair = draw_sides(rule, 4, 0, "float32")[-1]
        drawn = {
            o.name: np.asarray(np.exp(rng.uniform(-60, 60, o.shape)), o.dtype)
            for o in pair.operands
        }
        names = text.split("(")[1].rstrip(")").split(", ")
        with np.errstate(all="ignore"):
            expected = function(*(drawn[name] for name in names))
        np.testing.assert_array_equal(pair.run(drawn)[0][0], expected)


# --------------------------------------------------------------------------------- oracles

X, Z = (Read(name, (Variable("i", 1),)) for name in "XZ")
PLACES = {X: "X", Z: "Z"}
LEAVES = st.sampled_from([X, Z, 0, 1, 2, 0.5, -3, 0.1])


def combined(inner):
    unary = st.builds(lambda f, a: Apply(f, (a,)), st.sampled_from(["neg", "abs", "sqrt"]), inner)
    functions = st.sampled_from(["+", "-", "*", "/", "max:K", "min:K"])
    binary = st.builds(lambda f, a, b: Apply(f, (a, b)), functions, inner, inner)
    choice = st.builds(
        lambda a, b, c, d: Select(Apply("<", (a, b)), c, d), X_OR_Z, X_OR_Z, inner, inner
    )
    return unary | binary | choice


X_OR_Z = st.sampled_from([X, Z])
TERMS = st.recursive(LEAVES, combined, max_leaves=5)


@settings(max_examples=examples(40))
@for_all(TERMS, st.sampled_from(["float32", "float16"]), st.integers(0, 2**32 - 1))
def test_formulas_mean_what_numpy_computes(term, dtype, seed):
    """At random numbers, every kind among them, Z3 evaluates a term to NumPy's bits."""
    import z3

    formulas = Formulas(dtype, PLACES, frozenset())
    try:
        formula = formulas.value(term)
    except NotFloatingError:
        return  # no operand in it
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 3.0]
    known = {
        name: np.asarray(rng.choice([*special, *rng.standard_normal(7)]), dtype) for name in "XZ"
    }
    value = Numbers(dtype, PLACES, known, CHOICES[0]).value(term)
    kept = []  # the first operand on a tie, as CHOICES[0]
    for kind in ("max", "min"):
        kept.append((z3.Bool(f"{kind} of -0.0 and 0.0 is -0.0 in K"), z3.BoolVal(True)))
        kept.append((z3.Bool(f"{kind} of 0.0 and -0.0 is -0.0 in K"), z3.BoolVal(False)))
    numbers = [(z3.FP(n, formulas.sort), _literal(a, formulas.sort)) for n, a in known.items()]
    result = z3.simplify(z3.substitute(formula, *kept, *numbers))
    assert z3.is_true(z3.simplify(result == _literal(value, formulas.sort)))


def _literal(array, sort):
    import z3

    return z3.fpNaN(sort) if np.isnan(array) else z3.FPVal(float(array), sort)


def test_scalars_that_conditions_bound():
    """c <= 0 makes max(c, -1) ... only conditions that are stated are supposed."""
    c = Symbol("c", "real")
    source, target = Apply("abs", (Apply("*", (c, X)),)), Apply("*", (c, Apply("abs", (X,))))
    free = Problem(source, target, {X: "X"})
    assert equal_bits(free, "float16", finite=False, timeout=20).result == "refuted"
    bound = Problem(source, target, {X: "X"}, assumptions=(Apply(">", (c, 0)),))
    assert equal_bits(bound, "float16", finite=False, timeout=20).result == "proved"


def test_one_operand_read_at_two_places_is_not_refuted_by_a_search():
    other = Read("X", (Variable("j", 2),))
    problem = Problem(X, other, {X: "X", other: "X'"}, distinct=False)
    assert equal_bits(problem, "float16", finite=False, timeout=10).result == "unknown"


def test_sums_over_an_index_are_no_scalar_expression():
    from tensolog.catalog.operators.expand import Definition
    from tensolog.catalog.terms.index_notation import Reduce
    from tensolog.rules.gate.floating.inlining import inlined_element

    i, k = Variable("i", 1), Variable("k", 2)
    total = Definition("S", (3,), (i,), Reduce("sum", (k,), (4,), True, Read("X", (i, k))))
    with pytest.raises(NotScalarError, match="sum"):
        inlined_element(total, {"S": total}, (i,))
