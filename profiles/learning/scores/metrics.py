"""How well predictions rank and foretell times: the metrics of TpuGraphs and of its competition.

Arrays of one length, one entry a configuration; predictions need only order as times do, but for
`mean_error`. Source: Phothilimthana et al., TpuGraphs, arXiv 2308.13490, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_DRAWS = 8


def ordered_pair_accuracy(times: Array, predicted: Array) -> float:
    """Return the share of pairs of unequal times whose predictions are ordered as they are.

    A pair of equal predictions is ordered wrongly. NaN where all times are equal. O(n log² n).
    """
    pairs = _unequal_pairs(times)
    return _ordered_pairs(times, predicted) / pairs if pairs else math.nan


def kendall_tau(times: Array, predicted: Array) -> float:
    """Return Kendall's tau-b, from -1 to 1; NaN where all times or all predictions are equal."""
    among = math.sqrt(_unequal_pairs(times)) * math.sqrt(_unequal_pairs(predicted))
    if not among:
        return math.nan
    right, wrong = _ordered_pairs(times, predicted), _ordered_pairs(times, -np.asarray(predicted))
    return (right - wrong) / among


def top_k_error(times: Array, predicted: Array, k: int) -> float:
    """Return how much slower the best of the k that are predicted to be best is than the best: 0.05
    is 5 %. Of equal predictions the first ones are taken. NaN without configurations."""
    times = np.asarray(times, dtype=np.float64)
    if not len(times):
        return math.nan
    chosen = np.argsort(predicted, kind="stable")[:k]
    return float(times[chosen].min() / times.min() - 1.0)


def mean_error(times: Array, predicted: Array) -> float:
    """Return the mean absolute error relative to the time (MAPE); NaN without times."""
    times = np.asarray(times, dtype=np.float64)
    if not len(times):
        return math.nan
    return float(np.mean(np.abs(np.asarray(predicted) - times) / times))


def noise_ceiling(
    metric: Callable[[Array, Array], float],
    times: Array,
    deviations: Array,
) -> float:
    """Return what a metric gives between two measurements of the same: no prediction does better.

    `deviations` are standard deviations of the times; both measurements are drawn from them, as
    logarithms, since times are positive. The mean over some pairs.
    """
    times = np.asarray(times, dtype=np.float64)
    relative = np.asarray(deviations, dtype=np.float64) / times
    random = np.random.default_rng(0)
    drawn = [
        [times * np.exp(relative * random.standard_normal(len(times))) for _ in range(2)]
        for _ in range(_DRAWS)
    ]
    return float(np.mean([metric(first, second) for first, second in drawn]))


def _unequal_pairs(values: Array) -> int:
    count = len(values)
    equal = np.unique(values, return_counts=True)[1].astype(np.int64)
    return count * (count - 1) // 2 - int((equal * (equal - 1) // 2).sum())


def _ordered_pairs(times: Array, predicted: Array) -> int:
    """Count the pairs of which both the time and the prediction of the second are greater.

    The predictions in the order of times (those of equal times in falling order, so that they count
    nothing) are counted bit by bit: a pair differs first in one bit, which the smaller one lacks.
    """
    times, predicted = np.asarray(times), np.asarray(predicted)
    ranks = np.unique(predicted, return_inverse=True)[1]
    ranks = ranks[np.lexsort((-ranks, times))]
    ordered = 0
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        prefix = ranks >> (bit + 1)
        grouped = np.argsort(prefix, kind="stable")
        prefix, is_one = prefix[grouped], (ranks[grouped] >> bit) & 1
        zeros = np.cumsum(1 - is_one)
        starts = np.flatnonzero(np.r_[True, prefix[1:] != prefix[:-1]])
        before = np.r_[0, zeros][starts]
        sizes = np.diff(np.r_[starts, len(prefix)])
        ordered += int(((zeros - np.repeat(before, sizes)) * is_one).sum())
    return ordered
