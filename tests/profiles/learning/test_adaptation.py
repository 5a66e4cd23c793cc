"""Errors of predictions as a Gaussian process, against conditioning the joint distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.profiles.learning.adaptation import Adaptation, Spread, fit_spread

SPREAD = Spread(0.2, machine=0.2, family=0.2, near=0.4, length=2.0)


def drawn(count, seed):
    random = np.random.default_rng(seed)
    return random.integers(0, 3, count), random.normal(size=(count, 4)), random.normal(size=count)


def joint(spread, families, places):
    """Covariances one by one, as the docstring of Spread has them."""
    count = len(families)
    covariance = np.empty((count, count))
    for a in range(count):
        for b in range(count):
            shared = spread.machine
            if families[a] == families[b]:
                distance = np.linalg.norm(places[a] - places[b])
                shared += spread.family + spread.near * np.exp(-distance / spread.length)
            covariance[a, b] = spread.variance * (shared + (spread.unshared if a == b else 0.0))
    return covariance


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 999))
def test_corrections_are_conditional_expectations(measured, asked, seed):
    families, places, errors = drawn(measured + asked, seed)
    known, new = slice(0, measured), slice(measured, None)
    adaptation = Adaptation(SPREAD)
    adaptation.learn(families[known], places[known], errors[known])
    mean, narrower = adaptation.correct(families[new], places[new])
    # Of the whole precision matrix, the block of what is asked for gives both.
    precision = np.linalg.inv(joint(SPREAD, families, places))
    covariance = np.linalg.inv(precision[new, new])
    np.testing.assert_allclose(mean, -covariance @ precision[new, known] @ errors[known], atol=1e-8)
    # What is a kernel's own is in the variance of its time, and narrows no further.
    variances = np.diag(covariance) / (SPREAD.variance * 1.0)
    np.testing.assert_allclose(narrower**2, np.clip(variances, 0.02, 1.0), atol=1e-8)


def test_without_measurements_nothing_changes():
    families, places, _ = drawn(5, 0)
    mean, narrower = Adaptation(SPREAD).correct(families, places)
    assert not mean.any() and (narrower == 1.0).all()


def test_other_families_are_moved_by_what_all_share_alone():
    family, place = np.array([7]), np.zeros((1, 4))
    alone = Adaptation(Spread(0.2, machine=0.0, family=0.3, near=0.5, length=1.0))
    alone.learn(family, place, np.array([1.0]))
    assert alone.correct(family + 1, place)[0] == 0.0
    assert alone.correct(family, place)[0] == pytest.approx(0.8)
    assert alone.correct(family, place + 100.0)[0] == pytest.approx(0.3)


def test_what_errors_share_is_found_in_them():
    """Machines that differ as a whole, and one on which alike kernels of a family do."""
    random = np.random.default_rng(0)
    groups, nearby = [], []
    for _ in range(6):
        families, places, noise = drawn(30, int(random.integers(1000)))
        groups.append((families, places, random.normal() + 0.3 * noise))
        among = joint(Spread(1.0, 0.0, 0.0, 0.8, 3.0), families, places)
        nearby.append((families, places, np.linalg.cholesky(among) @ random.normal(size=30)))
    assert fit_spread(groups).machine >= 0.6
    spread = fit_spread(nearby)
    assert spread.near >= 0.4 and spread.machine <= 0.2
