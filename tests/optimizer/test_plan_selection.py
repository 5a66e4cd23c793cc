"""How long passes last where no budget was asked for."""

from dataclasses import dataclass

import pytest
from tensolog.optimizer.plan_selection import STRETCHED_S, stretch_s
from tensolog.optimizer.race.final import ENOUGH_ROUNDS, FINAL_SHARE
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
