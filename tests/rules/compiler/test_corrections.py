"""Partial equivalences as they are applied: with their correction, as any other rule."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.explain.reason_text import explain_text
from tensolog.rules import correction, instantiate, parse_rules, promise, select_rules
from tensolog.rules.gate.quick_check import quick_check
from tensolog.rules.sampling.instances import instances

from tests.optimizer.builders import model, value
from tests.optimizer.builders import run as run_model
from tests.optimizer.egraph.pricing import searched

from ..partial_rule import SPLIT_CONV
from ..rewriting import apply, run

TEXT = f"\n# SplitConvIntoHalves cuts an image.{SPLIT_CONV}"
UNCORRECTED = TEXT[: TEXT.index("  correct")] + TEXT[TEXT.index("  equal") :]


def rule_of(text=TEXT):
    (rule,) = parse_rules(text)
    return rule


def outputs(rule):
    """Both sides of a rule on instances of it."""
    for instance in instances(rule, 3, 7, "float32"):
        feeds = instance.feeds(np.random.default_rng(0), "normal")
        rewritten = apply(instantiate(instance.match, instance.view), instance.view)
        yield run(instance.view.model, feeds), run(rewritten, feeds)


def test_a_correction_is_applied_with_the_rest():
    seen = list(outputs(rule_of()))
    assert len(seen) == 3
    for source, target in seen:
        np.testing.assert_allclose(source[0], target[0], rtol=1e-4, atol=1e-4)


def test_what_the_correction_mends_differs_without_it():
    for source, target in outputs(rule_of(UNCORRECTED)):
        unequal = ~np.isclose(source[0], target[0], rtol=1e-4, atol=1e-4)
        assert set(np.argwhere(unequal)[:, 2]) == {3, 4}


@pytest.mark.parametrize(("text", "kept"), [(TEXT, "rounding"), (UNCORRECTED, "partial")])
def test_only_what_is_made_whole_may_be_applied(text, kept):
    rule = rule_of(text)
    assert promise(rule) == kept
    chosen = select_rules([rule], opset=17, target="onnx", allow=("exact", "rounding"))
    assert bool(chosen) == (kept == "rounding")
    assert not select_rules([rule], opset=17, target="onnx", allow=("exact",))


def test_a_false_correction_is_seen_on_numbers():
    false = rule_of(TEXT.replace("[2], [6], [2]", "[1], [5], [2]"))
    assert quick_check(false, 2.0).status == "refuted"
    assert quick_check(rule_of(), 1.0).status == "sound"


def test_where_it_differs_and_what_mends_it_is_told():
    sentence = correction(rule_of())
    assert sentence == (
        "equal except where i2 = 3 or i2 = 4; corrected by Slice, Conv, Slice, Slice, Concat"
    )
    assert correction(rule_of(UNCORRECTED)) == ""


def convolved():
    """A model of one convolution."""
    weights = np.random.default_rng(1).standard_normal((3, 2, 3, 3)).astype(np.float32)
    return model(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        [value("x", [1, 2, 12, 5])],
        [value("y", [1, 3, 12, 5])],
        {"w": weights},
    )


@pytest.mark.parametrize("taken", [True, False])
def test_a_plan_says_region_correction_and_its_cost(taken):
    """The convolution of the whole image costs 100 µs or 3; all else 1, five of which correct."""
    whole = 100e3 if taken else 3e3

    def price(kernel):
        of_image = kernel.op_type == "Conv" and kernel.inputs[0].shape[2] == 12
        return whole if of_image else 1e3

    built = convolved()
    plan, search_result = searched(built, [rule_of()], price=price)
    steps = search_result.plans[0].steps
    assert [step.rule for step in steps] == (["SplitConvIntoHalves"] if taken else [])
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 2, 12, 5)).astype(np.float32)}
    (before,), (after,) = run_model(built, feeds), run_model(plan, feeds)
    np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
    if taken:
        text = str(explain_text(steps, []))
        assert "equal except where i2 = 3 or i2 = 4" in text
        assert "corrected by Slice, Conv, Slice, Slice, Concat (5.0 µs)" in text
