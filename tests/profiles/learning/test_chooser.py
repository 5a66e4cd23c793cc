"""Choices of configurations against the best of all, on landscapes that are known in full."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.profiles.learning.chooser import ChooserError, choose

from benchmarks.tuning import landscapes

TUNING = Path(__file__).resolve().parents[4] / "shared/data/tuning"
GRID = np.array([[2.0**a, 2.0**b, c] for a in range(6) for b in range(6) for c in (0, 1)])


def device(bulk, flat, switch):
    """Times of a device that likes tiles of a size, and the switch on or off."""
    a, b, c = np.log2(GRID[:, 0]), np.log2(GRID[:, 1]), GRID[:, 2]
    return np.exp(0.3 * (a - bulk) ** 2 + 0.2 * (b - flat) ** 2 + switch * c + 0.1 * a * c)


OTHERS = [device(2, 3, 0.4), device(3, 1, -0.3), device(4, 4, 0.1)]
NEW = device(4, 1, -0.5)


def test_few_measurements_find_what_is_best():
    choice = choose(GRID, OTHERS, lambda number: NEW[number], measurements=20)
    assert NEW[choice.best(5)].min() == NEW.min()
    assert len(set(choice.measured)) == len(choice.measured) == 20


def test_what_other_devices_know_saves_measurements():
    """A device like another: the best is among the first, which without others it is not."""
    like = OTHERS[1] * 3.0
    informed = choose(GRID, OTHERS, lambda number: like[number], measurements=4)
    assert min(informed.times) == like.min()
    alone = choose(GRID, [], lambda number: like[number], measurements=4)
    assert min(alone.times) > like.min()


def test_what_is_predicted_best_is_better_than_what_other_devices_find_best():
    choice = choose(GRID, OTHERS, lambda number: NEW[number], measurements=20)
    by_others = [NEW[np.argsort(times)[:10]].mean() for times in OTHERS]
    assert NEW[choice.best(10)].mean() < min(by_others)


def test_nothing_is_known_of_other_devices():
    choice = choose(GRID, [], lambda number: NEW[number], measurements=40)
    assert min(choice.times) <= 1.05 * NEW.min()


def test_configurations_that_can_not_run_are_avoided():
    new = np.where(GRID[:, 0] * GRID[:, 1] > 64, math.inf, NEW)
    others = [np.where(GRID[:, 0] * GRID[:, 1] > 128, math.nan, times) for times in OTHERS]
    choice = choose(GRID, others, lambda number: new[number], measurements=30)
    assert new[choice.best(5)].min() == new.min()
    assert np.isfinite(choice.predicted[choice.best(5)]).all()


def test_none_can_run():
    choice = choose(GRID, OTHERS, lambda number: math.inf, measurements=12)
    assert np.isinf(choice.times).all()


def test_a_choice_is_the_same_each_time():
    first, second = (
        choose(GRID, OTHERS, lambda number: NEW[number], measurements=15) for _ in range(2)
    )
    assert first.measured == second.measured
    np.testing.assert_array_equal(first.predicted, second.predicted)


def test_a_unit_of_time_changes_nothing():
    first = choose(GRID, OTHERS, lambda number: NEW[number], measurements=14)
    second = choose(
        GRID, [1e6 * times for times in OTHERS], lambda number: 1e6 * NEW[number], measurements=14
    )
    assert first.measured == second.measured


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 14),
    st.integers(0, 10_000),
)
def test_any_space_is_measured_within_the_limit(count, width, devices, measurements, seed):
    random = np.random.default_rng(seed)
    space = random.integers(-1, 3, (count, width)).astype(float)
    times = np.where(random.random(count) < 0.2, math.inf, random.random(count) + 0.01)
    others = [random.random(count) for _ in range(devices)]
    choice = choose(space, others, lambda number: times[number], measurements=measurements)
    assert len(set(choice.measured)) == len(choice.measured) == min(measurements, count)
    np.testing.assert_array_equal(choice.times, times[list(choice.measured)])
    np.testing.assert_array_equal(choice.predicted[list(choice.measured)], choice.times)
    assert not np.isnan(choice.predicted).any()


@pytest.mark.parametrize(
    ("space", "others", "measurements", "reason"),
    [
        (np.ones(3), [], 5, "table of finite numbers"),
        (np.full((3, 1), np.nan), [], 5, "table of finite numbers"),
        (np.ones((3, 1)), [np.ones(2)], 5, "3 configurations have 2 times"),
        (np.ones((3, 1)), [], 0, "at least one"),
    ],
)
def test_what_does_not_fit_together(space, others, measurements, reason):
    with pytest.raises(ChooserError, match=reason):
        choose(space, others, lambda number: 1.0, measurements=measurements)


@pytest.mark.skipif(not TUNING.exists(), reason="the measured landscapes are not here")
def test_a_device_left_out():
    """The graphics processor that trees alone miss by 21 %."""
    (space,) = landscapes(TUNING, "convolution")
    times = space.times["W6600"]
    others = [other for name, other in space.times.items() if name != "W6600"]
    choice = choose(space.parameters, others, lambda number: times[number], measurements=50)
    assert times[choice.best(20)].min() <= 1.05 * times.min()


def test_landscapes_are_read_from_the_hubs_files(tmp_path):
    def device_file(name, times):
        cache = {f"{x},1": {"x": x, "y": 1, "time": time} for x, time in times.items()}
        content = {"device_name": name, "tune_params_keys": ["x", "y"], "cache": cache}
        short = name.split()[-1]
        with gzip.open(tmp_path / f"gemm_{short}.json.gz", "wt") as file:
            json.dump(content, file)

    device_file("NVIDIA A100", {1: 3.0, 2: 2.0, 4: 1.0})
    device_file("AMD W1", {1: 1.0, 2: "InvalidConfig", 8: 1.0})
    (space,) = landscapes(tmp_path)
    assert space.parameters.tolist() == [[1.0, 1.0], [2.0, 1.0]]
    assert space.times["W1"].tolist() == [1.0, math.inf]
    assert space.vendors == {"A100": "NVIDIA", "W1": "AMD"}
