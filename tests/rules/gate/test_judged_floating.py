"""Rules that are equal as real numbers: those that floating point breaks are refused, no others.

A comment of a false rule says on which numbers its sides differ; each is run.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from tensolog.rules.gate.floating.discontinuities import discontinuity_problem
from tensolog.rules.gate.floating.record import floating_record
from tensolog.rules.gate.floating.special_values import unlike
from tensolog.rules.gate.onnx_models import draw_sides, in_types_that_run
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove

FOLDER = Path(__file__).parent / "judged"
JUDGED = {
    kind: parse_rules((FOLDER / f"{kind}.rules").read_text("utf-8"))
    for kind in ("jumps_false", "jumps_true", "special_false", "special_true")
}
# Of each rule so many cases are proved: that both sides are equal as real numbers is told by few.
CASES = 2
SAMPLES = 4
WITNESS = re.compile(r"Witness, (\w+): (.*)\.$")


def judged(kind):
    return pytest.mark.parametrize("rule", JUDGED[kind], ids=lambda rule: rule.name)


def test_there_are_forty_more_of_each_class():
    assert len(JUDGED["jumps_false"]) >= 42 and len(JUDGED["special_false"]) >= 42


@judged("jumps_false")
def test_rules_are_refused_whose_sides_round_before_a_jump_in_two_ways(rule):
    stated = statements(rule)
    assert [
        outcome.reason for outcome in map(prove, stated[:CASES]) if outcome.status != "proved"
    ] == []
    assert "jumps" in discontinuity_problem(rule, stated)


@judged("jumps_true")
def test_rules_are_admitted_whose_sides_round_alike_before_a_jump(rule):
    stated = statements(rule)
    assert [
        outcome.reason for outcome in map(prove, stated[:CASES]) if outcome.status != "proved"
    ] == []
    assert discontinuity_problem(rule, stated) == ""
    assert floating_record(rule, stated, proved=True, samples=SAMPLES).problems == ()


@judged("special_false")
def test_rules_are_refused_that_break_at_the_end_of_a_range(rule):
    stated = statements(rule)
    assert [
        outcome.reason for outcome in map(prove, stated[:CASES]) if outcome.status != "proved"
    ] == []
    assert floating_record(rule, stated, proved=True).problems


@judged("special_true")
def test_rules_are_admitted_that_keep_special_values(rule):
    stated = statements(rule)
    assert [
        outcome.reason for outcome in map(prove, stated[:CASES]) if outcome.status != "proved"
    ] == []
    assert floating_record(rule, stated, proved=True, samples=SAMPLES).problems == ()


@pytest.mark.parametrize(
    "rule", JUDGED["jumps_false"] + JUDGED["special_false"], ids=lambda rule: rule.name
)
def test_witnesses_show_it(rule):
    said = " ".join(line.removeprefix("#").strip() for line in rule.comment.splitlines())
    dtype, text = WITNESS.search(said).groups()
    texts_by_name = dict(part.split(" = ") for part in text.split("; "))
    shown = []
    for both in draw_sides(in_types_that_run(rule), 6, 0, dtype):
        if not {operand.name for operand in both.operands} <= texts_by_name.keys():
            continue  # of this instance the witness doesn't speak: more are operands
        feeds = {}
        for operand in both.operands:
            values = [float(value) for value in texts_by_name[operand.name].strip("[]").split(",")]
            feeds[operand.name] = np.resize(values, operand.shape).astype(operand.dtype)
        source, target = both.run(feeds, stepwise=True)
        for name, first, other in zip(both.outputs, source, target, strict=True):
            shown.append(unlike(first, other, name, exact=rule.equal == "exact", bounded=True))
    assert any(shown)
