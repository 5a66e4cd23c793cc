"""The set of generated rules that is kept: what it derives by itself, and what it doesn't say."""

from itertools import pairwise
from pathlib import Path

import pytest
from tensolog.optimizer.egraph.redundancy import redundancy
from tensolog.rules import load_rules, parse_rules

from benchmarks.generated_rules import FAMILIES, file_of

FOLDER = Path(__file__).parents[2] / "benchmarks" / "data" / "generated"

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
    return load_rules(sorted(FOLDER.glob("*.rules")))  # which refuses one name twice


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
    verdict = redundancy(law, generated, draws=1)
    assert verdict.status == status
    assert bool(verdict.derived_by) == (status == "derived")


def test_each_family_has_its_file_whose_head_is_the_command():
    files = [file_of(FOLDER, number) for number in range(len(FAMILIES))]
    assert sorted(FOLDER.glob("*.rules")) == files
    for number, (family, file) in enumerate(zip(FAMILIES, files, strict=True)):
        words = file.read_text(encoding="utf-8").splitlines()[1].strip("# ").split()
        assert words[:3] == ["tensolog", "rules", "generate"]
        options = list(pairwise(words[3:]))
        for option in pairwise(family.options[:6]):
            assert option in options
        assert ("--constants" in words) == family.constants
        known = [value for option, value in options if option == "--known"]
        assert known == [earlier.name for earlier in files[:number]]


ONE_KERNEL = "X [n, 4, h, w] float, Y [n, 4, h, w] float, W [6, 2, 3, 3] float"
TWO_KERNELS = (
    "X [n, 4, h, w] float, Y [n, 4, h, w] float, W [6, 4, 3, 3] float, V [6, 4, 3, 3] float"
)


@pytest.mark.parametrize(
    ("given", "left", "right", "status"),
    [
        (
            TWO_KERNELS,
            "Concat<axis=1>(Conv<pads=[1, 1, 1, 1]>(X, W), Conv<pads=[1, 1, 1, 1]>(Y, V))",
            "Conv<group=2, pads=[1, 1, 1, 1]>(Concat<axis=1>(X, Y), Concat<axis=0>(W, V))",
            "derived",
        ),
        (
            ONE_KERNEL,
            "Concat<axis=0>(Conv<group=2, pads=[1, 1, 1, 1]>(X, W), "
            "Conv<group=2, pads=[1, 1, 1, 1]>(Y, W))",
            "Conv<group=2, pads=[1, 1, 1, 1]>(Concat<axis=0>(X, Y), W)",
            "derived",
        ),
        (
            TWO_KERNELS,
            "Concat<axis=1>(Conv<pads=[1, 1, 1, 1]>(X, W), Conv<pads=[1, 1, 1, 1]>(Y, V))",
            "Conv<group=2, pads=[1, 1, 1, 1]>(Concat<axis=1>(X, Y), Concat<axis=0>(V, W))",
            "new",
        ),
    ],
)
def test_convolutions_are_one_for_any_pads(generated, given, left, right, status):
    (law,) = parse_rules(LAW.format(given=given, left=left, right=right), "by_hand.rules")
    assert redundancy(law, generated, draws=1).status == status
