"""The set of generated rules that is kept: what it derives by itself, and what it doesn't say."""

from pathlib import Path

import pytest
from tensolog.optimizer.egraph.redundancy import redundancy
from tensolog.rules import load_rules, parse_rules

FILE = Path(__file__).parents[2] / "benchmarks" / "data" / "generated-taso.rules"

LAW = """# ConvertLeft computes the right side in the place of the left one.
rule ConvertLeft
  tags    explore
  source  [derived]
  opset   >= 18
  given   {given}
  match
    R = {left}
  rewrite
    R = {right}
  equal   rounding
"""
MATRICES = "X [m, k] float, Y [k, n] float, Z [n, p] float"


@pytest.fixture(scope="module")
def generated():
    return load_rules([FILE])


@pytest.mark.parametrize(
    ("given", "left", "right", "status"),
    [
        (MATRICES, "MatMul(MatMul(X, Y), Z)", "MatMul(X, MatMul(Y, Z))", "derived"),
        (
            "X [m, n] float, Y [m, n] float",
            "Transpose(Relu(Concat<axis=0>(X, Y)))",
            "Concat<axis=1>(Relu(Transpose(X)), Relu(Transpose(Y)))",
            "derived",
        ),
        ("X [m, n] float, Y [m, n] float", "Relu(Add(X, Y))", "Add(Relu(X), Relu(Y))", "new"),
    ],
)
def test_generated_rules_derive_true_laws_alone(generated, given, left, right, status):
    (law,) = parse_rules(LAW.format(given=given, left=left, right=right), "by_hand.rules")
    found = redundancy(law, generated, draws=1)
    assert found.status == status
    assert bool(found.derived_by) == (status == "derived")


def test_their_head_is_the_command(generated):
    head = FILE.read_text(encoding="utf-8").splitlines()[:2]
    assert head[1].strip("# ").startswith("tensolog rules generate --operators MatMul,")
    assert len(generated) == 90
