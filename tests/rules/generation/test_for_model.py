"""The operators of a model, hot ones first, and what each run knows of those before it."""

from types import SimpleNamespace

import onnx.parser
import pytest
from click.testing import CliRunner
from tensolog.rules.generation import for_model
from tensolog.rules.generation.for_model import generate_for_model, operator_sets

from tensolog.commands.rules import rules as command

MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
g (float[64, 64] x, float[64, 64] w, float[2, 2] s) => (float[64, 64] y, float[2, 2] z) {
   a = MatMul(x, w)
   y = Relu(a)
   b = Neg(s)
   c = NonZero(b)
   z = Abs(b)
}""")


def test_pieces_with_the_most_elements_come_first():
    assert operator_sets(MODEL) == (("MatMul", "Relu"), ("Abs", "Neg"))


def test_nodes_that_do_not_read_each_other_are_no_piece():
    assert not any({"Relu", "Neg"} <= set(names) for names in operator_sets(MODEL))


def test_a_run_knows_what_those_before_it_found(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(for_model.time, "monotonic", lambda: now[0])
    asked = []

    def find(names, *, budget, known, nodes, program):
        asked.append((names, budget, list(known), nodes))
        now[0] += budget
        return SimpleNamespace(rules=(f"rule{len(asked)}",), complete=False)

    runs = generate_for_model(MODEL, budget=40.0, known=["shipped"], find=find, nodes=2)
    assert [run.rules for run in runs] == [("rule1",), ("rule2",)]
    assert asked == [
        (("MatMul", "Relu"), 20.0, ["shipped"], 2),
        (("Abs", "Neg"), 10.0, ["shipped", "rule1"], 2),
    ]


def test_a_budget_that_is_too_short_starts_no_run():
    assert generate_for_model(MODEL, budget=1.0, known=(), find=pytest.fail) == ()


@pytest.mark.parametrize("arguments", [[], ["--operators", "Add", "--model", "m.onnx"]])
def test_either_operators_or_a_model_are_named(arguments):
    result = CliRunner().invoke(command, ["generate", *arguments, "--budget", "1"])
    assert result.exit_code == 2
    if arguments:
        assert "either --operators or a --model" in result.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--operators", ""], "--operators names none"),
        (["--operators", " , "], "--operators names none"),
        (["--operators", "Add", "--seed", str(2**63)], "is not in the range"),
        (["--model", "m.onnx", "--processor"], "--processor is for --operators"),
    ],
)
def test_what_names_no_run_is_refused(arguments, why):
    result = CliRunner().invoke(command, ["generate", *arguments, "--budget", "1"])
    assert result.exit_code == 2
    assert why in result.output


def test_a_model_without_operators_to_combine_writes_nothing(tmp_path):
    head = '<ir_version: 8, opset_import: ["": 17]> g'
    model = onnx.parser.parse_model(head + "(float[2] x) => (float[2] y) { y = Relu(x) }")
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["generate", "--model", tmp_path / "m.onnx", "-o", tmp_path / "found.rules"]
    result = CliRunner().invoke(command, [*map(str, arguments), "--catalog", ":memory:"])
    assert result.exit_code == 1
    assert "has no operators beside each other" in result.output
    assert not (tmp_path / "found.rules").exists()
