"""NaN, infinities, zeros, subnormal numbers and overflow on both sides of a rule."""

from __future__ import annotations

import numpy as np
import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.floating.input_families import KINDS, feeds, inject
from tensolog.rules.gate.floating.special_values import specials, unlike
from tensolog.rules.gate.onnx_models import draw_sides, negated_zeros

SHIPPED = {rule.name: rule for rule in load_rules()}


def rule_of(given, match, rewrite, equal="rounding", more=""):
    lines = ["rule R", "  tags explore", f"  given {given}", "  match"]
    lines += [f"    {line}" for line in match] + ["  rewrite"]
    lines += [f"    {line}" for line in rewrite] + [f"  equal {equal}", more]
    (rule,) = parse_rules("\n".join(lines) + "\n")
    return rule


def specials_of(rule, samples=8, dtype="float32"):
    pairs = draw_sides(rule, samples, 0, dtype)
    assert pairs
    return {special.kind: special for special in specials(rule, pairs, dtype, 0)}


def verdicts(rule):
    return {kind: special.verdict for kind, special in specials_of(rule).items()}


def test_an_identity_keeps_everything():
    assert verdicts(SHIPPED["EliminateIdentity"]) == dict.fromkeys(KINDS, "kept")


def test_adding_zero_changes_the_sign_of_a_zero_which_rounding_allows():
    rule = rule_of("X float", ["Y = Add(X, 0)"], ["Y = X"])
    zeros = dict.fromkeys(("zero", "mixed"), "differs")
    assert verdicts(rule) == {**dict.fromkeys(KINDS, "kept"), **zeros}
    exact = rule_of("X float", ["Y = Add(X, 0)"], ["Y = X"], "exact")
    assert specials_of(exact)["zero"].verdict == "broken"
    assert "-0.0" in specials_of(exact)["zero"].example


def test_a_zero_of_the_match_may_be_negative():
    """Subtracting 0.0 is exact, subtracting -0.0 is not, and both match."""
    rule = rule_of("X float", ["Y = Sub(X, 0)"], ["Y = X"], "exact")
    assert specials_of(rule)["zero"].verdict == "broken"
    rule = rule_of("X float", ["Y = Mul(X, 1)"], ["Y = X"], "exact")
    assert verdicts(rule) == dict.fromkeys(KINDS, "kept")
    (pair,) = draw_sides(rule_of("X float", ["Y = Sub(X, 0)"], ["Y = X"]), 1, 0, "float32")
    other = negated_zeros(pair, np.random.default_rng(0))
    constants = [a for a in other.instance.view.constants.values() if a.size == 1 and a.item() == 0]
    assert any(np.signbit(array).all() for array in constants)
    assert negated_zeros(draw_sides(rule, 1, 0, "float32")[0], np.random.default_rng(0)) is None


def test_zero_times_infinity_needs_finite_math():
    """x * 0 is 0 for every real number; for an infinity and for NaN it is NaN."""
    sides_ = (["Y = Sub(X, X)"], ["Y = Mul(X, 0)"])
    assert set(verdicts(rule_of("X float", *sides_)).values()) <= {"kept", "differs"}
    sides_ = (["Y = Sub(Add(X, Z), Z)"], ["Y = X"])
    declarations = "X [*s] float32, Z [*s]"
    broken = specials_of(rule_of(declarations, *sides_))
    assert broken["positive_infinity"].verdict == "broken"
    assert "nan in the source" in broken["positive_infinity"].example
    kept = specials_of(rule_of(declarations, *sides_, more="  finite_math"))
    assert kept["positive_infinity"].verdict == "differs"
    assert kept["nan"].verdict in ("kept", "differs")


def test_an_intermediate_result_that_overflows_breaks_rounding():
    declarations = "X [*s] float32, Z [*s], c scalar"
    match, rewrite = ["P = Mul(Z, c)", "Y = Mul(X, P)"], ["Y = Mul(Mul(X, Z), c)"]
    assert specials_of(rule_of(declarations, match, rewrite), 12)["overflow"].verdict == "broken"
    allowed = rule_of(declarations, match, rewrite, more="  finite_math")
    assert specials_of(allowed, 12)["overflow"].verdict == "differs"


def test_a_root_of_a_negative_infinity():
    special = specials_of(SHIPPED["ConvertPowToSqrt"])["negative_infinity"]
    assert special.verdict == "differs"
    assert "inf in the source and nan in the target" in special.example


def test_folding_a_batch_normalization_is_for_finite_numbers():
    rule = SHIPPED["FoldBatchNormalizationIntoConv"]
    assert rule.finite_math
    assert "broken" not in verdicts(rule).values()
    assert specials_of(rule)["positive_infinity"].verdict == "differs"


def test_kernels_enlarged_with_zeros_break_under_infinity():
    """A 1x1 convolution as a 3x3 one with zeros around: 0 times an infinite neighbour is NaN."""
    rule = rule_of(
        "X [n, c, h, w] float32, W [m, c, 1, 1]",
        ["Y = Conv(X, W)"],
        [
            "V = Pad(W, [0, 0, 1, 1, 0, 0, 1, 1])",
            "Y = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(X, V)",
        ],
    )
    special = specials_of(rule)["positive_infinity"]
    assert special.verdict == "broken"
    assert "nan in the target" in special.example


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_put_in(kind):
    (pair,) = draw_sides(SHIPPED["ReorderMatMulsToRight"], 1, 0, "float32")
    rng = np.random.default_rng(0)
    plain = feeds(pair.operands, rng, "normal")
    seen = 0
    for _ in range(30):
        data = inject(pair.operands, plain, rng, kind)
        changed = np.concatenate([data[n][data[n] != plain[n]].reshape(-1) for n in plain])
        seen += changed.size
        expected = {
            "nan": np.isnan(changed),
            "positive_infinity": changed == np.inf,
            "negative_infinity": changed == -np.inf,
            "zero": changed == 0,
            "subnormal": np.abs(changed) < 1e-11,  # the third root of the least normal number
            # powers and exponentials of these leave the range, but for what makes up for others
            "overflow": (np.abs(changed) > 30) | (np.abs(changed) < 1e-9),
            "halfway": np.abs(changed) < 1e3,
            "mixed": ~np.isfinite(changed) | (np.abs(changed) <= 1) | (np.abs(changed) > 1e38),
        }[kind]
        assert expected.all()
    assert seen > 0
    assert all((data.dtype == np.float32) for data in plain.values())


# -------------------------------------------------------------------------- one comparison


def how(source, target, *, exact=False, bounded=True):
    difference = unlike(
        np.array(source, np.float32),
        np.array(target, np.float32),
        "Y",
        exact=exact,
        bounded=bounded,
    )
    return difference and difference.how


def test_differences_are_told_apart():
    nan, inf = np.nan, np.inf
    assert how([nan, 1], [nan, 1]) is None
    assert how([nan, 1], [1, 1]) == "finite"
    assert how([inf], [nan]) == "finite"
    assert how([inf], [-inf]) == "infinite"
    assert how([0.0], [-0.0]) == "sign"
    assert how([1.0], [1.0000001]) is None
    assert how([1.0], [1.0000001], exact=True) == "bits"
    assert how([1.0], [2.0]) == "number"
    assert how([1.0], [2.0], bounded=False) is None
    assert unlike(np.array([1]), np.array([2]), "Y", exact=False, bounded=True).how == "other"
