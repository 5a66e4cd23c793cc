"""Heats on simulated models: whose sessions live, who drops out, and what the others gain by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.profiles.races.race import race
from tensolog.profiles.races.sequential_halving import Scores, number_of_heats

from tests.profiles.track import Track

NAMES = tuple("abcdefghijkl")


def simulate(factors, *, budget_s=10.0, original_ns=10e6, noise=0.02, load_s=0.5, **options):
    times = {"original": original_ns} | {name: original_ns * f for name, f in factors.items()}
    track = Track(times, noise, load_s)
    laps = race(
        dict.fromkeys(times, b""),
        {},
        threads=1,
        budget_s=budget_s,
        reference="original",
        loader=track.load,
        clock=track.clock,
        **options,
    )
    return laps, track


@pytest.mark.parametrize("seats", [1, 2, 3, 13])
def test_no_more_sessions_are_alive_than_there_are_seats(seats):
    laps, track = simulate(dict.fromkeys(NAMES, 1.0), seats=seats, finalists=1)
    assert track.most_alive == seats
    assert track.alive == 0
    assert set(laps) == {"original", *NAMES}
    assert all(lap.samples >= 1 for lap in laps.values())


@pytest.mark.parametrize("seats", [2, 3])
def test_the_reference_stays_while_its_challengers_come_and_go(seats):
    _, track = simulate(dict.fromkeys(NAMES, 1.0), seats=seats)
    opened = [name for name in track.loaded if name == "original"]
    assert len(opened) == 1 and len(track.loaded) == 1 + len(NAMES)


@pytest.mark.parametrize("seats", [1, 2, 13])
def test_what_is_left_gets_the_time_of_what_dropped_out(seats):
    factors = dict.fromkeys(NAMES, 1.0)
    laps, _ = simulate(factors, seats=seats, finalists=1, budget_s=20.0, load_s=0.05)
    alike, _ = simulate(factors, seats=seats, budget_s=20.0, load_s=0.05)
    winner, last = list(laps)[1], list(laps)[-1]
    assert laps[winner].samples > 1.5 * alike[winner].samples
    assert laps[winner].samples > 3 * laps[last].samples


def test_laps_come_in_the_order_of_placing():
    laps, _ = simulate({"slow": 2.0, "fast": 0.5, "slower": 3.0, "same": 1.0}, finalists=1)
    assert list(laps) == ["original", "fast", "same", "slow", "slower"]


def test_a_field_that_is_behind_ends_the_race():
    laps, track = simulate({"slow": 2.0, "slower": 3.0}, finalists=1, budget_s=100.0)
    assert track.now < 10
    assert {laps[name].verdict for name in ("slow", "slower")} == {"slower"}


def test_where_nobody_may_drop_out_all_have_as_many_laps():
    laps, _ = simulate({"slow": 2.0, "slower": 3.0, "same": 1.0})
    assert len({lap.samples for lap in laps.values()}) == 1


@pytest.mark.parametrize("seats", [1, 2, 3])
def test_rounds_that_are_asked_for_are_run_however_small_the_budget(seats):
    laps, _ = simulate({"a": 0.5, "b": 1.0}, budget_s=0.0, least_rounds=4, seats=seats)
    assert all(lap.samples >= 4 for lap in laps.values())
    assert laps["a"].verdict == "faster"


@given(st.integers(1, 40), st.integers(1, 5))
def test_heats_are_as_many_as_halving_takes(challengers, finalists):
    left, heats = challengers, 0
    while left > finalists:
        left, heats = max(finalists, (left + 1) // 2), heats + 1
    assert number_of_heats(challengers, finalists) == max(1, heats)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(3, 30), st.integers(2, 12))
def test_of_equals_hardly_anybody_is_surely_behind(seed, rounds, count):
    rng = np.random.default_rng(seed)
    names = [f"copy {number}" for number in range(count)]
    scores = Scores(names)
    for _ in range(rounds):
        block = {name: [float(np.exp(0.05 * rng.standard_normal()))] for name in names}
        scores.add(block | {"reference": [1.0]}, "reference")
    assert len(scores.surely_slower(names)) <= 1


def test_who_has_few_rounds_is_not_behind_yet():
    scores = Scores(["a", "b"])
    for _ in range(2):
        scores.add({"reference": [1.0], "a": [1.0], "b": [9.0]}, "reference")
    assert scores.surely_slower(["a", "b"]) == set()
    scores.add({"reference": [1.01], "a": [1.0], "b": [9.0]}, "reference")
    assert scores.surely_slower(["a", "b"]) == {"b"}
