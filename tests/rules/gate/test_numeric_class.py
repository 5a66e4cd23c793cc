"""Rules that are equal as real numbers: refused where they break their class in floating point."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate.floating import numeric_class
from tensolog.rules.gate.floating.numeric_class import measured
from tensolog.rules.gate.ledger.ledger import Ledger, entry_of
from tensolog.rules.gate.prover_pool import prove_rules
from tensolog.rules.gate.quick_check import quick_check
from tensolog.rules.gate.verdict import Verdict
from tensolog.rules.language.canonical_text import rule_text
from tensolog.rules.load import load_rejected

REJECTED = {rule.name: rule for rule in load_rejected()}
LOSES = ("far above their spread: numerically unsafe", "times as far as the source")
RANGE = ("far above their spread: numerically unsafe", "becomes")
# What is said of each, and the class that it would keep: accuracy that is lost no class allows.
UNSAFE = {
    "ConvertVarianceToMoments": (LOSES, ""),
    "ConvertLayerNormalizationToMoments": (("far above their spread: numerically unsafe",), ""),
    "FoldInputShiftIntoConv": (LOSES, ""),
    "SplitProductOfSumAndDifference": (LOSES, ""),
    "EliminateCastThroughHalf": (("numerically unsafe", LOSES[1]), ""),
    "ConvertSoftplusToLogExp": (RANGE, ""),
    "ConvertSoftmaxToExp": (RANGE, ""),
    "ConvertConvToLargerKernel": (("infinity", "nan in the target"), "finite_math"),
    "ConvertWhereToMul": (("infinity", "nan in the target"), "finite_math"),
}


def proof(rule):
    algebras = ("integer",) if "int32" in rule_text(rule) else ("real",)
    return Verdict(rule.name, rule.hash, "proved", ranks="all", algebras=algebras)


def with_line(rule, old, new):
    text = rule_text(rule)
    assert old in text
    (changed,) = parse_rules(text.replace(old, new))
    return changed


@pytest.mark.parametrize("name", UNSAFE)
def test_the_gate_itself_refuses_what_only_floating_point_breaks(name):
    rule, (words, looser) = REJECTED[name], UNSAFE[name]
    plain = proof(rule)  # as tests/rules/test_rules_files.py says
    verdict = measured(rule, plain)
    assert verdict.status == "refused"
    assert verdict.reason.startswith("equal as real numbers, but not in floating point: float32")
    assert all(word in verdict.reason for word in words)
    assert (f"it would keep what `{looser}` promises" in verdict.reason) is bool(looser)
    assert verdict.counterexample.kind == "floating"
    if looser:
        allowed = measured(
            with_line(rule, "equal   rounding", f"equal rounding\n  {looser}"), plain
        )
        assert (allowed.status, allowed.floating.problems) == (plain.status, ())


@pytest.mark.parametrize("name", ["ConvertVarianceToMoments", "ConvertWhereToMul"])
def test_a_quick_look_sees_it_too(name):
    seen = quick_check(REJECTED[name], 0.5)
    assert seen.status == "refused"
    assert seen.reason.startswith("in floating point: float32")
    assert seen.counterexample is not None


def test_what_loses_accuracy_is_shown_beside_float64():
    verdict = measured(REJECTED["ConvertVarianceToMoments"], proof(REJECTED["ConvertWhereToMul"]))
    left, right, truth = printed(verdict.counterexample.snippet)
    assert abs(left - truth) < 1e-3 * truth
    assert abs(right - truth) > 0.05 * truth


def test_what_is_no_number_any_more_is_shown():
    verdict = measured(REJECTED["ConvertWhereToMul"], proof(REJECTED["ConvertWhereToMul"]))
    program = verdict.counterexample.snippet
    assert "np.inf" in program and "float64" not in program
    out = run(program)
    left, _, right = out.partition("right:")
    assert "nan" in right and "nan" not in left


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(program):
    """The last number of each side."""
    sides = run(program).replace("[", " ").replace("]", " ").split(":")[1:]
    return [float(next(w for w in side.split() if w[0] in "-0123456789")) for side in sides]


def test_a_class_that_is_not_kept_names_one_that_is():
    rule = REJECTED["ConvertWhereToMul"]
    exact = with_line(rule, "equal   rounding", "equal exact")
    assert "it would keep what `equal rounding, finite_math`" in measured(exact, proof(rule)).reason
    (parsed,) = parse_rules(
        "rule R\n  tags always\n  given X float32\n  match\n    Y = Add(X, 0)\n  rewrite\n"
        "    Y = X\n  equal exact\n"
    )
    assert "it would keep what `equal rounding`" in measured(parsed, proof(parsed)).reason


def test_a_shipped_rule_keeps_its_promise_and_its_proof():
    (rule,) = [rule for rule in load_rules() if rule.name == "EliminateNegPair"]
    verdict = measured(rule, proof(rule))
    assert verdict.status == "proved"
    assert verdict.floating.problems == ()


@pytest.mark.parametrize("status", ["refuted", "refused", "unknown"])
def test_what_is_not_proved_is_not_measured(status, monkeypatch):
    monkeypatch.setattr(numeric_class, "floating_record", pytest.fail)
    rule = REJECTED["ConvertWhereToMul"]
    verdict = Verdict(rule.name, rule.hash, status, "so it is")
    assert measured(rule, verdict) is verdict


def test_what_could_not_be_measured_is_not_known(monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("no kernels today")

    monkeypatch.setattr(numeric_class, "floating_record", fail)
    rule = REJECTED["ConvertWhereToMul"]
    verdict = measured(rule, proof(rule))
    assert replace(verdict, reason="", status="proved") == proof(rule)
    assert verdict.status == "unknown"
    assert verdict.reason.endswith("was not measured: RuntimeError: no kernels today")
    assert "no kernels today" in capsys.readouterr().err


def test_a_partial_equivalence_is_not_measured_inside_of_its_region():
    rule = with_line(REJECTED["ConvertWhereToMul"], "rounding", "partial except i0 >= 0")
    verdict = measured(rule, proof(rule))
    assert verdict.status == "proved"
    assert verdict.floating.status == "unmeasured"


def test_refused_in_a_process_of_its_own_it_does_not_enter_as_admitted():
    rule = REJECTED["ConvertVarianceToMoments"]
    (verdict,) = prove_rules([rule], 1, floating=[rule], infer=0)
    assert verdict.status == "refused"
    ledger = Ledger({rule.hash: entry_of(rule, verdict)})
    problem = ledger.problem(rule)
    assert problem.kind == "verdict"
    assert "numerically unsafe" in problem.reason
    (verdict,) = prove_rules([rule], 1, floating=[], infer=0)
    assert verdict.status == "proved"


AXIS = """
rule PushNegThroughCumSum
  tags    explore
  source  ["own"]
  given   X [n, m] float32
  match
    Y = CumSum(Neg(X), 0)
  rewrite
    Y = Neg(CumSum(X, 0))
  equal   rounding
