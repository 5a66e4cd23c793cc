"""Which configuration is fast on a new device: times of other devices, corrected by few of its own.

The logarithm of the time is a Gaussian process over the parameters of a configuration and over its
ranks on other devices, of which a part counts linearly: devices of one family agree, others in
part, and how far is learned from the measurements on the new one. Two configurations are measured
at a time: the one of the largest expected improvement, and the one that is predicted to be best.

Parameters of the covariance are not optimized, which few measurements would overfit, but drawn from
a prior, and weighed by how well they explain what was measured. Sources: Rasmussen and Williams,
Gaussian Processes for Machine Learning, chapters 2 and 5; Jones, Schonlau and Welch, Efficient
global optimization, Journal of Global Optimization 13, 1998.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...catalog.errors import TensologError

Array = np.ndarray[Any, Any]

_DRAWS = 300  # of the covariance's parameters
_MIXED = 6  # of these, the likeliest
_FIRST = 10  # measured before anything is fitted
_POOL = 0.2  # of the configurations, the share that other devices find best: the first are of these
_WORST = math.log(2.0)  # times of more than twice the best are all alike: too slow
_erf = np.vectorize(math.erf, otypes=[float])


class ChooserError(TensologError):
    """Configurations and times do not fit together."""


@dataclass(frozen=True)
class Choice:
    """What was measured, in order, and what is predicted of all configurations.

    `measured` are their numbers, `times` what was measured (infinity: it can't run), `predicted`
    the times of all n configurations, those measured as they were. Of what takes more than twice
    the best it says little, since it is fitted to what is fast.
    """

    measured: tuple[int, ...]
    times: Array
    predicted: Array

    def best(self, count: int) -> list[int]:
        """Return the configurations that are predicted to be fastest, the fastest first."""
        return [int(number) for number in np.argsort(self.predicted, kind="stable")[:count]]


def choose(
    parameters: Array,
    other_devices: Sequence[Array],
    measure: Callable[[int], float],
    *,
    measurements: int = 50,
    seed: int = 0,
) -> Choice:
    """Measure some of n configurations on a device, and predict the times of all.

    `parameters` are (n, p) numbers; `other_devices` hold a time for each configuration, infinity or
    NaN where it can't run; there may be none. `measure` returns the time of a configuration, or
    infinity. Equal arguments give equal choices. Raises ChooserError.
    """
    parameters = np.asarray(parameters, dtype=np.float64)
    if parameters.ndim != 2 or not len(parameters) or not np.isfinite(parameters).all():
        raise ChooserError("the configurations need a table of finite numbers, one row for each")
    for other in other_devices:
        if np.shape(other) != (len(parameters),):
            raise ChooserError(
                f"{len(parameters)} configurations have {np.size(other)} times on another device"
            )
    if measurements < 1:
        raise ChooserError("at least one configuration has to be measured")
    random = np.random.default_rng(seed)
    columns = _columns(other_devices, len(parameters))
    process = _Process(scaled_parameters(parameters), columns, random)
    limit = min(measurements, len(parameters))
    numbers: list[int] = []
    times: list[float] = []

    def take(number: int) -> None:
        numbers.append(number)
        process.add(number)
        time = float(measure(number))
        times.append(time if time > 0 and math.isfinite(time) else math.inf)

    for number in _first(process, columns, min(_FIRST, limit), random):
        take(number)
    while len(numbers) < limit:
        mean, deviation = process.predict(_logarithms(times))
        best = _logarithms(times).min()
        for gain in (_expected_improvement(mean, deviation, best), -mean)[: limit - len(numbers)]:
            gain[numbers] = -math.inf
            take(int(gain.argmax()))
    predicted = np.exp(process.predict(_logarithms(times))[0])
    predicted[numbers] = times
    return Choice(tuple(numbers), np.array(times), predicted)


def _first(process: _Process, columns: Array, count: int, random: np.random.Generator) -> list[int]:
    """Return what is measured before anything is known: what other devices find best, and of what
    they find good the configurations that differ most from these."""
    size = len(process.places)
    mean = columns.mean(1) if columns.shape[1] else random.random(size)
    best = [int(mean.argmin()), *(int(column.argmin()) for column in columns.T)]
    chosen = list(dict.fromkeys(best))[:count]
    pool = mean.argsort(kind="stable")[: max(int(_POOL * size), count)]
    if not columns.shape[1]:
        pool = np.arange(size)
    places = np.hstack([process.places / math.sqrt(process.places.shape[1] or 1), columns])
    while len(chosen) < count:
        far = np.min([((places[pool] - places[number]) ** 2).sum(1) for number in chosen], axis=0)
        far[np.isin(pool, chosen)] = -1.0
        chosen.append(int(pool[far.argmax()]))
    return chosen


class _Process:
    """A Gaussian process over configurations, given the logarithms of some of their times."""

    def __init__(self, places: Array, columns: Array, random: np.random.Generator) -> None:
        self.places, self._columns = places, columns
        count = len(places)
        self._near = np.empty((count, 0))  # distances to what was measured: of parameters,
        self._alike = np.empty((count, 0))  # of ranks on other devices,
        self._agree = np.empty((count, 0))  # and their inner products
        self._numbers: list[int] = []
        devices = float(columns.shape[1] > 0)
        self._place_deviation = 10 ** random.uniform(-1.2, 0.3, _DRAWS)
        self._place_scale = 10 ** random.uniform(0.0, 1.0, _DRAWS)
        self._column_deviation = devices * 10 ** random.uniform(-1.0, 0.3, _DRAWS)
        self._column_scale = 10 ** random.uniform(-0.5, 0.7, _DRAWS)
        self._linear_deviation = devices * 10 ** random.uniform(-1.0, 0.3, _DRAWS)
        self._noise = 10 ** random.uniform(-2.0, -0.5, _DRAWS)

    def add(self, number: int) -> None:
        """Take a configuration to those whose times are known."""
        devices = max(self._columns.shape[1], 1)
        near = np.sqrt(((self.places - self.places[number]) ** 2).sum(1))
        alike = np.sqrt(((self._columns - self._columns[number]) ** 2).sum(1) / devices)
        agree = self._columns @ self._columns[number] / devices
        self._near = np.column_stack([self._near, near])
        self._alike = np.column_stack([self._alike, alike])
        self._agree = np.column_stack([self._agree, agree])
        self._numbers.append(number)

    def predict(self, measured: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation for every configuration, given those of `add`."""
        middle, scale = measured.mean(), max(measured.std(), 1e-3)
        target = (measured - middle) / scale
        draws = np.arange(_DRAWS)[:, None, None]
        among = self._covariance(draws, self._numbers)
        among += (self._noise[draws] ** 2 + 1e-8) * np.eye(len(measured))
        factor = np.linalg.cholesky(among)
        solved = np.linalg.solve(
            among, np.broadcast_to(target[:, None], (_DRAWS, len(measured), 1))
        )
        evidence = -0.5 * solved[..., 0] @ target
        evidence -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
        likeliest = np.argsort(-evidence, kind="stable")[:_MIXED]
        weights = np.exp(evidence[likeliest] - evidence[likeliest[0]])
        weights /= weights.sum()
        mean, square = np.zeros(len(self.places)), np.zeros(len(self.places))
        for weight, draw in zip(weights, likeliest, strict=True):
            across = self._covariance(draw, slice(None))
            mean_of_draw = across @ solved[draw, :, 0]
            inside = np.linalg.solve(factor[draw], across.T)
            prior = self._place_deviation[draw] ** 2 + self._column_deviation[draw] ** 2
            prior += (
                self._linear_deviation[draw] ** 2
                * (self._columns**2).sum(1)
                / max(self._columns.shape[1], 1)
            )
            mean += weight * mean_of_draw
            square += weight * (np.maximum(prior - (inside**2).sum(0), 0.0) + mean_of_draw**2)
        deviation = np.sqrt(np.maximum(square - mean**2, 1e-12))
        return middle + scale * mean, scale * deviation

    def _covariance(self, draw: Any, rows: Any) -> Array:
        result: Array = self._place_deviation[draw] ** 2 * matern(
            self._near[rows] / self._place_scale[draw]
        )
        if self._columns.shape[1]:
            other = matern(self._alike[rows] / self._column_scale[draw])
            result = result + self._column_deviation[draw] ** 2 * other
            result = result + self._linear_deviation[draw] ** 2 * self._agree[rows]
        return result


def matern(distance: Array) -> Array:
    """The Matérn covariance of smoothness 5/2."""
    scaled = math.sqrt(5.0) * distance
    result: Array = (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    return result


def _expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    lead = (best - mean) / deviation
    density = np.exp(-0.5 * lead**2) / math.sqrt(2.0 * math.pi)
    result: Array = deviation * (lead * 0.5 * (1.0 + _erf(lead / math.sqrt(2.0))) + density)
    return result


def _logarithms(times: Sequence[float]) -> Array:
    """Return logarithms of times, cut where a configuration is too slow to matter."""
    values = np.array(times)
    able = np.isfinite(values)
    if not able.any():
        return np.zeros(len(values))
    logs = np.log(np.where(able, values, values[able].max()))
    result: Array = np.minimum(np.where(able, logs, math.inf), logs.min() + _WORST)
    return result


def _columns(other_devices: Sequence[Array], count: int) -> Array:
    """Return the ranks on other devices as columns of mean 0 and deviation 1.

    Logarithms of ranks, which tell the best apart and not the slow ones; what can't run is last.
    """
    columns = []
    for times in other_devices:
        times = np.asarray(times, dtype=np.float64)
        able = np.isfinite(times) & (times > 0)
        order = np.argsort(np.where(able, times, math.inf), kind="stable")
        ranks = np.empty(count)
        ranks[order] = np.log(np.arange(1.0, count + 1.0))
        if able.any() and count > 1:
            columns.append((ranks - ranks.mean()) / ranks.std())
    return np.array(columns).T if columns else np.empty((count, 0))


def scaled_parameters(parameters: Array) -> Array:
    """Return parameters of mean 0 and deviation 1, those above 0 as logarithms; no constants."""
    values = np.where(parameters.min(0) > 0, np.log(np.maximum(parameters, 1e-300)), parameters)
    values = values[:, parameters.max(0) > parameters.min(0)]
    result: Array = (values - values.mean(0)) / values.std(0)
    return result
