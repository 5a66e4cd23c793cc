"""Rounding of both sides of a rule: measured against more digits, unsafe rules told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.floating.bit_equality import moves_only, unfit
from tensolog.rules.gate.floating.input_families import FAMILIES, feeds
from tensolog.rules.gate.floating.record import floating_record
from tensolog.rules.gate.floating.reference import Reference
from tensolog.rules.gate.floating.rounding import errors, roundings, same_bits
from tensolog.rules.gate.onnx_models import NotRunError, TargetError, draw_sides

SHIPPED = {rule.name: rule for rule in load_rules()}


def single_rule(text):
    (rule,) = parse_rules(text)
    return rule


def rule_of(given, match, rewrite, equal="rounding", more=""):
    lines = [
        "rule R",
        "  tags explore",
        *([f"  given {given}"] if given else []),
        "  match",
        *(f"    {line}" for line in match),
        "  rewrite",
        *(f"    {line}" for line in rewrite),
        f"  equal {equal}",
        more,
    ]
    return single_rule("\n".join(lines) + "\n")


def variance():
    """LayerNormalization with the variance as E[x^2] - mu^2: equal as real numbers."""
    return single_rule(
        """
rule R
  tags    explore
  opset   >= 18
  given   X [*b, n] float, l const, e scalar, scale [n], shift [n],
          axes(ints(l), rank(X)) = [rank(X) - 1],
          fits(e, V),
          n > 0
  match
    M = ReduceMean<keepdims=1>(X, l)
    D = Sub(X, M)
    V = ReduceMean<keepdims=1>(Mul(D, D), l)
    N = Div(D, Sqrt(Add(V, e)))
    Y = Add(Mul(N, scale), shift)
  rewrite
    A = ReduceMean<keepdims=1>(X, l)
    Q = ReduceMean<keepdims=1>(Mul(X, X), l)
    W = Sub(Q, Mul(A, A))
    O = Div(Sub(X, A), Sqrt(Add(W, e)))
    Y = Add(Mul(O, scale), shift)
  equal   rounding
"""
    )


def measured(rule, dtype="float32", samples=8):
    return {r.family: r for r in roundings(draw_sides(rule, samples, 0, dtype), dtype, 0)}


# --------------------------------------------------------------------------------- rounding


def test_variance_as_a_difference_of_means_is_unsafe():
    by_family = measured(variance())
    assert by_family["shifted"].verdict == "unsafe"
    assert by_family["shifted"].max_ratio > 100
    assert by_family["normal"].verdict != "unsafe"
    record = floating_record(variance(), proved=True)
    assert record.status == "unsafe"
    assert any("numerically unsafe" in problem for problem in record.problems)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_rounding_is_unsafe_in_other_element_types(dtype):
    assert measured(variance(), dtype)["shifted"].verdict == "unsafe"


def test_a_difference_of_squares_is_unsafe_and_its_product_is_not():
    declarations = "X [*s] float32, Z [*s]"
    product, squares = ["Y = Mul(Sub(X, Z), Add(X, Z))"], ["Y = Sub(Mul(X, X), Mul(Z, Z))"]
    assert measured(rule_of(declarations, product, squares))["shifted"].verdict == "unsafe"
    back = measured(rule_of(declarations, squares, product))
    assert {r.verdict for r in back.values()} <= {"rounds", "equal"}


def test_a_target_that_overflows_on_ordinary_numbers_is_unsafe():
    by_family = measured(rule_of("X float32", ["Y = Softplus(X)"], ["Y = Log(Add(Exp(X), 1))"]))
    assert by_family["shifted"].verdict == "unsafe"
    assert "becomes inf" in by_family["shifted"].lost


def test_another_order_of_a_product_is_safe():
    by_family = measured(SHIPPED["ReorderMatMulsToRight"])
    assert {r.verdict for r in by_family.values()} == {"rounds"}
    assert set(by_family) == set(FAMILIES)
    for r in by_family.values():
        assert r.median_ratio < 4
        assert r.samples > 0


def test_moving_data_keeps_all_bits():
    assert all(r.equal for r in measured(SHIPPED["JoinTransposes"]).values())


def test_error_ratios_have_a_floor():
    """A source without any error doesn't make the ratio infinite, nor the rule unsafe."""
    by_family = measured(rule_of("X float32", ["Y = Mul(X, 2)"], ["Y = Div(X, 0.5)"]))
    assert all(r.max_ratio == 1 and r.source_error < 1e-6 for r in by_family.values())


