"""What is false is refuted with numbers, shown by a program; what is true is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.counterexample.difference import differences
from tensolog.rules.gate.counterexample.fuzz import fuzz
from tensolog.rules.gate.counterexample.minimize import minimize
from tensolog.rules.gate.counterexample.operand_values import FAMILIES, draw
from tensolog.rules.gate.counterexample.refute import refute
from tensolog.rules.gate.counterexample.search import find_first
from tensolog.rules.gate.evaluation.arithmetic import Assignment
from tensolog.rules.gate.evaluation.exact import Exact
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.cases.composition import UndescribedError

from tests.campaigns import search_s

from .statements_by_hand import Sides, quotient, sum_of_products, wrong_from

SECONDS = 30.0  # found in far less; what takes long is a loaded machine

FALSE = {
    "JoinSums": """
rule JoinSums
  tags explore
  opset >= 13
  given A [n, m] float32|float64, X [n, m]
  match
    P = Mul(A, X)
    Y = ReduceSum<keepdims=0>(P)
  rewrite
    S = ReduceSum<keepdims=0>(A)
    T = ReduceSum<keepdims=0>(X)
    Y = Mul(S, T)
  equal rounding
""",
    "EliminateQuotient": """
rule EliminateQuotient
  tags explore
  given A float, c scalar, fits(c, A)
  match
    P = Mul(A, c)
    Y = Div(P, c)
  rewrite
    Y = A
  equal rounding
""",
    "MergeGroupedConvs": """
rule MergeGroupedConvs
  tags explore
  opset >= 13
  given X float, W1 [m1, c, *k], W2 [m2, c, *k]
  match
    Y1 = Conv<group=g, *a>(X, W1)
    Y2 = Conv<group=g, *a>(X, W2)
  rewrite
    W = Concat<axis=0>(W1, W2)
    Y = Conv<group=g, *a>(X, W)
    Y1, Y2 = Split<axis=1>(Y, [m1, m2])
  equal rounding
""",
    "FuseGemmOfAnything": """
rule FuseGemmOfAnything
  tags explore
  given A [m, k] float32|float64, B [k, n]
  match
    P = MatMul(A, B)
    Y = Add(P, c)
  rewrite
    Y = Gemm(A, B, c)
  equal rounding
""",
    "EliminateLongSlice": """
rule EliminateLongSlice
  tags explore
  opset >= 13
  given X [n, h] float, h >= 40
  match
    Y = Slice(X, [0], [40], [1])
  rewrite
    Y = X
  equal exact
""",
    "EliminateSquaredRoot": """
rule EliminateSquaredRoot
  tags explore
  match
    R = Sqrt(X)
    Y = Mul(R, R)
  rewrite
    Y = X
  equal rounding
""",
    "EliminateExpOfLog": """
rule EliminateExpOfLog
  tags explore
  match
    L = Log(X)
    Y = Exp(L)
  rewrite
    Y = X
  equal rounding
""",
    "PushMaxThroughAdd": """
rule PushMaxThroughAdd
  tags explore
  given A int64, B int64, C int64
  match
    P = Add(A, C)
    Q = Add(B, C)
    Y = Max(P, Q)
  rewrite
    M = Max(A, B)
    Y = Add(M, C)
  equal exact
