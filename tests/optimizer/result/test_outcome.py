"""What is told of candidates compares: latencies and ratios say the same."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tensolog.optimizer.graph.graph import Graph
from tensolog.optimizer.race.contest import ORIGINAL, Plan
from tensolog.optimizer.race.shortlist import NO_TIME
from tensolog.optimizer.result.outcome import candidate_of, more_time, rounds_to_decide, verdict_of
from tensolog.profiles.races.race import Lap

FINAL = Lap(20e6, 1e5, 1.0, 1.0, 1.0, 40)  # the original's last lap, when the machine was slow
EARLY = Lap(12.8e6, 2e5, 0.99, 0.98, 1.0, 12)  # of a plan that dropped out when it was quick


def candidate(lap, name="plan"):
    plan = Plan(name, Graph(base=None, names=[]), lap=lap)
    return candidate_of(plan, winner=False, reference=FINAL)


def test_who_dropped_out_early_is_told_at_the_final_speed_of_the_machine():
    early = candidate(EARLY)
    assert early.median_ns == pytest.approx(0.99 * 20e6)
    assert early.spread_ns / early.median_ns == pytest.approx(EARLY.spread_ns / EARLY.median_ns)
    assert (early.ratio, early.samples) == (0.99, 12)


def test_the_original_is_told_as_it_was():
    assert candidate(FINAL, ORIGINAL).median_ns == 20e6
    assert candidate_of(Plan("p", Graph(base=None, names=[])), winner=False).ratio is None


def test_who_dropped_out_without_a_lap_was_beaten():
    plan = Plan("p", Graph(base=None, names=[]), is_verified=True)
    assert candidate_of(plan, winner=False).verdict == "beaten"


@pytest.mark.parametrize(
    ("lap", "verdict"),
    [
        (EARLY, "no faster"),
        (replace(EARLY, samples=3, ratio_low=0.5, ratio_high=2.0), "too few rounds to tell"),
        (replace(EARLY, ratio=0.8, ratio_low=0.7, ratio_high=0.9), "faster, but not the fastest"),
        (replace(EARLY, samples=3, ratio=2.0, ratio_low=1.5, ratio_high=2.5), "slower"),
        (None, "not raced"),
    ],
)
def test_words_for_each_verdict(lap, verdict):
    assert candidate(lap).verdict == verdict


def test_who_was_behind_the_winner_when_both_raced_is_told_so():
    """Its ratio may be smaller than the winner's last one, when the machine was another."""
    lap = replace(EARLY, ratio=0.55, ratio_low=0.54, ratio_high=0.56)
    plan = Plan("plan", Graph(base=None, names=[]), lap=lap, behind="kernels")
    verdict_ = candidate_of(plan, winner=False, reference=FINAL).verdict
    assert verdict_ == "faster, but behind kernels when both raced"


@pytest.mark.parametrize(
    ("lap", "refusal", "is_open"),
    [
        (EARLY, "", False),
        (replace(EARLY, samples=3, ratio_low=0.5, ratio_high=2.0), "", True),
        (replace(EARLY, samples=3, ratio=1.1, ratio_low=0.5, ratio_high=2.0), "", False),
        (None, f"{NO_TIME}, and another promises more", True),
    ],
)
def test_who_had_too_little_time_to_win_is_told_of(lap, refusal, is_open):
    original = Plan(ORIGINAL, Graph(base=None, names=[]), lap=FINAL)
    plan = Plan("plan", Graph(base=None, names=[]), lap=lap, refusal=refusal)
    other = Plan("other", Graph(base=None, names=[]), lap=EARLY)
    assert ("a larger budget" in verdict_of(original, [plan, other])) == is_open


@pytest.mark.parametrize(("gap", "sentence"), [(0.0, ""), (0.004, ""), (0.46, "up to 46% less")])
def test_what_the_search_left_open_is_told(gap, sentence):
    original = Plan(ORIGINAL, Graph(base=None, names=[]), lap=FINAL)
    plan = Plan("e-graph", Graph(base=None, names=[]), lap=EARLY, gap=gap)
    text = verdict_of(original, [plan])
    assert ("The search ended" in text) == bool(sentence)
    assert sentence in text


def named(name, **fields):
    return Plan(name, Graph(base=None, names=[]), **fields)


def test_plans_that_there_was_no_time_for_are_told_with_the_budget_that_would_do():
    winner = named("e-graph", lap=EARLY)
    plans = [
        winner,
        named("late", refusal=f"{NO_TIME}: give a larger budget", lacks_s=2.0),
        named("later", refusal=f"{NO_TIME}: give a larger budget", lacks_s=1.0),
    ]
    (sentence,) = more_time(winner, plans, round_s=0.1, budget_s=10.0)
    assert sentence == "About 10 s more would decide about late, later: --budget 20."
    assert not list(more_time(winner, [winner], round_s=0.1, budget_s=10.0))


FEW = replace(EARLY, samples=4, ratio=0.9, ratio_low=0.6, ratio_high=1.2)


def test_too_few_rounds_are_told_where_the_original_is_kept_for_that():
    original, plan = named(ORIGINAL, lap=FINAL), named("e-graph", lap=FEW)
    (sentence,) = more_time(original, [plan], round_s=0.1, budget_s=10.0)
    # Nine times as many rounds: 32 more, of 0.1 s each, of the final's part of a budget.
    assert sentence == "About 11 s more would decide about e-graph: --budget 21."
    assert not list(more_time(plan, [plan], round_s=0.1, budget_s=10.0))


def test_a_plan_that_looks_faster_than_the_winner_and_had_too_few_rounds_is_told():
    winner = named("kernels", lap=replace(EARLY, ratio=0.94, ratio_low=0.93, ratio_high=0.95))
    plan = named("e-graph", lap=replace(FEW, ratio=0.8, ratio_low=0.55, ratio_high=1.1))
    (sentence,) = more_time(winner, [winner, plan], round_s=0.1, budget_s=10.0)
    # (0.30 / 0.14) ** 2 times as many rounds: 15 more of 0.1 s, of the final's part of a budget.
    assert sentence == "About 5 s more would decide about e-graph: --budget 15."
    slower = named("e-graph", lap=replace(FEW, ratio=0.95))
    assert not list(more_time(winner, [winner, slower], round_s=0.1, budget_s=10.0))


def test_no_number_of_rounds_shows_a_gain_that_is_none():
    assert rounds_to_decide(replace(FEW, ratio=1.0)) == float("inf")
    original, plan = named(ORIGINAL, lap=FINAL), named("e-graph", lap=replace(FEW, ratio=1.0))
    assert not list(more_time(original, [plan], round_s=0.1, budget_s=10.0))


def test_as_many_rounds_as_told_decide(samples=5, seed=3):
    """Drawn laps: an interval of 95 % leaves out 1 after so many rounds about as often as not."""
    rng = np.random.default_rng(seed)
    ratio, spread, decided = 0.95, 0.2, 0
    for _ in range(200):
        half = 1.96 * spread / samples**0.5
        lap = replace(FEW, samples=samples, ratio=ratio, ratio_low=ratio - half)
        lap = replace(lap, ratio_high=ratio + half)
        rounds = samples + math.ceil(rounds_to_decide(lap))
        drawn = rng.normal(ratio, spread, rounds).mean()
        decided += drawn + 1.96 * spread / rounds**0.5 < 1
    assert 0.35 < decided / 200 < 0.65