def test_errors_are_relative_to_the_largest_output():
    truth = np.array([100.0, 1.0])
    source = np.array([100.0, 1.0], np.float32)
    target = np.array([101.0, 1.0], np.float32)
    assert errors(source, target, truth) == (0.0, pytest.approx(0.01))
    assert errors(source, target, truth, 1000.0) == (0.0, pytest.approx(0.001))
    assert errors(np.array([np.inf], np.float32), target[:1], truth[:1]) is None
    assert errors(np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1)) is None


def test_bits_are_compared_up_to_the_payload_of_nan():
    nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert same_bits(nan, np.array([np.nan], np.float32))
    assert not same_bits(np.array([0.0]), np.array([-0.0]))
    assert not same_bits(np.array([0.0]), np.array([0.0], np.float32))
    assert same_bits(np.array([True]), np.array([True]))


# ---------------------------------------------------------------------- sides and yardstick


@pytest.mark.parametrize("name", ["FoldBatchNormalizationIntoConv", "ConvertReduceLogSumExp"])
def test_the_yardstick_is_the_source_in_float64(name):
    for pair in draw_sides(SHIPPED[name], 3, 1, "float32"):
        drawn = feeds(pair.operands, np.random.default_rng(0), "normal")
        truth = Reference(pair, "float32").run(drawn)
        assert truth[0].dtype == np.float64
        np.testing.assert_allclose(truth[0], pair.run(drawn)[0][0], rtol=1e-4, atol=1e-5)


def test_float64_is_measured_with_more_digits():
    pair = draw_sides(SHIPPED["ConvertDivToMul"], 1, 1, "float64")[0]
    drawn = feeds(pair.operands, np.random.default_rng(0), "normal")
    truth = Reference(pair, "float64").run(drawn)[0]
    assert truth.dtype == np.longdouble
    exact = drawn["X"].astype(np.longdouble) / drawn["c"].astype(np.longdouble)
    np.testing.assert_array_equal(truth, exact)


def test_constants_of_both_sides_vary_and_numbers_of_the_rule_stay():
    pair = draw_sides(SHIPPED["FoldScaleIntoMatMulWeight"], 1, 0, "float32")[0]
    assert {"X", "W", "s"} == {operand.name for operand in pair.operands}
    pair = draw_sides(SHIPPED["FuseLeakyRelu"], 1, 0, "float32")[0]
    assert "a" not in {operand.name for operand in pair.operands}


def test_variances_stay_positive():
    rule = SHIPPED["ConvertBatchNormalizationToMulAdd"]
    (pair,) = draw_sides(rule, 1, 0, "float32")
    for family in FAMILIES:
        drawn = feeds(pair.operands, np.random.default_rng(5), family)
        assert (drawn["var"] > 0).all()


def test_families_do_what_they_say():
    (pair,) = draw_sides(SHIPPED["ReorderMatMulsToRight"], 1, 3, "float64")
    rng = np.random.default_rng(2)
    big = {o.name for o in pair.operands if np.prod(o.shape) >= 4}
    shifted = feeds(pair.operands, rng, "shifted")
    assert all(abs(shifted[n].mean()) > 5 * shifted[n].std() for n in big)
    for _ in range(20):
        drawn = feeds(pair.operands, rng, "cancelling")
        assert all(np.ptp(np.abs(a)) <= 0.02 * np.abs(a).max() for a in drawn.values() if a.size)


