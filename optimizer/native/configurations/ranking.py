"""Which configurations of a product are probably fast: by what others took beside the default.

The logarithm of the time over that of the default is a Gaussian process over what a product and a
configuration come to: how full tiles and panels are, how many sums a tile has, how the cache is
divided. Its mean is 0: where nothing alike was measured, nothing is promised. What is measured next
is the chooser's choice (profiles/learning/chooser.py), to which the prediction is another device.
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
from .legal import ProductSizes
from .processor import Processor
from .product_configuration import ProductConfiguration

Array = np.ndarray[Any, Any]

# Of the logarithm of a ratio: how far it usually is from 0, and from what was measured.
_DEVIATION, _NOISE = 0.1, 0.02
# Samples that a prediction is made of at most, those of products most alike first.
_MOST = 500
_FAR = 1.0  # how far apart what behaves alike may be
# What makes a difference of a configuration's fields, in their order.
_STEPS = (4.0, 0.7, 30.0, 300.0, 1e5, 5e4, 1.0, 1.0, 1.0, 6.0, 1.0, 4.0)
# A ratio that is worth a trial, if it comes true.
_WORTH = 0.99
_CUT = math.log(2.0)  # ratios beyond are all alike


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
    known = np.array([place(sample.sizes, sample.configuration, here) for sample in near])
    asked = np.array([place(sizes, configuration, here) for configuration in configurations])
    targets = np.clip(np.log([sample.ratio for sample in near]), -_CUT, _CUT)
    among = _covariance(known, known) + (_NOISE / _DEVIATION) ** 2 * np.eye(len(known))
    result: Array = np.exp(_covariance(asked, known) @ np.linalg.solve(among, targets))
    return result


def promising(
    sizes: ProductSizes,
    configurations: Sequence[ProductConfiguration],
    samples: Sequence[Sample],
    here: Processor,
    count: int,
    known: Mapping[ProductConfiguration, float],
) -> list[ProductConfiguration]:
    """Choose up to `count` configurations to be measured next, without those that are `known`.

    The first of `configurations` is the default, whose ratio is known to be 1. What was not
    measured counts as predicted until it is; none is chosen that is not predicted to gain, unless
    there is nothing to predict from.
    """
    predicted = predicted_ratios(sizes, configurations, samples, here)
    ratios = [
        known.get(configuration, 1.0 if number == 0 else predicted[number])
        for number, configuration in enumerate(configurations)
    ]
    taken = min(len(configurations), len(known) + count + 1)
    parameters = np.array(
        [astuple(configuration) for configuration in configurations], dtype=np.float64
    )
    choice = choose(parameters, [predicted], lambda number: ratios[number], measurements=taken)
    return [
        configurations[number]
        for number in choice.measured
        if number
        and configurations[number] not in known
        and (predicted[number] < _WORTH or not samples)
    ][:count]


def _log_distance(first: ProductSizes, other: ProductSizes) -> float:
    return sum(
        abs(math.log(a / b))
        for a, b in zip(astuple(first), astuple(other), strict=True)  # all are above 0
    )


def _covariance(first: Array, other: Array) -> Array:
    squares = (first**2).sum(1)[:, None] + (other**2).sum(1) - 2 * first @ other.T
    return matern(np.sqrt(np.maximum(squares, 0.0)) / _FAR)


def place(sizes: ProductSizes, configuration: ProductConfiguration, here: Processor) -> list[float]:
    """Return numbers in which products and configurations that behave alike are close."""
    tall = min(configuration.tile_rows, sizes.rows)
    tiles = -(-sizes.rows // configuration.tile_rows)
    last = sizes.rows - (tiles - 1) * configuration.tile_rows
    if configuration.even:
        tall = last = -(-sizes.rows // tiles)
    # Sums that are added to at a time: each waits for itself, so that few of them are slow.
    waits = max(0.0, math.log2(10 / (last * configuration.tile_vectors)))
    full = sizes.rows / (tiles * configuration.tile_rows)
    strip = configuration.tile_vectors * here.lanes
    covered = -(-sizes.columns // here.lanes) * here.lanes
    narrow = sizes.columns % configuration.panel % strip / sizes.columns
    piece = (
        min(configuration.depth, sizes.depth) * configuration.panel * 4 / here.second_cache_bytes
    )
    second_cache_share = (
        min(configuration.block, sizes.rows * sizes.depth) * 4 / here.second_cache_bytes
    )
    matrix = sizes.depth * sizes.columns * 4 / here.second_cache_bytes
    return [
        0.25 * math.log2(sizes.rows),
        0.15 * math.log2(sizes.depth),
        0.15 * math.log2(sizes.columns),
        0.3 * math.log2(matrix),
        waits / max(tiles, 1),
        2.0 * full / max(1.0, tiles / 4),
        0.5 * math.log2(tall * configuration.tile_vectors),
        1.0 * configuration.tile_vectors,
        2.0 * sizes.columns / covered,
        3.0 * narrow,
        0.5 * math.log2(configuration.panel / here.lanes),
        2.0 * piece,
        1.0 * second_cache_share,
        0.5 * (configuration.part > 0),
        1.0 * configuration.few,
        0.7 * (configuration.distance > 0),
        0.7 * configuration.fetch_next,
        *(value / step for value, step in zip(astuple(configuration), _STEPS, strict=True)),
    ]
