"""Robust statistics of repeated timings: medians, spreads, paired ratios with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Scales the median absolute deviation to the standard deviation of normal data.
_NORMAL = 1.4826
# Logarithms of ratios count as so many spreads from the median where they are farther from it.
_FAR = 3.0
# What a reference takes at least: a clock may not tell it from nothing.
_CLOCK_S = 1e-9
_QUIET, _CONFIDENCE = 1.1, 0.95
# Student's t at 97.5 %, by degrees of freedom; none for a single round.
_STUDENT = (np.inf, 12.706, 4.303, 3.182)
# Of how many times one is counted among the swiftest, and rounds that give enough of these.
_SWIFTEST, _MANY = 4, 20
# Turns after which a race of single calls is looked at, and how many ratios at either end are left
# out of the interval of their median then: by the binomial distribution it has the median with
# 96 %, each time, whatever the ratios' distribution.
LOOKS: Mapping[int, int] = {6: 0, 12: 2, 20: 5}


def median_and_spread(samples: Sequence[float] | Array) -> tuple[float, float]:
    """Return the median and 1.4826 times the median absolute deviation, in the samples' unit."""
    values = np.asarray(samples, dtype=np.float64)
    middle = float(np.median(values))
    return middle, _NORMAL * float(np.median(np.abs(values - middle)))


def swiftest(times: Sequence[float] | Array) -> float:
    """Return the mean of the fastest quarter of some times: what a run takes if left alone."""
    return float(_swift_means(np.asarray(times, dtype=np.float64)[None])[0])


def quiet(reference: Sequence[float] | Array) -> Array:
    """Mark the rounds in which the reference took at most a tenth more than its median.

    At least half of the rounds are marked; the others were disturbed by something else on the
    machine.
    """
    values = np.asarray(reference, dtype=np.float64)
    return values <= _QUIET * np.median(values)


@dataclass(frozen=True)
class Ratio:
    """A paired ratio, and the bounds of its interval."""

    value: float
    low: float
    high: float

    @property
    def is_above_one(self) -> bool:
        """Tell whether it is above 1 for sure."""
        return self.low > 1


def median_ratio(times: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Return the median of paired ratios with its interval by order statistics.

    Times are seconds, in as many pairs as one of LOOKS says.
    """
    pairs = zip(times, reference, strict=True)
    ratios = sorted(time / max(base, _CLOCK_S) for time, base in pairs)
    outside = LOOKS[len(ratios)]
    return Ratio(statistics.median(ratios), ratios[outside], ratios[-1 - outside])


def winsorized_ratio(ratios: Sequence[float], confidence: float) -> Ratio:
    """Return the geometric mean of the ratios of rounds, with Student's interval on both sides.

    What else runs on the machine disturbs single rounds by far more than they differ otherwise:
    these count as far ones, and not as what they are (Huber, Robust Statistics, 1981: winsorizing).
    Of a single ratio nothing is known.
    """
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    middle, spread = median_and_spread(logs)
    logs = np.clip(logs, middle - _FAR * spread, middle + _FAR * spread)
    mean, count = float(logs.mean()), len(logs)
    slack = math.inf
    if count > 1:
        quantile = _student_quantile(confidence, count - 1)
        slack = quantile * float(logs.std(ddof=1)) / math.sqrt(count)
    return Ratio(math.exp(mean), math.exp(mean - slack), math.exp(min(mean + slack, 700.0)))


def _student_quantile(confidence: float, freedom: int) -> float:
    """Return Student's quantile; Abramowitz and Stegun, 26.7.5, its first two terms."""
    z = NormalDist().inv_cdf(confidence)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def bootstrap_ratio(
    blocks: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> Ratio:
    """Return the median of paired ratios with its percentile bootstrap interval of 95 %.

    `blocks` holds (times, reference times) of equal length, one block a round; a round that gave
    several pairs is resampled in two stages, rounds first, since its pairs share their disturbance.
    Pairs see through what slows all models of a round alike, not through what falls on single runs,
    as other processes do. Where many rounds gave one pair each, the ratio of the means of the
    fastest quarters, which does, is taken instead if its interval is the narrower one: the width of
    an interval says nothing of its place.
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
    tail = (1.0 - _CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    if len(ratios) <= len(_STUDENT) and np.any(np.concatenate(ratios) != 1.0):
        few_low, few_high = _interval_of_few(ratios)
        low, high = min(low, few_low), max(high, few_high)
    ratio = Ratio(value, float(low), float(high))
    if len(ratios) >= _MANY and all(len(block) == 1 for block in ratios) and low < high:
        times, bases = (np.concatenate([block[side] for block in blocks]) for side in (0, 1))
        return min(ratio, _swift_ratio(times, bases, resamples, tail, seed), key=_width)
    return ratio


def _width(ratio: Ratio) -> float:
    return ratio.high / ratio.low


def _swift_ratio(times: Array, bases: Array, resamples: int, tail: float, seed: int) -> Ratio:
    """Return the ratio of the means of the fastest quarters, with its interval.

    The bootstrap of a mean of m numbers knows their spread from m - 1: it is widened by that.
    """
    rng, count = np.random.default_rng(seed), len(times)
    logs = np.empty(resamples)
    step = max(1, (1 << 20) // count)
    for start in range(0, resamples, step):
        picked = rng.integers(0, count, (min(step, resamples - start), count))
        means = _swift_means(times[picked]), _swift_means(bases[picked])
        logs[start : start + step] = np.log(means[0] / means[1])
    value = swiftest(times) / swiftest(bases)
    low, high = np.quantile(logs, [tail, 1.0 - tail]) - np.log(value)
    kept = _swift_count(count)
    wider = kept / (kept - 1)
    return Ratio(value, value * float(np.exp(low * wider)), value * float(np.exp(high * wider)))


def _swift_means(rows: Array) -> Array:
    kept = _swift_count(rows.shape[1])
    means: Array = np.partition(rows, kept - 1, axis=1)[:, :kept].mean(axis=1)
    return means


def _swift_count(count: int) -> int:
    return count // _SWIFTEST + 1


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
        if table.shape[1] == 1:
            medians[start : start + count] = np.median(table[picked[:, :, 0], 0], axis=1)
            continue
        drawn = (rng.random((count, *table.shape)) * lengths[picked]).astype(np.int64)
        medians[start : start + count] = np.median(table[picked, drawn].reshape(count, -1), axis=1)
    return medians
