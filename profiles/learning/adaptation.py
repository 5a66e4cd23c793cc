"""What measurements on a machine say of how far predictions are off there: a Gaussian process.

The error of a predicted log(time) is a sum of one that all of a machine's kernels share, one that
those of a family (an operator) share, one that alike ones of a family share, and one of its own. A
few measurements tell these apart as far as they can: where there are none, the prediction stays and
its interval too; beside a measured kernel both follow it. Source: Rasmussen and Williams, Gaussian
Processes for Machine Learning, 2006, chapters 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# What parts of the variance and what lengths are tried where they are fitted.
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
_LENGTHS = (1.0, 3.0, 10.0)
_LEAST_UNSHARED = 0.02
# Of more errors only so many, drawn at random, tell the parts: the work grows with their cube.
_MOST_ERRORS = 400


@dataclass(frozen=True)
class Spread:
    """How errors of log(time) vary: a variance, the parts of it that are shared, a distance.

    `machine`, `family` and `near` are parts of `variance`, and add up to less than 1; what is near
    correlates as exp(-distance / length).
    """

    variance: float
    machine: float
    family: float
    near: float
    length: float

    @property
    def unshared(self) -> float:
        """The part that is shared with nothing."""
        return max(1.0 - self.machine - self.family - self.near, _LEAST_UNSHARED)

    def covariance(
        self, families: Array, places: Array, others: Array, other_places: Array
    ) -> Array:
        """Return what errors of (n) and (m) kernels share (n, m), without what is their own."""
        same = families[:, None] == others[None, :]
        squares = (places**2).sum(1)[:, None] + (other_places**2).sum(1)[None, :]
        distances = np.sqrt(np.maximum(squares - 2.0 * places @ other_places.T, 0.0))
        near = self.near * np.exp(-distances / self.length)
        result: Array = self.variance * (self.machine + same * (self.family + near))
        return result


class Adaptation:
    """Errors that were measured on a machine, and what they say of those of other kernels."""

    def __init__(self, spread: Spread) -> None:
        self.spread = spread
        self._families = np.empty(0, np.int64)
        self._places = np.empty((0, 0))
        self._weights = np.empty(0)
        self._among = np.empty((0, 0))

    def learn(self, families: Array, places: Array, errors: Array) -> None:
        """Take errors of log(time), measured less predicted, of (n) kernels in place of others."""
        spread = self.spread
        self._families, self._places = families, np.asarray(places, np.float64)
        among = spread.covariance(families, self._places, families, self._places)
        among += spread.variance * spread.unshared * np.eye(len(families))
        self._among = np.linalg.inv(among) if len(families) else among
        self._weights = self._among @ errors

    def correct(self, families: Array, places: Array) -> tuple[Array, Array]:
        """Return the expected errors of (n) kernels, and how much narrower their spread is now.

        The latter is 1 where nothing that was measured tells of them.
        """
        if not len(self._families):
            return np.zeros(len(families)), np.ones(len(families))
        places = np.asarray(places, np.float64)
        across = self.spread.covariance(families, places, self._families, self._places)
        explained = np.einsum("nm,mk,nk->n", across, self._among, across) / self.spread.variance
        return across @ self._weights, np.sqrt(np.clip(1.0 - explained, _LEAST_UNSHARED, 1.0))


def fit_spread(groups: Sequence[tuple[Array, Array, Array]]) -> Spread:
    """Return the parts of the variance that make errors likeliest.

    A group are the families (n), places (n, f) and errors (n) of kernels that were measured
    together, on one machine or of one architecture: these share what `machine` stands for.
    """
    random = np.random.default_rng(0)
    drawn = []
    for families, places, errors in groups:
        order = random.permutation(len(errors))[: max(2, _MOST_ERRORS // max(len(groups), 1))]
        drawn.append((families[order], np.asarray(places, np.float64)[order], errors[order]))
    every = np.concatenate([errors for _, _, errors in drawn])
    variance = max(float(np.mean(every**2)), 1e-6)
    candidates = [
        Spread(variance, machine, family, near, length)
        for machine, family, near in product(_SHARES, repeat=3)
        for length in (_LENGTHS if near else _LENGTHS[:1])
        if machine + family + near <= 0.95
    ]
    return max(candidates, key=lambda spread: sum(_likelihood(spread, *group) for group in drawn))


def _likelihood(spread: Spread, families: Array, places: Array, errors: Array) -> float:
    """Return the logarithm of a group's likelihood, but for a constant."""
    among = spread.covariance(families, places, families, places)
    among += spread.variance * spread.unshared * np.eye(len(errors))
    factor = np.linalg.cholesky(among + 1e-9 * np.eye(len(errors)))
    solved = np.linalg.solve(factor, errors)
    return float(-0.5 * solved @ solved) - sum(math.log(value) for value in np.diag(factor))
