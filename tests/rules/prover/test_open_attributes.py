"""Attributes that a rule leaves open, `*a`, may be absent: each node then has its own default."""

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.cases.composition import UndescribedError
from tensolog.rules.prover.prove import prove

RULE = """
rule Check
  tags    explore
  source  ["test"]
  opset   {opset}
  given   {given}
  match
    {match}
  rewrite
    {rewrite}
  equal   rounding
"""


def is_proved(given, match, rewrite, opset=">= 13"):
    match, rewrite = ("\n    ".join(lines.split("; ")) for lines in (match, rewrite))
    (rule,) = parse_rules(RULE.format(opset=opset, given=given, match=match, rewrite=rewrite))
    try:
        outcomes = [prove(statement) for statement in statements(rule)]
    except (IllTyped, UndescribedError):
        return False
    assert outcomes
    return all(outcome.status == "proved" or outcome.vacuous for outcome in outcomes)


TRANSPOSED = "A = Transpose<*a>(X); B = Transpose<*a>(Y); R = Add(A, B)"
MERGED = "S = Add(X, Y); R = Transpose<*a>(S)"
MULTIPLIED = "A = LeakyRelu<*a>(X); R = {}<*a>(A)"
REDUCED = "A = ReduceSum<*a>(X); B = ReduceSum<*a>(Y); R = Add(A, B)"
SUMMED = "Z = Add(X, Y); R = ReduceSum<*a>(Z)"


@pytest.mark.parametrize(
    ("given", "match", "rewrite", "opset", "proved"),
    [
        # a Transpose without `perm` reverses the axes of its own operand
        ("X float, Y float", TRANSPOSED, MERGED, ">= 13", False),
        ("X float, Y float, rank(X) = rank(Y)", TRANSPOSED, MERGED, ">= 13", True),
        ("X [m, n] float, Y [m, n] float", TRANSPOSED, MERGED, ">= 13", True),
        ("X [m, n] float, Y [n] float", TRANSPOSED, MERGED, ">= 13", False),
        # LeakyRelu's `alpha` is 0.01 where it is left out, Elu's is 1
        (
            "X float",
            MULTIPLIED.format("Elu"),
            "B = Elu<*a>(X); R = LeakyRelu<*a>(B)",
            ">= 16",
            False,
        ),
        ("X float", "R = LeakyRelu<*a>(X)", "R = LeakyRelu<*a>(X)", ">= 16", True),
        (
            "X float",
            "R = LeakyRelu<*a>(X)",
            "P = Relu(X); N = Neg(X); Q = Relu(N); E = ThresholdedRelu<*a>(Q); R = Sub(P, E)",
            ">= 16",
            False,
        ),
        # all axes of either operand
        ("X [m, n] float, Y [m, n] float", REDUCED, SUMMED, "11..12", True),
        ("X [m, 1] float, Y [m, 1] float", REDUCED, SUMMED, "11..12", True),
        ("X [n] float, Y [1, n] float", REDUCED, SUMMED, "11..12", False),
    ],
)
def test_each_node_has_its_own_default(given, match, rewrite, opset, proved):
    assert is_proved(given, match, rewrite, opset) == proved


@pytest.mark.parametrize(
    ("rewrite", "proved"),
    [
        ("T = Relu(X); Y = Squeeze(T, a?)", True),
        ("T = Relu(X); U = Reshape(T, [-1]); Y = Identity(U)", False),
    ],
)
def test_a_squeeze_without_axes_drops_every_size_of_1(rewrite, proved):
    assert is_proved("X float", "S = Squeeze(X, a?); Y = Relu(S)", rewrite) == proved


def test_what_a_squeeze_without_axes_drops_is_a_case_for_each_size():
    (rule,) = parse_rules(
        RULE.format(
            opset=">= 13",
            given="X [m, n] float",
            match="S = Squeeze(X, a?)\n    Y = Mul(S, S)",
            rewrite="T = Mul(X, X)\n    Y = Squeeze(T, a?)",
        )
    )
    absent = [statement for statement in statements(rule) if "a is absent True" in statement.title]
    assert sorted(statement.title.rpartition("drops ")[2] for statement in absent) == [
        "(False, False)",
        "(False, True)",
        "(True, False)",
        "(True, True)",
    ]
