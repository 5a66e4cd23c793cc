"""How long passes last where no budget was asked for, and what is said without a final race."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from tensolog.optimizer.deadline import OutOfTimeError
from tensolog.optimizer.plan_selection import STRETCHED_S, race_finalists, stretch_s
from tensolog.optimizer.race.contest import ORIGINAL, Plan
from tensolog.optimizer.race.final import ENOUGH_ROUNDS, FINAL_SHARE
from tensolog.optimizer.result.outcome import candidate_of, verdict_of
from tensolog.optimizer.setting import BUDGET_S, Setting

UNASKED, ASKED = Setting(stretches=True), Setting()


@dataclass
class Slow:
    """Stands for a contest whose rounds take so many seconds each."""

    round_s: float

    def rounds_s(self, rounds: int) -> float:
        return rounds * self.round_s


def test_races_of_small_models_last_no_longer():
    assert stretch_s(UNASKED, Slow(0.001)) == 0.0


def test_those_of_larger_ones_last_until_the_final_has_enough_rounds():
    needed = (BUDGET_S + 10) / ENOUGH_ROUNDS * FINAL_SHARE
    assert stretch_s(UNASKED, Slow(needed)) == pytest.approx(10.0)


def test_and_no_longer_than_the_longest():
    assert stretch_s(UNASKED, Slow(1e3)) == STRETCHED_S - BUDGET_S


def test_a_budget_that_was_asked_for_holds():
    assert stretch_s(ASKED, Slow(1e3)) == 0.0


def test_without_a_final_race_nothing_is_said_to_be_beaten():
    """On a busy machine all time may be over by then, and what was verified may be faster."""
    graph = SimpleNamespace(nodes={})
    original = Plan(ORIGINAL, graph)
    waiting = Plan("simplified", graph, is_verified=True)
    same = Plan("explored", graph, is_verified=True, same_kernels_as="simplified")
    refused = Plan("e-graph", graph, refusal="off by much")
    state = SimpleNamespace(
        schedule=SimpleNamespace(remaining_s=0.5),
        contest=Slow(1.0),
        finalists=[],
        plans=[waiting, same, refused],
        winner=original,
        take_incumbent=lambda: None,
    )
    with pytest.raises(OutOfTimeError):
        next(race_finalists(state, 1.0))
    verdicts = [candidate_of(plan, winner=False).verdict for plan in state.plans]
    assert verdicts == [
        "refused: no time to race it: give a larger budget",
        "runs what simplified runs",
        "refused: off by much",
    ]
    assert waiting.lacks_s > 0
    assert "in the time that there was" in verdict_of(original, state.plans)
