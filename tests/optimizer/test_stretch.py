"""How long races last where no budget was asked for."""

from dataclasses import dataclass

import pytest
from tensolog.optimizer.campaign import FINAL_SHARE, STRETCHED_S, stretch_s
from tensolog.optimizer.race.final import ENOUGH_ROUNDS
from tensolog.optimizer.setting import Setting

UNASKED, ASKED = Setting(stretches=True), Setting()


@dataclass
class Slow:
    """Stands for a contest whose rounds take so many seconds each."""

    round_s: float

    def rounds_s(self, rounds: int) -> float:
        return rounds * self.round_s


def test_races_of_small_models_last_no_longer():
    assert stretch_s(UNASKED, Slow(0.001), 20.0) == 0.0


def test_those_of_larger_ones_last_until_the_final_has_enough_rounds():
    needed = 30.0 / ENOUGH_ROUNDS * FINAL_SHARE
    assert stretch_s(UNASKED, Slow(needed), 20.0) == pytest.approx(10.0)


def test_and_no_longer_than_the_longest():
    assert stretch_s(UNASKED, Slow(1e3), 20.0) == STRETCHED_S - 20.0
    assert stretch_s(UNASKED, Slow(1e3), STRETCHED_S + 1) == 0.0


def test_a_budget_that_was_asked_for_holds():
    assert stretch_s(ASKED, Slow(1e3), 20.0) == 0.0
