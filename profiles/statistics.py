"""Robust statistics of repeated timings: medians, spreads, paired ratios with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Scales the median absolute deviation to the standard deviation of normal data.
_NORMAL = 1.4826
# Student's t at 97.5 %, by degrees of freedom; none for a single round.
_STUDENT = (np.inf, 12.706, 4.303, 3.182)


def median_and_spread(samples: Sequence[float] | Array) -> tuple[float, float]:
    """Return the median and 1.4826 times the median absolute deviation, in the samples' unit."""
    values = np.asarray(samples, dtype=np.float64)
    middle = float(np.median(values))
    return middle, _NORMAL * float(np.median(np.abs(values - middle)))


def quiet(reference: Sequence[float] | Array, tolerance: float = 1.1) -> Array:
    """Mark the rounds in which the reference took at most `tolerance` times its median.

    At least half of the rounds are marked; the others were disturbed by something else on the
    machine.
    """
    values = np.asarray(reference, dtype=np.float64)
    return values <= tolerance * np.median(values)


@dataclass(frozen=True)
class Ratio:
    """A paired ratio: its median and the bounds of its bootstrap interval."""

    value: float
    low: float
    high: float


def bootstrap_ratio(
    blocks: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    seed: int = 0,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Ratio:
    """Return the median of paired ratios with its percentile bootstrap interval.

    `blocks` holds (times, reference times) of equal length, one block a round; a round that gave
    several pairs is resampled in two stages, rounds first, since its pairs share their disturbance.
    Of fewer than five rounds a bootstrap knows too little: there the interval is widened to
    Student's (95 %, over the logarithms of the rounds' medians); one round alone says nothing, and
    its interval spans a factor of 100 each way.
    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13.
    """
    ratios = [
        np.asarray(times, dtype=np.float64) / np.asarray(reference, dtype=np.float64)
        for times, reference in blocks
    ]
    if not ratios:
        raise ValueError("no rounds were timed")
    value = float(np.median(np.concatenate(ratios)))
    medians = _resampled_medians(ratios, resamples, np.random.default_rng(seed))
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    if len(ratios) <= len(_STUDENT) and np.any(np.concatenate(ratios) != 1.0):
        few_low, few_high = _interval_of_few(ratios)
        low, high = min(low, few_low), max(high, few_high)
    return Ratio(value, float(low), float(high))


def _interval_of_few(blocks: Sequence[Array]) -> tuple[float, float]:
    """Return Student's 95 % interval of the ratio from two to four rounds, or nothing from one."""
    logs = np.log([np.median(block) for block in blocks])
    middle = float(logs.mean())
    if len(blocks) == 1:
        half = float(np.log(100.0))
    else:
        half = _STUDENT[len(blocks) - 1] * float(logs.std(ddof=1)) / len(blocks) ** 0.5
    return float(np.exp(middle - half)), float(np.exp(middle + half))


def _resampled_medians(blocks: Sequence[Array], resamples: int, rng: np.random.Generator) -> Array:
    """Draw blocks, then as many values in each as the longest block has; return their medians."""
    lengths = np.array([len(block) for block in blocks])
    table = np.zeros((len(blocks), lengths.max()))
    for row, block in zip(table, blocks, strict=True):
        row[: len(block)] = block
    medians = np.empty(resamples)
    step = max(1, (1 << 20) // table.size)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        picked = rng.integers(0, len(blocks), (count, len(blocks)))[:, :, None]
        drawn = (rng.random((count, *table.shape)) * lengths[picked]).astype(np.int64)
        medians[start : start + count] = np.median(table[picked, drawn].reshape(count, -1), axis=1)
    return medians
