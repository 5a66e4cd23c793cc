"""Translated rules under ONNX Runtime give the numbers that the foreign ones have."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tensolog.rules import parse_rules
from tensolog.rules.foreign import ForeignRule, candidates, read_foreign
from tensolog.rules.foreign.equations import read_equations
from tensolog.rules.foreign.jsonl import read_lines
from tensolog.rules.foreign.readings import Candidate

from . import oracle
from .by_hand import EQUATIONS, RULES, TASO_SAMPLE, TENSAT_SAMPLE
from .running import NoMatch, run_both_sides

TRIES = 250


def compare(rule: ForeignRule, candidate: Candidate, wanted: int) -> int:
    """On how many draws both sides are as the oracle says; one is enough of a difference."""
    translation = candidate.translation
    (parsed,) = parse_rules(translation.text)
    names = dict(translation.names)
    rng = random.Random(rule.text)
    seen = 0
    for _ in range(TRIES):
        inputs = oracle.draw(rule, rng)
        sides = [
            oracle.values(rule, inputs, terms, translation.reading.broadcast)
            for terms in (rule.sources, rule.targets)
        ]
        if sides[0] is None or sides[1] is None:
            continue
        operands = {names[name]: array.astype(np.float32) for name, array in inputs.items()}
        try:
            computed = run_both_sides(parsed, operands)
        except NoMatch:
            continue
        expected = reversed(sides) if translation.flipped else sides
        for values, results in zip(expected, computed, strict=True):
            names_out = sorted(name for name in results if name.startswith("Y"))
            for value, name in zip(values, names_out, strict=True):
                assert results[name].shape == value.shape
                np.testing.assert_allclose(results[name], value, atol=1e-3, rtol=1e-4)
        seen += 1
        if seen == wanted:
            break
    return seen


def check(rules: list[ForeignRule], wanted: int) -> None:
    """Every reading of every rule; one that is never met would be checked in vain."""
    never = []
    for rule in rules:
        for candidate in candidates(rule):
            if not candidate.translation.same and not compare(rule, candidate, wanted):
                never.append((rule.name, candidate.translation.reading))
    few = [reading for _, reading in never if not (reading.depthwise or reading.outputs)]
    assert not few, never


def test_equations_by_hand_compute_what_they_say():
    check(list(read_equations("\n".join(text for text, _ in EQUATIONS))), 4)


def test_rules_by_hand_compute_what_they_say():
    check(list(read_lines("\n".join(line for line, _ in RULES))), 4)


@pytest.mark.skipif(not TENSAT_SAMPLE.exists(), reason="the sample is not here")
def test_the_sample_of_equations():
    check(list(read_foreign(TENSAT_SAMPLE)[1])[::4], 2)


@pytest.mark.skipif(not TASO_SAMPLE.exists(), reason="the sample is not here")
def test_the_sample_of_rules():
    check(list(read_foreign(TASO_SAMPLE)[1]), 2)


def text_of(equation: str) -> str:
    (rule,) = read_equations(equation)
    return candidates(rule)[0].translation.text


def test_a_rule_is_turned_around_where_only_that_way_it_matches():
    text = text_of("input_1 == transpose(transpose(input_1))")
    assert "Y  = Transpose" in text or "Y = Transpose" in text
    assert "Y = X1" in text


def test_constants_stand_on_the_side_that_makes_them():
    text = text_of("conv2d(1,1,0,0,input_7,Cpool(3,3)) == poolavg(3,3,1,1,0,input_7)")
    match, rewrite = text.split("rewrite")
    assert "AveragePool" in match
    assert "EyeLike" in rewrite


def test_identities_of_one_name_may_differ_in_size():
    (rule,) = read_equations("matmul(matmul(Imatmul,input_1),Imatmul) == input_1")
    (candidate, *_) = candidates(rule)
    assert candidate.conditions == ()
    assert "[k, k]" in candidate.translation.text
    assert "[n, n]" in candidate.translation.text


def test_inputs_of_the_right_side_alone_are_brought_in():
    (rule,) = read_equations("relu(input_1) == relu(input_2)")
    translation = candidates(rule)[0].translation
    assert translation.witness
    assert translation.text.count("CastLike") == 2


@pytest.mark.parametrize(
    ("equation", "conditions"),
    [
        (
            "conv2d(1,1,0,0,input_7,input_10) == conv2d(1,1,0,0,input_7,enlarge(5,3,input_10))",
            {"dim(W10, 2) <= 5", "dim(W10, 3) <= 3"},
        ),
        (
            "concat(1,conv2d(1,1,1,0,input_7,input_10),conv2d(1,1,1,0,input_7,input_11))"
            " == conv2d(1,1,1,0,input_7,concat(0,input_10,input_11))",
            set(),  # without padding, equal results have equal kernels
        ),
        (
            "concat(0,relu(input_1),relu(input_2)) == relu(concat(0,input_1,input_2))",
            set(),
        ),
        (
            "concat(1,concat(0,input_1,input_2),concat(0,input_3,input_4))"
            " == concat(0,concat(1,input_1,input_3),concat(1,input_2,input_4))",
            {"dim(X3, 0) = dim(X1, 0)", "dim(X4, 0) = dim(X2, 0)"},
        ),
    ],
)
def test_what_the_right_side_needs_is_a_condition(equation, conditions):
    (rule,) = read_equations(equation)
    assert {condition.text for condition in candidates(rule)[0].conditions} == conditions
