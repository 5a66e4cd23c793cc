"""The statistics against numpy, brute force and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.profiles.races.statistics import bootstrap_ratio, median_and_spread, quiet, swiftest

times = st.lists(st.floats(1, 1e6), min_size=1, max_size=30)


@given(times)
def test_median_and_spread_against_sorting(samples):
    def middle(values):
        ordered = sorted(values)
        half = len(ordered) // 2
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

    median, spread = median_and_spread(samples)
    assert median == pytest.approx(middle(samples))
    expected = 1.4826 * middle([abs(sample - middle(samples)) for sample in samples])
    assert spread == pytest.approx(expected, abs=1e-6)


def test_the_spread_estimates_the_standard_deviation():
    samples = np.random.default_rng(0).normal(100, 5, 20000)
    assert median_and_spread(samples)[1] == pytest.approx(5, rel=0.05)


@given(times)
def test_at_least_half_of_the_rounds_are_quiet(reference):
    kept = quiet(reference)
    assert 2 * kept.sum() >= len(reference)
    assert max(np.array(reference)[kept]) <= 1.1 * np.median(reference)


def test_disturbed_rounds_are_left_out():
    assert quiet([10, 10.5, 20, 10, 30]).tolist() == [True, True, False, True, False]


def test_small_samples_against_all_resamples():
    ratios = [0.8, 0.9, 0.95, 1.0, 1.3]
    medians = [np.median(drawn) for drawn in itertools.product(ratios, repeat=5)]
    low, high = np.quantile(medians, [0.025, 0.975])
    blocks = [([ratio], [1.0]) for ratio in ratios]
    ratio = bootstrap_ratio(blocks, resamples=20000)
    assert ratio.value == pytest.approx(0.95)
    assert ratio.low == pytest.approx(low, abs=0.02)
    assert ratio.high == pytest.approx(high, abs=0.02)


def test_few_rounds_against_student():
    """mean +- t s / sqrt(n) of the logarithms, by hand."""
    blocks = [([1.1], [1.0]), ([1.2], [1.0]), ([1.0, 1.3, 1.4], [1.0, 1.0, 1.0])]
    logs = np.log([1.1, 1.2, 1.3])
    half = 4.303 * np.sqrt(np.sum((logs - logs.mean()) ** 2) / 2) / np.sqrt(3)
    ratio = bootstrap_ratio(blocks)
    assert ratio.low == pytest.approx(np.exp(logs.mean() - half))
    assert ratio.high == pytest.approx(np.exp(logs.mean() + half))


def test_one_round_says_nothing():
    ratio = bootstrap_ratio([([3.0, 3.1], [1.0, 1.0])])
    assert ratio.low < 0.1 and ratio.high > 100 and np.isfinite(ratio.high)


@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 8])
def test_false_alarms_of_few_rounds(rounds):
    rng = np.random.default_rng(rounds)
    alarms = 0
    for trial in range(200):
        turns = np.exp(rng.normal(0, 0.1, rounds))
        blocks = [(list(turn * np.exp(rng.normal(0, 0.02, 5))), [1.0] * 5) for turn in turns]
        ratio = bootstrap_ratio(blocks, seed=trial, resamples=200)
        alarms += not ratio.low <= 1.0 <= ratio.high
    assert alarms / 200 <= 0.15


def simulate(rng, factor, rounds=25):
    """Rounds of a machine with moods: both models share a round's mood."""
    mood = np.exp(rng.normal(0, 0.5, rounds))
    return [
        ([factor * slow * np.exp(rng.normal(0, 0.05))], [slow * np.exp(rng.normal(0, 0.05))])
        for slow in mood
    ]


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        ratio = bootstrap_ratio(simulate(rng, 1.2), seed=trial, resamples=400)
        covered += ratio.low <= 1.2 <= ratio.high
    assert 0.90 <= covered / 300 <= 0.99


def disturbed(rng, factor, rounds=40):
    """Rounds of a machine on which every other run shares the processor with something else."""

    def run():
        return np.exp(rng.normal(0, 0.01)) * (1 + (rng.random() < 0.5) * rng.exponential(0.5))

    return [([factor * run()], [run()]) for _ in range(rounds)]


def test_the_swiftest_are_a_quarter():
    assert swiftest([3.0]) == 3.0
    assert swiftest([9, 1, 8, 3, 7, 6, 5, 4]) == pytest.approx((1 + 3 + 4) / 3)


def test_intervals_under_load_cover_and_are_narrow():
    rng = np.random.default_rng(4)
    intervals = [bootstrap_ratio(disturbed(rng, 1.2), seed=n, resamples=400) for n in range(150)]
    assert 0.90 <= np.mean([ratio.low <= 1.2 <= ratio.high for ratio in intervals]) <= 1.0
    assert np.median([ratio.high / ratio.low for ratio in intervals]) < 1.06


def test_pairing_sees_through_moods():
    rng = np.random.default_rng(2)
    blocks = simulate(rng, 1.1)
    ratio = bootstrap_ratio(blocks)
    assert 1.0 < ratio.low < ratio.value < ratio.high < 1.2


def test_blocks_count_as_one_disturbance():
    """Ten pairs of one turn are not ten independent ones."""
    rng = np.random.default_rng(3)
    effects = np.exp(rng.normal(0, 0.1, 6))
    blocks = [(list(effect * np.exp(rng.normal(0, 0.01, 10))), [1.0] * 10) for effect in effects]
    flat = [([time], [1.0]) for block, _ in blocks for time in block]
    clustered, naive = bootstrap_ratio(blocks), bootstrap_ratio(flat)
    assert clustered.high - clustered.low > 1.5 * (naive.high - naive.low)


def test_a_model_against_itself_is_exactly_one():
    ratio = bootstrap_ratio([([5.0, 6.0], [5.0, 6.0]), ([7.0], [7.0])])
    assert (ratio.value, ratio.low, ratio.high) == (1.0, 1.0, 1.0)


def test_no_rounds_are_an_error():
    with pytest.raises(ValueError, match="no rounds"):
        bootstrap_ratio([])
