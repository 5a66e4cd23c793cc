"""Where the sides of a partial equivalence differ: found from sizes, proved for all."""

from __future__ import annotations

from tensolog.rules import parse_rules
from tensolog.rules.gate.region import synthesize_region
from tensolog.rules.prover.cases import statements
from tensolog.rules.prover.statement import Outcome

from .statements_by_hand import sum_of_products

# The rows beside the cut see padding in the place of their neighbours.
CUT = """
rule SplitConvIntoHalves
  tags explore
  opset >= 13
  given X [n, c, h, w] float, W [o, c, 3, 3], h > 6
  match
    Y = Conv<pads=[1, 1, 1, 1]>(X, W)
  rewrite
    A = Conv<pads=[1, 1, 1, 1]>(Slice(X, [0], [4], [2]), W)
    B = Conv<pads=[1, 1, 1, 1]>(Slice(X, [4], [h], [2]), W)
    Y = Concat<axis=2>(A, B)
  equal rounding
"""


def case():
    (rule,) = parse_rules(CUT)
    return statements(rule)[0]


def test_the_rows_at_a_cut_are_found_and_no_others():
    region = synthesize_region(case(), 60.0)
    assert region is not None
    assert region.indices == ("i0", "i1", "i2", "i3")
    rows = [row for row in range(12) if eval(_python(region.text), {"i2": row, "h": 12})]
    assert rows == [3, 4]
    text = CUT.replace("equal rounding", f"equal partial except {region.text}")
    without_indices = text.replace("i2", "h")  # indices are no names of the rule yet
    assert parse_rules(without_indices)


def _python(text):
    return text.replace(" = ", " == ")


def test_no_region_is_returned_that_is_not_proved():
    asked = []

    def undecided(statement, timeout):
        asked.append(statement.region)
        return Outcome("open", "not today")

    assert synthesize_region(case(), 60.0, undecided) is None
    assert len(asked) == 1


def test_sides_that_differ_everywhere_have_no_region():
    assert synthesize_region(sum_of_products(), 20.0) is None


def test_equal_sides_have_no_region():
    alone = CUT.replace("3, 3]", "1, 1]").replace("[1, 1, 1, 1]", "[0, 0, 0, 0]")
    (rule,) = parse_rules(alone)  # no row sees another: a cut changes nothing
    assert synthesize_region(statements(rule)[0], 20.0) is None
