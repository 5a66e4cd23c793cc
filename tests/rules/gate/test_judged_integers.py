"""Rules on integers whose verdict is known: wrap-around, cut quotients, signs, bits and casts.

A comment of a false rule says on which numbers its sides differ; each is run, by ONNX Runtime or,
for types of which that has no kernel, by ONNX's reference.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tensolog.rules.gate.floating.discontinuities import discontinuity_problem
from tensolog.rules.gate.floating.record import floating_record
from tensolog.rules.gate.onnx_models import NotRunError, TargetError, draw_sides
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove

FOLDER = Path(__file__).parent / "judged"
FALSE, TRUE = (
    parse_rules((FOLDER / f"integers_{kind}.rules").read_text("utf-8"))
    for kind in ("false", "true")
)
WITNESS = re.compile(r"Witness, (\w+): (.*)\.$")


def named(rules):
    return pytest.mark.parametrize("rule", rules, ids=lambda rule: rule.name)


def test_there_are_enough_of_each_class():
    assert len(FALSE) >= 40 and len(TRUE) >= 20


@named(TRUE)
def test_true_rules_are_proved(rule):
    outcomes = [prove(statement) for statement in statements(rule)]
    assert [
        outcome.reason for outcome in outcomes if outcome.status != "proved" and not outcome.vacuous
    ] == []
    assert any(outcome.status == "proved" for outcome in outcomes)


@named(FALSE)
def test_false_rules_are_not_admitted(rule):
    stated = statements(rule)
    if all(outcome.status == "proved" or outcome.vacuous for outcome in map(prove, stated)):
        record = floating_record(rule, stated, proved=True)
        assert discontinuity_problem(rule, stated) or record.problems


@named(FALSE)
def test_witnesses_show_it(rule):
    said = " ".join(line.removeprefix("#").strip() for line in rule.comment.splitlines())
    dtype, text = WITNESS.search(said).groups()
    texts_by_name = dict(part.split(" = ") for part in text.split("; "))
    shown = []
    for both in draw_sides(rule, 12, 0, "float32"):
        types = {operand.name: operand.dtype for operand in both.operands}
        if types.keys() != texts_by_name.keys() or dtype not in types.values():
            continue
        feeds, whole = {}, True
        for operand in both.operands:
            entries = [
                number(entry) for entry in texts_by_name[operand.name].strip("[]").split(", ")
            ]
            values = np.array(entries, operand.dtype)
            feeds[operand.name] = np.resize(values, operand.shape)
            whole = whole and feeds[operand.name].size >= values.size
        if whole:
            source, target = outputs(both, feeds)
            shown.append(not np.array_equal(source, target))
    assert any(shown)


def number(text):
    """An integer or a truth value; no float, which would not hold those of 64 bits."""
    return text == "true" if text in ("true", "false") else int(text)


def outputs(both, feeds):
    """The only output of both sides."""
    try:
        (source,), (target,) = both.run(feeds)
    except (NotRunError, TargetError):
        (source,), (target,) = (
            ReferenceEvaluator(model).run(None, feeds) for model in (both.source, both.target)
        )
    return source, target
