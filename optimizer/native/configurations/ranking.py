"""Which configurations of a product are probably fast: by what others took beside the default.

The logarithm of the time is a sum of a Gaussian process over a product's features in a
configuration and of parts that are proportional to its costs (product_features.py); what is
predicted is how it differs from that of the default. Where nothing alike was measured, nothing is
promised. How much each feature counts was learned (`python -m benchmarks.product_scales`, by the
likelihood of what was measured: Rasmussen and Williams, Gaussian Processes for Machine Learning,
section 5.4). What is measured next is the chooser's choice (profiles/learning/chooser.py), to which
the prediction is another device.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ....profiles.learning.chooser import choose, matern
from .processor import Processor
from .product_configuration import DEFAULTS, ProductConfiguration, ProductSizes
from .product_features import features

Array = np.ndarray[Any, Any]

# Samples that a prediction is made of at most, those of products most alike first.
_MOST = 500
# A ratio that is worth a trial, if it comes true.
_WORTH = 0.99
CUT = math.log(2.0)  # ratios beyond are all alike


@dataclass(frozen=True)
class Sample:
    """What a configuration of a product took over what the default did, in one race."""

    sizes: ProductSizes
    configuration: ProductConfiguration
    ratio: float


@cache
def shipped_samples(here: Processor) -> tuple[Sample, ...]:
    """Return what was measured once and comes with tensolog, for a processor's level.

    Of processors with as large a first cache, if there are some: what is fast on one kind misleads
    on another.
    """
    file = resources.files(__package__) / "samples.json.xz"
    if not file.is_file():
        return ()
    shipped = json.loads(lzma.decompress(file.read_bytes()))
    alike = shipped.get(processor_class(here.level, here.first_cache_bytes))
    if alike is None:
        of_level = (key for key in shipped if key.split()[0] == here.level)
        alike = [sample for key in of_level for sample in shipped[key]]
    return tuple(
        Sample(ProductSizes(*sizes), ProductConfiguration(*fields), ratio)
        for sizes, fields, ratio in alike
    )


def processor_class(level: str, first_cache_bytes: int) -> str:
    """Name the processors that samples of one are for."""
    return f"{level} {first_cache_bytes}"


def predicted_ratios(
    sizes: ProductSizes,
    configurations: Sequence[ProductConfiguration],
    samples: Sequence[Sample],
    here: Processor,
) -> Array:
    """Return the times of configurations over that of the default, as predicted from samples.

    All are of the same level of instructions as the processor `here`; without samples all are 1.
    """
    if not samples:
        return np.ones(len(configurations))
    near = sorted(samples, key=lambda sample: _log_distance(sample.sizes, sizes))[:_MOST]
    scales = learned_scales()
    sampled = scales.places([(sample.sizes, sample.configuration) for sample in near], here)
    asked = scales.places([(sizes, configuration) for configuration in configurations], here)
    targets = np.clip(np.log([sample.ratio for sample in near]), -CUT, CUT)
    distinct = dict.fromkeys(sample.sizes for sample in near)
    number = {product: i for i, product in enumerate(distinct)}
    shapes = np.array([number[sample.sizes] for sample in near])
    among = scales.covariance(sampled, sampled) + scales.noise_covariance(shapes)
    result: Array = np.exp(scales.covariance(asked, sampled) @ np.linalg.solve(among, targets))
    return result


@dataclass(frozen=True)
class Places:
    """Kernels as a prediction sees them: features (n, f), those of their defaults, and costs.

    Costs (n, c) are differences to those of the default. All are scaled.
    """

    features: Array
    of_default: Array
    costs: Array


@dataclass(frozen=True)
class Scales:
    """How much features and costs count, by name; deviations are of the logarithm of a time.

    `noise` is the deviation of what is measured, of a configuration and of the default.
    """

    deviation: float
    noise: float
    features: Mapping[str, float]
    costs: Mapping[str, float]

    def places(
        self, kernels: Sequence[tuple[ProductSizes, ProductConfiguration]], here: Processor
    ) -> Places:
        """Return where kernels lie; sizes beside the configuration."""
        chosen = [features(sizes, configuration, here) for sizes, configuration in kernels]
        default = [features(sizes, DEFAULTS[here.level], here) for sizes, _ in kernels]

        def scaled(described: Sequence[Mapping[str, float]], scales: Mapping[str, float]) -> Array:
            table = [[row[name] for name in scales] for row in described]
            result: Array = np.array(table) * np.array(list(scales.values()))
            return result

        costs = scaled(chosen, self.costs) - scaled(default, self.costs)
        return Places(scaled(chosen, self.features), scaled(default, self.features), costs)

    def covariance(self, first: Places, other: Places) -> Array:
        """Return the covariance of the logarithms of times over those of the defaults."""
        among = _alike(first.features, other.features) + _alike(first.of_default, other.of_default)
        across = _alike(first.features, other.of_default) + _alike(first.of_default, other.features)
        result: Array = self.deviation**2 * (among - across) + first.costs @ other.costs.T
        return result

    def noise_covariance(self, shapes: Array) -> Array:
        """Return that of what is measured; `shapes` (n) tells which have the default in common."""
        same = shapes[:, None] == shapes
        result: Array = self.noise**2 * (np.eye(len(shapes)) + 0.5 * same) + 1e-8 * np.eye(
            len(shapes)
        )
        return result


@cache
def learned_scales() -> Scales:
    """Return how much features count, as learned from what comes with tensolog."""
    file = resources.files(__package__) / "product_scales.json"
    return Scales(**json.loads(file.read_text(encoding="utf-8")))


def promising(
    sizes: ProductSizes,
    configurations: Sequence[ProductConfiguration],
    samples: Sequence[Sample],
    here: Processor,
    count: int,
    measured: Mapping[ProductConfiguration, float],
) -> list[ProductConfiguration]:
    """Choose up to `count` configurations to be measured next, without those in `measured`.

    The first of `configurations` is the default, whose ratio is known to be 1. What was not
    measured counts as predicted until it is; none is chosen that is not predicted to gain, unless
    there is nothing to predict from.
    """
    predicted = predicted_ratios(sizes, configurations, samples, here)
    ratios = [
        measured.get(configuration, 1.0 if number == 0 else predicted[number])
        for number, configuration in enumerate(configurations)
    ]
    taken = min(len(configurations), len(measured) + count + 1)
    parameters = np.array(
        [astuple(configuration) for configuration in configurations], dtype=np.float64
    )
    choice = choose(parameters, [predicted], lambda number: ratios[number], measurements=taken)
    return [
        configurations[number]
        for number in choice.measured
        if number
        and configurations[number] not in measured
        and (predicted[number] < _WORTH or not samples)
    ][:count]


def _log_distance(first: ProductSizes, other: ProductSizes) -> float:
    return sum(
        abs(math.log(a / b))
        for a, b in zip(astuple(first), astuple(other), strict=True)  # all are above 0
    )


def _alike(first: Array, other: Array) -> Array:
    squares = (first**2).sum(1)[:, None] + (other**2).sum(1) - 2 * first @ other.T
    return matern(np.sqrt(np.maximum(squares, 0.0)))
