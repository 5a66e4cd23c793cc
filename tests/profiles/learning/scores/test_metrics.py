"""Metrics against SciPy, against all pairs, and where they are known."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from tensolog.profiles.learning.scores.metrics import (
    kendall_tau,
    mean_error,
    noise_ceiling,
    ordered_pair_accuracy,
    top_k_error,
)

few = st.integers(1, 6)  # so that some are equal
pairs = st.lists(st.tuples(few, few), min_size=2, max_size=40)


@given(pairs)
def test_kendall_tau_is_scipys(rows):
    times, predicted = np.array(rows, float).T
    tau = scipy.stats.kendalltau(times, predicted).statistic
    np.testing.assert_allclose(kendall_tau(times, predicted), tau, atol=1e-12)


@given(pairs)
def test_ordered_pairs_are_all_pairs(rows):
    times, predicted = np.array(rows, float).T
    unequal = [(i, j) for i, j in combinations(range(len(rows)), 2) if times[i] != times[j]]
    right = [(times[i] - times[j]) * (predicted[i] - predicted[j]) > 0 for i, j in unequal]
    expected = sum(right) / len(unequal) if unequal else math.nan
    np.testing.assert_allclose(ordered_pair_accuracy(times, predicted), expected)


@given(pairs, st.integers(1, 12))
def test_the_best_of_k(rows, k):
    times, predicted = np.array(rows, float).T
    order = sorted(range(len(rows)), key=lambda number: predicted[number])
    best = min(times[number] for number in order[:k])
    assert top_k_error(times, predicted, k) == pytest.approx(best / min(times) - 1)


def test_many_are_counted_fast_and_right():
    random = np.random.default_rng(0)
    times, predicted = random.normal(size=(2, 50_000))
    tau = scipy.stats.kendalltau(times, predicted).statistic
    assert kendall_tau(times, predicted) == pytest.approx(tau, abs=1e-12)


def test_mean_error():
    assert mean_error(np.array([10.0, 20.0]), np.array([11.0, 15.0])) == pytest.approx(0.175)


def test_what_nothing_is_known_of():
    assert math.isnan(ordered_pair_accuracy(np.ones(3), np.arange(3)))
    assert math.isnan(kendall_tau(np.arange(3), np.ones(3)))
    assert math.isnan(top_k_error(np.array([]), np.array([]), 5))


def test_the_ceiling_falls_as_noise_rises():
    times = np.linspace(1.0, 2.0, 60)
    ceilings = [noise_ceiling(kendall_tau, times, noise * times) for noise in (0.0, 0.05, 0.5)]
    assert ceilings[0] == 1.0
    assert ceilings[0] > ceilings[1] > ceilings[2] > 0.0
