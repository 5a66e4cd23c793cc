"""What `memory=` allows: operators of a plan that take more give way to others."""

from dataclasses import replace

import numpy as np
import pytest
from tensolog.optimizer.fuse.planning.machine_rates import Machine

from tensolog import fuse

X = np.random.default_rng(0).normal(size=(600, 500))
# Where computing is so slow, what two operators need is stored.
SLOW = Machine(flops=1e8, functions=1e8)


def spread(X):
    Y = np.exp(X) * np.tanh(X)
    return (Y / Y.sum()).max()


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    monkeypatch.setattr(Machine, "here", lambda cores: replace(SLOW, cores=cores))


def largest(fused):
    np.testing.assert_allclose(fused(X), spread(X))
    return max(step.read_bytes + step.write_bytes for step in fused.plan.steps)


def test_what_is_dear_to_compute_is_stored_where_it_fits():
    assert largest(fuse(spread)) >= 2 * X.nbytes


def test_and_computed_again_where_storing_it_would_take_too_much():
    assert largest(fuse(memory=1.5 * X.nbytes)(spread)) <= 1.5 * X.nbytes


def test_what_fits_in_no_plan_is_computed_as_numpy_would():
    both = fuse(memory=1.5 * X.nbytes)(lambda X: X * 2)  # reads and writes twice as much
    np.testing.assert_array_equal(both(X), X * 2)