def test_a_target_without_a_kernel_is_told_from_a_source_without_one():
    rule = rule_of("X float32|float64", ["Y = Add(X, X)"], ["Y = Mul(Softplus(X), 2)"])
    pairs = draw_sides(rule, 2, 0, "float64")
    with pytest.raises(TargetError):
        roundings(pairs, "float64", 0)
    record = floating_record(rule)
    assert any("float64: ONNX Runtime runs the source" in p for p in record.problems)
    rule = rule_of("X float32|float64", ["Y = Softplus(X)"], ["Y = Log(Add(Exp(X), 1))"])
    pairs = draw_sides(rule, 2, 0, "float64")
    assert pairs
    with pytest.raises(NotRunError):
        pairs[0].run(feeds(pairs[0].operands, np.random.default_rng(0), "normal"))
    assert roundings(pairs, "float64", 0) == []


def test_pads_that_hold_a_whole_window_are_not_run():
    pool = "AveragePool<kernel_shape=[1, 1], pads=[1, 1, 1, 1]>"
    rule = rule_of("X float", [f"Y = Neg({pool}(X))"], [f"Y = {pool}(Neg(X))"])
    (both,) = draw_sides(rule, 1, 0, "float32")
    with pytest.raises(NotRunError, match="Pad should be smaller"):
        both.run(feeds(both.operands, np.random.default_rng(0), "normal"))


def test_types_that_a_rule_excludes_are_not_measured():
    assert draw_sides(SHIPPED["FuseGeluTanh"], 2, 0, "float64") == []


def test_rules_of_truth_values_are_run_too():
    rule = rule_of("X bool", ["Y = Not(Not(X))"], ["Y = X"], "exact")
    record = floating_record(rule, proved=True)
    assert record.status == "exact"
    assert {r.verdict for r in record.roundings} == {"equal"}


# ------------------------------------------------------------------------------ the record


def test_a_record_is_the_same_every_time():
    first, second = (floating_record(SHIPPED["ConvertPowToSquare"]) for _ in range(2))
    assert first.roundings == second.roundings
    assert first.specials == second.specials
    assert first.hash == SHIPPED["ConvertPowToSquare"].hash


def test_a_record_sums_itself_up():
    record = floating_record(SHIPPED["ConvertDivToMul"], proved=True)
    summary = record.summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["status"] == "rounds"
    assert summary["bits"] == {"float32": "refuted finite"}
    assert {r.dtype for r in record.roundings} == {"float32", "float64"}


def test_a_rule_of_exact_class_that_rounds_breaks_it():
    rule = rule_of("X float32", ["Y = Div(X, 3)"], ["Y = Mul(X, 0.3333333333333333)"], "exact")
    record = floating_record(rule)
    assert record.status == "broken"
    assert any("bits differ" in problem for problem in record.problems)


def test_an_exact_rule_is_recorded_as_such():
    assert floating_record(SHIPPED["EliminateNegPair"], proved=True).status == "exact"
    assert floating_record(SHIPPED["JoinReshapes"], proved=True).status == "exact"
    assert floating_record(SHIPPED["JoinReshapes"]).status == "tested"  # not known to be proved


FITTING = [r.name for r in SHIPPED.values() if not (unfit(r) or moves_only(r) or r.finite_math)]


@pytest.mark.parametrize("name", FITTING[::3])
def test_what_is_proved_of_bits_is_what_runs_show(name):
    record = floating_record(SHIPPED[name], proved=True, samples=4)
    if all(bit.result == "proved" for bit in record.bits):
        assert all(rounding.verdict == "equal" for rounding in record.roundings)
        assert all(special.verdict == "kept" for special in record.specials)


def test_a_rule_without_instances_is_not_called_good():
    rule = rule_of("X [m, n] float32, m > 1000000", ["Y = Exp(X)"], ["Y = Exp(Abs(X))"])
    record = floating_record(rule)
    assert record.roundings == ()
    assert record.status == "unmeasured"


def test_a_right_side_that_cannot_be_made_is_a_problem():
    match = ["Y = Concat<axis=0>(*A)", "*B = Split<axis=0>(Y, s)"]
    rule = rule_of("s const, Y shared", match, ["*B = *A"], "exact")  # of whatever sizes
    record = floating_record(rule, samples=20)
    assert any("the right side needs a value" in problem for problem in record.problems)
    assert record.status == "broken"