""",
}

# How each is wrong; the last is right for real numbers and wrong where integers wrap around.
KINDS = {
    "JoinSums": "value",
    "EliminateQuotient": "defined",
    "MergeGroupedConvs": "value",
    "FuseGemmOfAnything": "undefined",
    "EliminateLongSlice": "shape",
    "EliminateSquaredRoot": "defined",
    "EliminateExpOfLog": "defined",
    "PushMaxThroughAdd": "value",
}


def rule_of(text):
    (rule,) = parse_rules(text)
    return rule


def run(snippet):
    done = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(FALSE))
def test_false_rules_are_refuted_by_a_program_that_runs(name):
    rule = rule_of(FALSE[name])
    counterexample = refute(rule, statements(rule), SECONDS)
    assert counterexample is not None
    assert counterexample.kind == KINDS[name]
    left, right = run(counterexample.snippet).split("right:")
    assert left.removeprefix("left:").strip() != right.strip()
    assert counterexample.summary in counterexample.snippet


def test_division_by_zero_of_integers_is_shown_without_running_it():
    """ONNX Runtime would end the process: the program is plain Python."""
    text = FALSE["EliminateQuotient"].replace("A float, c scalar, fits(c, A)", "A int64, c [1]")
    rule = rule_of(text.replace("given A int64", "given A [1] int64"))
    counterexample = refute(rule, statements(rule), SECONDS)
    assert counterexample is not None
    assert "onnxruntime" not in counterexample.snippet
    left, right = (
        line.partition("]")[2] for line in run(counterexample.snippet).strip().splitlines()
    )
    assert left != right


@pytest.mark.parametrize("name", ["JoinSums", "EliminateSquaredRoot", "FuseGemmOfAnything"])
def test_fuzz_refutes_what_random_instances_show(name):
    rule = rule_of(FALSE[name])
    counterexample = fuzz(rule, SECONDS)
    assert counterexample is not None
    left, right = run(counterexample.snippet).split("right:")
    assert left.removeprefix("left:").strip() != right.strip()


def test_with_one_group_no_counterexample_is_found():
    rule = rule_of(FALSE["MergeGroupedConvs"].replace("group=g", "group=1"))
    assert refute(rule, statements(rule), search_s(2.0)) is None
    assert fuzz(rule, search_s(2.0)) is None


def test_a_conversion_to_gemm_of_what_fits_is_not_refuted():
    text = FALSE["FuseGemmOfAnything"].replace("B [k, n]", "B [k, n], fits(c, P)")
    rule = rule_of(text)
    assert refute(rule, statements(rule), search_s(2.0)) is None
    assert fuzz(rule, search_s(2.0)) is None


def test_the_conditions_of_a_rule_are_assumed():
    text = FALSE["EliminateQuotient"].replace("fits(c, A)", "fits(c, A), c != 0")
    rule = rule_of(text)
    assert refute(rule, statements(rule), search_s(2.0)) is None


def find(statements_, seconds, hints=()):
    """A difference as `refute` looks for one, made small."""
    counterexample = find_first(statements_, seconds, hints=hints)
    if counterexample is None:
        return None
    statement, difference = counterexample
    return statement, minimize(statement, difference, 3.0)


@pytest.mark.parametrize("size", [6, 40, 300])
def test_what_is_wrong_only_for_large_sizes_is_found(size):
    statement = wrong_from(size)
    counterexample = find([statement], SECONDS)
    assert counterexample is not None
    assert counterexample[1].assignment.symbols == {"h": size, "n": 1}


def test_a_hint_is_tried_first():
    statement = wrong_from(1234)
    _, difference = find([statement], SECONDS, [{"h": 2000, "n": 1}])
    assert difference.assignment.symbols["h"] >= 1234


def test_counterexamples_are_small():
    _, difference = find([sum_of_products()], SECONDS)
    assert difference.assignment.symbols == {"n": 2}
    arrays = difference.assignment.arrays
    assert sum((array != 0).sum() for array in arrays.values()) == 2
    assert all(value in (0, 1) for array in arrays.values() for value in array)


def test_what_is_found_differs_when_computed_again():
    for statement in (sum_of_products(), quotient(), wrong_from(6)):
        _, difference = find([statement], SECONDS)
        again = Assignment(difference.assignment.symbols, difference.assignment.arrays)
        assert next(differences(statement, again, Exact())).kind == difference.kind


def test_rounding_refutes_nothing():
    """exp(a + b) = exp(a) exp(b) differs in floating point, and in the field."""
    sides = Sides("n").operand("A", "n").operand("B", "n")
    sides.left("Add", "A B", "S").left("Exp", "S", "Y")
    sides.right("Exp", "A", "E").right("Exp", "B", "F").right("Mul", "E F", "T")
    assert find([sides.statement()], 2.0) is None


def test_a_region_is_left_out():
    i = wrong_from(6).definitions[-1].indices[1]
    from tensolog.catalog.terms.index_notation import Apply, Symbol

    there = Apply("=", (Symbol("i1"), 4))
    other = Apply("and", (Apply(">=", (Symbol("h"), 6)), there))
    statement = wrong_from(6)
    assert i is not None
    from dataclasses import replace

    whole = replace(statement, region=other, region_indices=("i0", "i1"))
    assert find([whole], 1.0) is None
    less = replace(statement, region=Apply("=", (Symbol("i1"), 3)), region_indices=("i0", "i1"))
    assert find([less], SECONDS) is not None


def test_programs_in_plain_python_run():
    from tensolog.rules.gate.counterexample.python_program import statement_program

    for statement in (sum_of_products(), quotient(), wrong_from(6)):
        _, difference = find([statement], SECONDS)
        lines = run(statement_program(statement, difference, "by hand")).strip().splitlines()
        left, right = (line.partition("=")[2] or line for line in lines)
        assert left != right


JUDGED = {
    kind: parse_rules((Path(__file__).parent / "judged" / f"{kind}.rules").read_text("utf-8"))
    for kind in ("true", "false")
}


@pytest.mark.parametrize("rule", JUDGED["false"], ids=lambda rule: rule.name)
def test_judged_false_rules_are_refuted(rule):
    try:
        cases = statements(rule)
    except IllTyped:
        return  # refused for its types
    assert refute(rule, cases, SECONDS) is not None


@pytest.mark.parametrize("rule", JUDGED["true"], ids=lambda rule: rule.name)
def test_judged_true_rules_are_not_refuted(rule):
    assert refute(rule, statements(rule), 0.2) is None


# A few of each family; every rule is looked at by the gate's own campaign.
SHIPPED = load_rules()


@pytest.mark.parametrize("name", [rule.name for rule in SHIPPED[:: max(1, len(SHIPPED) // 24)]])
def test_shipped_rules_are_not_refuted(name):
    rule = next(rule for rule in SHIPPED if rule.name == name)
    assert fuzz(rule, 0.5) is None
    try:
        cases = statements(rule)
    except UndescribedError:
        return
    assert refute(rule, cases, 0.5) is None


@pytest.mark.parametrize(
    ("match", "rewrite"),
    [
        ("Y = Slice(X, [-9223372036854775809], [9223372036854775807], [0])", "Y = Relu(X)"),
        ("Y = Tile(X, [1, 9223372036854775807])", "Y = X"),
        ("Y = Pad(X, [0, 9223372036854775807, 0, 1])", "Y = X"),
        ("Y = Mul(X, 1e400)", "Y = X"),
    ],
)
def test_numbers_beyond_all_arrays_show_nothing_and_raise_nothing(match, rewrite):
    (rule,) = parse_rules(
        "rule R\n  tags explore\n  opset >= 13\n  given X [n, m] float32\n"
        f"  match\n    {match}\n  rewrite\n    {rewrite}\n  equal rounding\n"
    )
    assert refute(rule, statements(rule), 0.3) is None


@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8", "int8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_integers_are_numbers_of_their_type(dtype, family):
    drawn = draw("integer", (40,), family, np.random.default_rng(0), dtype)
    limits = np.iinfo(dtype)
    assert drawn.dtype == np.int64
    assert limits.min <= drawn.min() and drawn.max() <= limits.max


UNSIGNED = """
rule EliminateAbs
  tags    explore
  source  ["own"]
  given   X uint64
  match
    Y = Abs(Div(X, 2))
  rewrite
    Y = Div(X, 2)
  equal   exact
"""


def test_numbers_without_a_sign_refute_nothing_that_is_true():
    (rule,) = parse_rules(UNSIGNED)
    assert refute(rule, statements(rule), search_s(1.0)) is None
