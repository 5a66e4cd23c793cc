"""Rules that are proved for all ranks, and neighbours that are proved for none."""

import random
from pathlib import Path

import pytest
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.prover.cases.case_split import IllTyped, statements
from tensolog.rules.prover.normal.context import Context
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.ranks.induction import lift
from tensolog.rules.prover.solve.polynomials import constant, equals, quotient, variable
from tensolog.rules.prover.solve.smt import Solver

JUDGED = {
    name: parse_rules((Path(__file__).parent / f"{name}.rules").read_text("utf-8"))
    for name in ("all_ranks", "no_ranks")
}


@pytest.mark.parametrize("rule", JUDGED["all_ranks"], ids=lambda rule: rule.name)
def test_rules_are_proved_for_all_ranks(rule):
    cases = statements(rule)
    outcomes = [prove(case) for case in cases]
    assert [
        outcome.reason for outcome in outcomes if outcome.status != "proved" and not outcome.vacuous
    ] == []
    assert lift(rule, cases, outcomes).ranks == "all"


@pytest.mark.parametrize("rule", JUDGED["no_ranks"], ids=lambda rule: rule.name)
def test_its_neighbour_is_not_proved(rule):
    try:
        cases = statements(rule)
    except IllTyped:
        return
    assert any(
        outcome.status != "proved" and not outcome.vacuous
        for outcome in (prove(c, 2.0) for c in cases)
    )


def test_a_quotient_takes_multiples_out():
    p, q, r, g = map(variable, "pqrg")
    equations = tuple(equals(quotient(size, g) * g, size) for size in (p, q))
    context = Context(Solver(equations, {"g": 1}), frozenset("pqrg"))
    whole = context.fold(quotient(2 * p + q * r + r, g))
    assert whole == 2 * quotient(p, g) + quotient(q, g) * r + quotient(r, g)
    numbers = random.Random(5)
    for _ in range(200):
        by = numbers.randint(1, 7)
        assignment = {"p": by * numbers.randint(-4, 4), "q": by * numbers.randint(-4, 4), "g": by}
        assignment["r"] = numbers.randint(-20, 20)
        here = {name: constant(number) for name, number in assignment.items()}
        value = (2 * assignment["p"] + assignment["q"] * assignment["r"] + assignment["r"]) // by
        assert whole.substitute(here) == constant(value)


def test_nothing_is_taken_out_that_may_leave_a_rest():
    p, q, g = map(variable, "pqg")
    context = Context(Solver((equals(quotient(p, g) * g, p),), {"g": 1}), frozenset("pqg"))
    assert context.fold(quotient(p + q, g)) == quotient(p, g) + quotient(q, g)
    assert context.fold(quotient(q, g)) == quotient(q, g)
