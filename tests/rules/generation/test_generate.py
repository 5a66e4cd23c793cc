"""Whole runs: every rule found is checked by runtimes that know nothing of the specifications."""

from functools import partial

import numpy as np
import onnx.parser
import pytest
from tensolog.optimizer.egraph import equalities
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import refine_types
from tensolog.optimizer.match.matcher import count_matches
from tensolog.rules import generate, load_rules, parse_rules
from tensolog.rules.gate.onnx_models import draw_sides
from tensolog.rules.gate.verdict import Verdict
from tensolog.rules.generation import run
from tensolog.rules.generation.proving import Measured
from tensolog.rules.generation.run import Program
from tensolog.rules.generation.terms import model_of, variables

from .oracle import compute, random_values

OPERATORS = ["Concat", "Relu"]


@pytest.fixture(scope="module")
def generated():
    return generate(OPERATORS, saturation=equalities, nodes=2, inputs=3, known=(), workers=1)


def test_nothing_false_is_found(generated):
    rng = np.random.default_rng(1)
    kept = [finding for finding in generated.findings if finding.status == "kept"]
    assert kept
    for kept_finding in kept:
        for assignment in (0, 1, 0, 1):
            values = random_values(variables(kept_finding.candidate.left), rng, assignment)
            np.testing.assert_array_equal(
                compute(kept_finding.candidate.left, values, assignment),
                compute(kept_finding.candidate.right, values, assignment),
            )


def test_rules_hold_on_instances_in_onnx_runtime(generated):
    rng = np.random.default_rng(2)
    ran = 0
    for rule in generated.rules:
        for both in draw_sides(rule, 4, 3, "float32"):
            feeds = {
                operand.name: rng.normal(size=operand.shape).astype(operand.dtype)
                for operand in both.operands
            }
            for before, after in zip(*both.run(feeds), strict=True):
                np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-4)
                ran += 1
    assert ran >= 2 * len(generated.rules)


def test_the_general_rule_stands_for_its_instances(generated):
    """Concat(Concat(X, X), Y), and along the other axis: one rule derives all."""
    kept = {finding.candidate.text for finding in generated.findings if finding.status == "kept"}
    assert kept == {
        "Relu(Relu(X)) = Relu(X)",
        "Concat<axis=0>(Concat<axis=0>(X, Y), Z) = Concat<axis=0>(X, Concat<axis=0>(Y, Z))",
    }
    derived = [finding for finding in generated.findings if finding.status == "derived"]
    names = {rule.name for rule in generated.rules}
    assert len(derived) > 8
    assert all(finding.derived_by and set(finding.derived_by) <= names for finding in derived)


def test_an_e_graph_derives_what_is_said_to_be_derived(generated):
    rules = {rule.name: rule for rule in generated.rules}
    for finding in generated.findings:
        if finding.status == "derived":
            model = model_of([finding.candidate.left, finding.candidate.right])
            named = [rules[name] for name in finding.derived_by]
            assert equalities.derived_equalities(model, [("term_0", "term_1")], named) == [True]


def test_found_rules_are_a_file_of_the_language(generated):
    read = parse_rules(generated.text, "found.rules")
    assert [rule.hash for rule in read] == [rule.hash for rule in generated.rules]
    assert all(rule.comment.startswith(f"# {rule.name} ") for rule in read)
    assert all(rule.sources == ("generated",) for rule in read)


def test_shipped_rules_leave_nothing_to_find_here(generated):
    again = generate(OPERATORS, saturation=equalities, nodes=2, inputs=3, workers=1)
    assert not again.rules
    shipped = {rule.name for rule in load_rules()}
    assert all(
        set(finding.derived_by) <= shipped and finding.derived_by for finding in again.findings
    )


def test_what_loses_accuracy_derives_nothing(monkeypatch):
    def refusing(rules, _):
        reason = "all digits are lost"
        return [Measured(None, Verdict(r.name, r.hash, "refused", reason)) for r in rules]

    monkeypatch.setattr(run, "polish", refusing)
    result = generate(["Concat"], saturation=equalities, nodes=2, inputs=1, known=(), workers=1)
    assert result.complete and not result.rules
    assert len(result.findings) > 2
    assert {(finding.status, finding.derived_by) for finding in result.findings} == {
        ("refused", ())
    }


MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
g (float[2, 3] x) => (float[4, 3] y) {
   a = Relu(x)
   b = Relu(a)
   y = Concat<axis=0>(b, b)
}""")


def test_only_what_matches_in_the_program_is_proved():
    graph = load_graph(MODEL)
    refine_types(graph)
    reads = frozenset((("Relu", "Relu"), ("Relu", "Concat")))
    program = Program(reads, partial(count_matches, graph=graph))
    settings = {"saturation": equalities, "nodes": 2, "inputs": 1, "known": (), "workers": 1}
    result = generate(OPERATORS, program=program, **settings)
    statuses = {finding.candidate.text: finding.status for finding in result.findings}
    assert statuses.pop("Relu(Relu(X)) = Relu(X)") == "kept"
    assert "elsewhere" in statuses.values()
    assert {status for text, status in statuses.items() if "Concat" in text} == {"elsewhere"}


def test_what_rules_found_before_derive_is_left_out(generated):
    before = {
        "found.rules": [rule for rule in generated.rules if rule.match[0].operator == "Concat"]
    }
    settings = {"saturation": equalities, "nodes": 2, "inputs": 3, "known": (), "workers": 1}
    again = generate(OPERATORS, found_before=before, is_measured=False, **settings)
    assert [finding.candidate.text for finding in again.findings if finding.rules] == [
        "Relu(Relu(X)) = Relu(X)"
    ]
    derived = [finding for finding in again.findings if finding.status == "derived"]
    names = {rule.name for rule in before["found.rules"]}
    assert derived and any(set(finding.derived_by) & names for finding in derived)
    assert not names & {rule.name for rule in again.proved}
    assert again.command.endswith("--from-nothing --unmeasured --known found.rules")


def test_a_budget_of_processor_time_ends_a_run():
    settings = {"saturation": equalities, "nodes": 2, "inputs": 3, "known": (), "workers": 1}
    result = generate(OPERATORS, budget=1e-6, processor=True, is_measured=False, **settings)
    assert not result.complete and not result.proved
    assert result.processor_s > 0


def test_without_measurement_rules_are_proved_and_not_kept():
    settings = {"saturation": equalities, "nodes": 2, "inputs": 1, "known": (), "workers": 1}
    result = generate(["Relu"], is_measured=False, **settings)
    assert result.complete and not result.rules
    assert [rule.equal for rule in result.proved] == ["rounding"]
