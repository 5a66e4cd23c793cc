"""Reasons speak of a rule's own names."""

from __future__ import annotations

import re

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.wording import worded

(SUMS,) = parse_rules(
    "rule EliminateIt\n  tags always\n  given X [*d, n] float32\n  match\n"
    "    Y = Relu(Concat<axis=0>(X, *A))\n  rewrite\n    Y = Concat<axis=0>(X, *A)\n  equal exact",
    "t",
)
CASE = next(
    s for s in statements(SUMS) if s.free["len(A)"].length == 2 and s.free["len(d)"].length == 2
)
INTERNAL = re.compile(r"@|%|#|\b[VM]a?x?\d|\.\d")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("i@1 < d.0 + A.1.0", "i0 < d[0] + dim(A[1], 0)"),
        ("exists %0: %0 < i@3 + i@5", "exists k0: k0 < i2 + j1"),
        ("those of V1^-1/2 X differ", "those of (a value on the way)^-1/2 X differ"),
        ("Max0[i@1, 0] or #INT", "(a largest element) or (an integer)"),
        (
            "Y: the coefficients of X differ",
            "Y: both sides are not seen to be equal: what they have of X differs",
        ),
        (
            "the target needs X[i@1] > 0 where the other doesn't",
            "the right side has a value only where X[i0] > 0, the left side elsewhere, too",
        ),
        ("not decided in 2.0 s, at 3.14", "not decided in 2.0 s, at 3.14"),
        ("vacuous: the assumptions", "vacuous: the assumptions"),
        ("X1 and MaxPool2 and Y.5", "X1 and MaxPool2 and Y.5"),
    ],
)  # fmt: skip
def test_names_of_the_prover_become_those_of_the_rule(text, said):
    assert worded(text, CASE) == said


def test_the_reason_of_an_open_statement_names_nothing_internal():
    outcome = prove(CASE)
    assert outcome.status == "open"
    assert not INTERNAL.search(worded(outcome.reason, CASE))
