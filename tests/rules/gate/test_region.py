"""Where the sides of a partial equivalence differ: eliminated from the prover's questions."""

from __future__ import annotations

import numpy as np
import pytest
import z3
from tensolog.catalog.terms.index_notation import Symbol
from tensolog.rules import parse_rules
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.gate.inference import partial_region as module
from tensolog.rules.gate.inference.implicants import NotPlainError, implicants
from tensolog.rules.gate.inference.inequalities import Conditions
from tensolog.rules.gate.inference.partial_region import region_text, synthesize_region, with_region
from tensolog.rules.gate.inference.sampled_region import learned_region
from tensolog.rules.gate.quick_check import quick_check
from tensolog.rules.language.canonical_text import expression_text
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.statement import Outcome

from ..partial_rule import REGION, SPLIT_CONV
from .statements_by_hand import sum_of_products

CUT = SPLIT_CONV.replace(f" {REGION}", "")
UNCORRECTED = CUT[: CUT.index("  correct")] + "  equal partial\n"


def case(text=UNCORRECTED):
    (rule,) = parse_rules(text)
    return statements(rule)[0]


def body(conditions, match, rewrite):
    lines = ["rule R", "  tags explore", "  opset >= 13", f"  given {conditions}", "  match"]
    lines += [f"    {line}" for line in match] + ["  rewrite"]
    return "\n".join([*lines, *(f"    {line}" for line in rewrite), "  equal partial", ""])


STRIDED = UNCORRECTED.replace("1, 1]>", "1, 1], strides=[2, 2]>")
HALVED = UNCORRECTED.replace("[4]", "[h // 2]")
UNPADDED = body(
    "X [n, c, h, w] float, W [o, c, 3, 3], h > 2, w > 2",
    ["Y = Conv<pads=[1, 1, 1, 1]>(X, W)"],
    ["A = Conv<pads=[0, 0, 0, 0]>(X, W)", "Y = Pad(A, [0, 0, 1, 1, 0, 0, 1, 1])"],
)
SHORTENED = body(
    "X [n, m] float, m > 1",
    ["Y = Relu(X)"],
    ["A = Relu(Slice(X, [0], [m - 1], [1]))", "Y = Pad(A, [0, 0, 0, 1])"],
)
# Two images side by side: each sees the other where it should see padding. A product of a size and
# an index is beyond elimination.
FOLDED = body(
    "X [b, c, h, w] float, W [o, c, 3, 3], b % 2 = 0, b > 0, c > 0, h > 0, w > 0, o > 0",
    ["Y = Conv<pads=[1, 1, 1, 1]>(X, W)"],
    [
        "P = Transpose<perm=[0, 2, 3, 1, 4]>(Reshape(X, [b // 2, 2, c, h, w]))",
        "Q = Conv<pads=[1, 1, 1, 1]>(Reshape(P, [b // 2, c, h, 2 * w]), W)",
        "R = Transpose<perm=[0, 3, 1, 2, 4]>(Reshape(Q, [b // 2, o, h, 2, w]))",
        "Y = Reshape(R, [b, o, h, w])",
    ],
)
# Sizes, and where the sides differ at them, as a person says it.
REGIONS = {
    "cut": (UNCORRECTED, {"h": 12}, lambda i: i["i2"] in (3, 4)),
    "strided": (STRIDED, {"h": 12}, lambda i: i["i2"] == 2),
    "halved": (HALVED, {"h": 11}, lambda i: i["i2"] in (4, 5)),
    "unpadded": (UNPADDED, {"h": 7, "w": 6}, lambda i: i["i2"] in (0, 6) or i["i3"] in (0, 5)),
    "shortened": (SHORTENED, {"m": 9}, lambda i: i["i1"] == 8),
}


def holds(text, numbers):
    return eval(text.replace(" = ", " == "), {}, dict(numbers))


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_is_eliminated_and_is_where_the_sides_differ(name):
    text, sizes, wanted = REGIONS[name]
    region = synthesize_region(case(text), 60.0)
    assert region is not None
    assert region.eliminated
    extents = {f"i{axis}": 3 for axis in range(4)} | {"i2": sizes.get("h", 3)}
    extents |= {"i3": sizes.get("w", 3)} if "w" in sizes else {}
    extents |= {"i1": sizes["m"]} if "m" in sizes else {}
    for place in np.ndindex(tuple(extents.values())):
        numbers = dict(zip(extents, place, strict=True))
        assert holds(region.text, numbers | sizes) is bool(wanted(numbers))


def test_what_is_not_linear_is_guessed_from_sizes_and_proved():
    statement = case(FOLDED)
    region = synthesize_region(statement, 60.0)
    assert region is not None
    assert not region.eliminated
    assert holds(region.text, {"i0": 2, "i3": 5, "w": 6})
    assert holds(region.text, {"i0": 3, "i3": 0, "w": 6})
    assert not holds(region.text, {"i0": 2, "i3": 4, "w": 6})


def test_both_ways_find_the_same():
    statement, names = case(), ("i0", "i1", "i2", "i3")
    first = synthesize_region(statement, 60.0).text
    other = region_text(learned_region(statement, names, float("inf")))
    for row in range(12):
        assert holds(first, {"i2": row, "h": 12}) == holds(other, {"i2": row, "h": 12})


