"""The rule files themselves: laid out alike, and rules that were refused kept apart."""

from __future__ import annotations

from importlib import resources

import pytest
from tensolog.rules import load_rules
from tensolog.rules.gate.counterexample.refute import refute
from tensolog.rules.language.formatter import format_file
from tensolog.rules.load import _read, _shipped, _version, load_rejected
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.prove import prove

HERE = resources.files("tensolog.rules")
FILES = sorted(
    (
        file
        for folder in (HERE, HERE / "found")
        for file in folder.iterdir()
        if file.name.endswith(".rules")
    ),
    key=lambda file: file.name,
)
REJECTED = load_rejected()
# True of real numbers, and refused for what floating-point numbers do
# (tests/rules/gate/test_numeric_class.py).
FLOATING = {
    "ConvertConvToLargerKernel",
    "ConvertLayerNormalizationToMoments",
    "ConvertSoftmaxToExp",
    "ConvertSoftplusToLogExp",
    "ConvertVarianceToMoments",
    "ConvertWhereToMul",
    "EliminateCastThroughHalf",
    "FoldInputShiftIntoConv",
    "SplitProductOfSumAndDifference",
}
# False at a zero in two places at once: a product over nothing, divided by 0.
ELUSIVE = {"FoldDivisorIntoLeftOperand"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_laid_out_as_the_formatter_does(file):
    text = file.read_text(encoding="utf-8")
    assert format_file(text, file.name) == text, "run: tensolog rules format"


def test_rules_kept_on_disk_are_those_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tensolog.rules.load.cache_path", lambda: tmp_path)
    anew = _read()
    for _ in range(2):  # read, then loaded
        _shipped.cache_clear()
        assert _shipped() == anew
        places = [(rule.path, rule.line, rule.comment) for rule in _shipped()]
        assert places == [(rule.path, rule.line, rule.comment) for rule in anew]
    (entry,) = tmp_path.iterdir()
    assert entry.name == f"shipped-{_version()}.pickle"
    _shipped.cache_clear()


def test_rejected_rules_are_documented_and_not_shipped():
    shipped = {rule.name for rule in load_rules()}
    text = next(file for file in FILES if file.name == "rejected.rules").read_text("utf-8")
    assert len(REJECTED) >= 30
    for rule in REJECTED:
        assert rule.name not in shipped
        assert rule.comment.startswith(f"# {rule.name} would ")
        assert all(f"# [{source}]" in text for source in rule.sources)


@pytest.mark.parametrize("rule", REJECTED, ids=lambda rule: rule.name)
def test_no_proof_of_a_rejected_rule(rule):
    try:
        cases = statements(rule)
    except IllTyped:
        return
    proved = all(prove(case, 3.0).status == "proved" for case in cases)
    assert proved is (rule.name in FLOATING)


@pytest.mark.parametrize("rule", REJECTED, ids=lambda rule: rule.name)
def test_rejected_rules_have_a_counterexample(rule):
    if rule.name in FLOATING | ELUSIVE:
        pytest.skip("no exact numbers show it, or too few do to be met")
    assert refute(rule, statements(rule), 30.0) is not None