"""


def test_a_literal_has_a_type_that_its_operator_takes():
    """An axis is an integer, beside whichever elements: so the rule is measured."""
    (rule,) = parse_rules(AXIS)
    verdict = measured(rule, proof(rule))
    assert (verdict.status, verdict.reason) == ("proved", "")
    assert {rounding.dtype for rounding in verdict.floating.roundings} >= {"float32"}


def test_what_was_not_measured_is_not_known(monkeypatch):
    (rule,) = parse_rules(AXIS)
    nothing = replace(numeric_class.floating_record(rule, proved=True), roundings=(), bits=())
    monkeypatch.setattr(numeric_class, "floating_record", lambda *_, **__: nothing)
    verdict = measured(rule, proof(rule))
    assert verdict.status == "unknown" and verdict.floating.status == "unmeasured"
    assert "floating point was not measured: ONNX Runtime runs no instance" in verdict.reason


def test_integers_need_no_measurement(monkeypatch):
    (rule,) = parse_rules(AXIS.replace("float32", "int32").replace("rounding", "exact"))
    nothing = replace(numeric_class.floating_record(rule, proved=True), roundings=(), bits=())
    monkeypatch.setattr(numeric_class, "floating_record", lambda *_, **__: nothing)
    assert measured(rule, proof(rule)).status == "proved"