def test_no_region_is_returned_that_is_not_proved():
    asked = []

    def undecided(statement, timeout):
        asked.append(statement.region)
        return Outcome("open", "not today")

    assert synthesize_region(case(), 60.0, undecided) is None
    assert len(asked) == 2  # the one that was eliminated, and the one that was guessed


def test_sides_that_differ_everywhere_have_no_region():
    assert synthesize_region(sum_of_products(), 20.0) is None


def test_equal_sides_have_no_region():
    alone = UNCORRECTED.replace("3, 3]", "1, 1]").replace("[1, 1, 1, 1]", "[0, 0, 0, 0]")
    assert synthesize_region(case(alone), 20.0) is None  # no row sees another


# ----------------------------------------------------------------------- rules without a region


def test_a_rule_without_a_region_comes_back_with_one_that_proves_it():
    (rule,) = parse_rules(CUT)
    verdict = prove_rule(rule)
    assert verdict.status == "unknown"
    (condition,) = verdict.conditions
    assert condition == "partial except i2 >= 3 and i2 <= 4"
    assert f"with `equal {condition}` it is proved" in verdict.reason
    (inferred,) = parse_rules(CUT.replace("equal partial", f"equal {condition}"))
    assert prove_rule(inferred).status == "proved"


def test_a_region_does_not_hide_a_false_correction():
    (rule,) = parse_rules(CUT.replace("[2], [6], [2]", "[1], [5], [2]"))
    verdict = prove_rule(rule, search=0.5)
    assert verdict.status == "unknown"
    assert verdict.conditions == ()
    assert "with `except i2 >= 3 and i2 <= 4` it is" in verdict.reason


def test_a_rule_that_is_equal_everywhere_needs_no_region():
    text = body("X [n, m] float", ["Y = Relu(Relu(X))"], ["Y = Relu(X)"])
    (rule,) = parse_rules(text)
    assert with_region(rule, 20.0) is None
    assert "none was found" in prove_rule(rule).reason


def test_a_quick_look_holds_nothing_against_what_lies_in_a_region():
    (rule,) = parse_rules(CUT.replace("partial", "partial except i2 = 3 or i2 = 4"))
    assert quick_check(rule, 1.0).status == "sound"
    (rule,) = parse_rules(CUT)
    seen = quick_check(rule, 0.5)
    assert seen.status == "sound"
    assert any("region is not given" in note for note in seen.notes)


def test_a_region_of_nameless_sizes_is_not_written_down():
    """X has any rank: its sizes have no names in the rule."""
    text = body(
        "X float, rank(X) = 1, dim(X, 0) > 1",
        ["Y = Relu(X)"],
        ["Y = Pad(Relu(Slice(X, [0], [-1], [0])), [0, 1])"],
    )
    (rule,) = parse_rules(text)
    assert with_region(rule, 20.0) is None


# ------------------------------------------------------------------------------ short formulas


def rewritten(formula, *context):
    """A formula of a, b, c as the rule language says it."""
    cubes = implicants(formula, [*context], [])
    symbols = {name: Symbol(name, "integer") for name in "abc"}
    return region_text(Conditions(symbols, ("a",)).union(cubes))


A, B, C = z3.Ints("a b c")


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        (z3.And(A >= 3, A < 5, A != 9), "a >= 3 and a <= 4"),
        (z3.And(A >= 3, A < 4), "a = 3"),
        (z3.Not(A - B >= 2), "a <= b + 1"),
        (z3.If(B > 2, A, B) >= 7, "a >= 7 and b >= 3"),
        (2 * A >= 2 * B + 1, "a >= b + 1"),
        (z3.And(A % 2 == 1, A / 3 == B), "a % 2 = 1 and a // 3 = b"),
        (A != B, "a != b"),
    ],
)
def test_formulas_are_told_shortly(formula, wanted):
    said = rewritten(formula, B <= 6)
    assert sorted(said.split(" and ")) == sorted(wanted.split(" and "))


def test_what_is_told_is_the_formula():
    rng = np.random.default_rng(7)
    for _ in range(25):
        atoms = [
            int(rng.integers(-2, 3)) * A + int(rng.integers(-2, 3)) * B >= int(rng.integers(-4, 5))
            for _ in range(3)
        ]
        formula = z3.Or(z3.And(atoms[0], z3.Not(atoms[1])), z3.And(atoms[1], atoms[2]))
        context = z3.And(A >= 0, A < 5, B >= 0, B < 5)
        try:
            said = rewritten(formula, context)
        except NotPlainError:
            continue  # everything or nothing
        for a, b in np.ndindex(5, 5):
            value = z3.simplify(z3.substitute(formula, (A, z3.IntVal(a)), (B, z3.IntVal(b))))
            assert holds(said, {"a": a, "b": b}) is z3.is_true(value)


def test_what_the_language_cannot_say_is_refused():
    function = z3.Function("f", z3.IntSort(), z3.IntSort())
    for formula in (A / B > 2, function(A) > 2, z3.Exists([C], C * C == A)):
        with pytest.raises(NotPlainError):
            rewritten(formula)


def test_a_region_is_read_as_it_is_written():
    (rule,) = parse_rules(
        CUT.replace("partial", "partial except i2 >= h // 2 - 1 and i3 = 0 or i2 = 1")
    )
    text = expression_text(rule.region)
    (again,) = parse_rules(CUT.replace("partial", f"partial except {text}"))
    assert again.region == rule.region
    assert module.region_text(statements(rule)[0].region).count("and") == 1
