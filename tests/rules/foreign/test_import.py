"""What becomes of foreign rules at the gate, against what NumPy says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from tensolog.rules import load_rules
from tensolog.rules.foreign import ForeignRule, Imported, Report, import_rules, read_foreign
from tensolog.rules.foreign.equations import read_equations
from tensolog.rules.foreign.terms import inputs

from tests.campaigns import ALL, SHARE

from . import oracle
from .by_hand import EQUATIONS, RULES, TASO_SAMPLE, TENSAT_SAMPLE, op, rule


@pytest.fixture(scope="module")
def equations(tmp_path_factory: pytest.TempPathFactory) -> Report:
    file = tmp_path_factory.mktemp("foreign") / "own.txt"
    file.write_text("\n".join(text for text, _ in EQUATIONS))
    return import_rules(file, workers=1)  # the other processor runs tests


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Report:
    file = tmp_path_factory.mktemp("foreign") / "own.jsonl"
    file.write_text("\n".join(line for line, _ in RULES))
    return import_rules(file, workers=1)  # the other processor runs tests


def test_equations_by_hand_have_the_right_verdicts(equations):
    verdicts = [(rule.text, rule.status) for rule in equations.rules]
    assert verdicts == list(EQUATIONS)


def test_rules_by_hand_have_the_right_verdicts(rules):
    assert [rule.status for rule in rules.rules] == [status for _, status in RULES]


def test_verdicts_are_what_numbers_say(equations, rules):
    for report, read in ((equations, EQUATIONS), (rules, RULES)):
        assert len(report.rules) == len(read)
        judge(report, count=25)


def test_refutations_come_with_numbers(equations, rules):
    refuted = [
        imported for imported in (*equations.rules, *rules.rules) if imported.status == "refuted"
    ]
    assert refuted
    for imported in refuted:
        assert imported.counterexample is not None
        assert imported.reason
        compile(imported.counterexample.snippet, imported.name, "exec")


def test_what_is_proved_can_be_written_and_loaded(equations, tmp_path):
    file = tmp_path / "proved.rules"
    count = equations.write(file)
    loaded = load_rules([file])
    assert len(loaded) == count > 5
    proved = {rule.name for rule in equations.rules if rule.status in ("proved", "conditional")}
    assert {rule.name for rule in loaded} <= proved
    assert all(rule.sources == ("tensat",) for rule in loaded)


def test_a_report_is_json(equations):
    record = json.loads(json.dumps(equations.record()))
    assert sum(record["totals"].values()) == len(EQUATIONS) == len(record["rules"])
    conditional = [row for row in record["rules"] if row["status"] == "conditional"]
    assert all(row["conditions"] and row["words"] for row in conditional)


def test_one_bad_line_costs_only_itself(tmp_path):
    file = tmp_path / "mixed.txt"
    file.write_text("relu(relu(input_1)) == relu(input_1)\nfoo(input_1) == input_1\nrelu(\n")
    said: list[Imported] = []
    report = import_rules(file, progress=said.append)
    assert [rule.status for rule in report.rules] == ["proved", "unknown", "unreadable"]
    assert report.rules[1].reason == "unknown operator foo"
    assert [rule.line for rule in report.rules] == [1, 2, 3]
    assert sorted(message.line for message in said) == [1, 2, 3]


def test_shapes_that_never_fit_are_refused(tmp_path):
    file = tmp_path / "shapes.jsonl"
    broken = op("CONCAT", [-1, -2], NUM_INPUTS=2, AXIS=5, NUMDIM=2)
    unsplit = op("SPLIT", [-1], NUM_OUTPUTS=2, AXIS=0)
    relu = [op("RELU", [-1])]
    file.write_text(f"{rule(1, relu, [broken])}\n{rule(2, relu, [unsplit])}\n")
    first, second = import_rules(file).rules
    assert (first.status, second.status) == ("refused", "refused")
    assert "axis 5 of a concat of rank 2" in first.reason
    assert "no concat to undo" in second.reason


def test_broadcasting_is_tried_first(rules):
    distributed = rules.rules[1]
    assert (distributed.status, distributed.conditions) == ("proved", ())
    assert "[" not in distributed.rule.split("given")[1].split("match")[0], "of any shape"


def test_several_groups_are_a_condition(rules):
    merged = rules.rules[2]
    texts = {condition.text for condition in merged.conditions}
    assert {"dim(X7, 1) = dim(W10, 1)", "dim(W11, 2) = dim(W10, 2)"} <= texts
    assert merged.counterexample is not None, "it is false with two groups"
    summed = rules.rules[3]
    assert not any("X7" in condition.text for condition in summed.conditions)


# ---- every verdict against the oracle


def judge(report: Report, count: int) -> None:
    """A proof must hold on every draw, a refutation must have one; what fails is told together."""
    _, read = read_foreign(Path(report.path))
    wrong = []
    for said, imported in zip(read, report.rules, strict=True):
        if isinstance(said, ForeignRule) and (problem := disagreement(said, imported, count)):
            wrong.append(f"{imported.name} ({imported.status}): {problem}: {imported.text}")
    assert not wrong, "\n".join(wrong)


def disagreement(said: ForeignRule, imported: Imported, count: int) -> str:
    """What numbers say against a verdict; nothing where they bear it out."""
    draws = oracle.draws(said, count)
    if not draws:
        return "never drawn"
    target_only = set(inputs(said.targets)) - set(inputs(said.sources))
    if target_only:  # they are chosen to fit: a rule makes nothing of those that don't
        draws = [draw for draw in draws if draw.fits]
    if imported.status == "proved":
        wrong = [draw for draw in draws if not draw.equal]
        return f"false at {shapes(wrong[0].inputs)}" if wrong else ""
    if imported.status == "conditional":
        kept = [draw for draw in draws if holds(said, imported, draw)]
        wrong = [draw for draw in kept if not draw.equal]
        if wrong:
            return f"false in spite of its conditions at {shapes(wrong[0].inputs)}"
        if all(draw.equal for draw in draws) and count > 20:
            more = oracle.draws(said, 400, seed=1)
            return "" if any(not draw.equal for draw in more) else "it needs no condition"
        return ""
    if imported.status in ("refuted", "refused"):
        more = draws if any(not d.equal for d in draws) else oracle.draws(said, 400, seed=1)
        return "" if any(not draw.equal for draw in more) else "no numbers refute it"
    return f"it is {imported.status}: {imported.reason}"


def shapes(inputs: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in inputs.items()}


def holds(said: ForeignRule, imported: Imported, draw: oracle.Draw) -> bool:
    """Whether a draw meets the conditions, those on values inside of the rule too."""
    if not (draw.strict and draw.fits_strict):
        return False
    evaluation = oracle.Evaluation(said, draw.inputs, broadcast=False)
    return all(true(condition.text, evaluation) for condition in imported.conditions)


def true(condition: str, evaluation: oracle.Evaluation) -> bool:
    """A condition's value: `dim` and `shape` are taken of inputs and of foreign terms."""
    text = re.sub(r"\b[XWS](\d+)\b", r"input_\1", condition)
    while match := re.search(r"\b(dim|shape)\(", text):
        start, end = match.start(), closing(text, match.end())
        inside, axis = text[match.end() : end], ""
        if match[1] == "dim":
            inside, _, axis = inside.rpartition(", ")
        (term,) = read_equations(f"{inside} == {inside}")
        assert isinstance(term, ForeignRule)
        sizes = evaluation.array(term.sources[0]).shape
        text = f"{text[:start]}{sizes[int(axis)] if axis else sizes}{text[end + 1 :]}"
    return bool(eval(re.sub(r"(?<![<>!=])=(?!=)", "==", text)))


def closing(text: str, start: int) -> int:
    """Where the parenthesis ends that is open at `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise AssertionError(text)


def slices() -> Iterator[object]:
    for sample in (TENSAT_SAMPLE, TASO_SAMPLE):
        yield pytest.param(
            sample,
            id=sample.stem,
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not sample.exists(), reason="the sample is not here"),
            ],
        )


@pytest.mark.parametrize("sample", list(slices()))
def test_the_samples_have_the_right_verdicts(sample, tmp_path):
    lines = sample.read_text(encoding="utf-8").splitlines(keepends=True)
    part = tmp_path / sample.name
    part.write_text("".join(lines[:: 1 if ALL else SHARE]), encoding="utf-8")
    report = import_rules(part)
    totals = report.totals
    assert totals["unknown"] == totals["unreadable"] == 0
    judge(report, count=30)
