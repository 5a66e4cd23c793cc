"""Limits count work: no verdict depends on how busy a machine is."""

from __future__ import annotations

import time
from itertools import count

import pytest
from tensolog.rules import load_rules
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.prover import work_clock
from tensolog.rules.prover.cases.case_split import statements
from tensolog.rules.prover.prove import prove
from tensolog.rules.prover.solve.recheck import ask_cvc5, ask_z3, recheck_all

from tests.rules.hard_script import HARD

RULES = {rule.name: rule for rule in load_rules()}
ASKED = "EliminateSlice"  # a rule whose proof puts questions to the solver


def work_of(act):
    before = (work_clock.DONE.monomials, work_clock.DONE.questions, work_clock.DONE.z3_steps)
    act()
    after = (work_clock.DONE.monomials, work_clock.DONE.questions, work_clock.DONE.z3_steps)
    return tuple(b - a for a, b in zip(before, after, strict=True))


def test_the_same_proof_is_the_same_work():
    statement = statements(RULES[ASKED])[0]
    first, second = (work_of(lambda: prove(statement)) for _ in range(2))
    assert first == second
    assert all(part > 0 for part in first)


def test_a_limit_of_work_is_met_at_the_same_place_each_time(monkeypatch):
    monkeypatch.setattr("tensolog.rules.prover.prove._LEAST_S", 0.0)
    statement = statements(RULES[ASKED])[0]
    whole = prove(statement)
    assert whole.status == "proved"
    for seconds in (1e-4, 1e-3, 1e-2):
        outcomes = [prove(statement, seconds) for _ in range(2)]
        assert outcomes[0].status == outcomes[1].status
        assert outcomes[0].reason == outcomes[1].reason
        scripts = [[query.script for query in outcome.queries] for outcome in outcomes]
        assert scripts[0] == scripts[1]
    assert prove(statement, 1e-4).status == "open"


def test_the_time_that_passes_changes_no_verdict(monkeypatch):
    """As on a machine where the proof is not let run: an hour goes by whenever it looks."""
    hours = count(start=1e9, step=3600.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(hours))
    monkeypatch.setattr(time, "monotonic", lambda: next(hours))
    verdict = prove_rule(RULES["EliminateExpand"], infer=0.0)
    assert verdict.status in ("proved", "bounded")
    assert len(verdict.obligations) > 10
    assert {obligation.opinion for obligation in verdict.obligations} <= {"agree", "absent"}


@pytest.mark.parametrize("ask", [ask_z3, ask_cvc5])
def test_solvers_stop_after_a_number_of_steps(ask):
    """The guard in real time is half a minute away."""
    assert ask(HARD, 0.01)[0] == "unknown"


def test_rechecking_ends_when_its_work_is_done():
    scripts = [HARD.replace("x 2", f"x {least}") for least in range(3, 30)]
    rechecks = recheck_all(scripts, 0.2, budget=0.5)
    reasons = [answer.reason for answer in rechecks.values()]
    asked = [reason for reason in reasons if "no time left" not in reason]
    assert 1 < len(asked) < 8


def test_the_clock_shows_about_what_a_second_is():
    """A rate that is wrong by a factor of 10 would make of limits what they don't say."""
    began, clock = work_clock.now(), time.thread_time()
    for statement in statements(RULES[ASKED]):
        prove(statement)
    ratio = (work_clock.now() - began) / (time.thread_time() - clock)
    assert 1 / 20 < ratio < 20
