"""Costs of kernels predicted without a runtime: the bound, trees, a perceptron, a graph network.

Each is trained on the measured kernels of some architectures and scored on those of another, none
of whose kernels it has seen.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.roofline import bound_ns
from ...machine import Machine
from ..errors import LearningError
from ..predictor import CostPredictor
from ..samples.features import features, operator_name
from ..samples.kernel_graphs import PRIOR_FEATURE
from ..samples.kernel_samples import Sample, examples_of
from ..training.ensemble import train_ensemble
from ..training.training_options import Progress, Training
from .metrics import kendall_tau, mean_error, noise_ceiling, ordered_pair_accuracy

Array = np.ndarray[Any, Any]
Regression = Callable[[Array, Array, Array], Array]
"""Takes rows (n, f) and logarithms of their times (n), and other rows (m, f); returns (m)."""


@dataclass(frozen=True)
class Score:
    """How one model predicts one architecture that it was not trained on.

    `error` is the mean relative one of single kernels, `total` the sum of all calls over the
    measured one, `tau` and `accuracy` (of ordered pairs) say how kernels are ranked. `covered` is
    the share of kernels whose time lies within the interval, of models that give one.
    """

    model: str
    architecture: str
    kernels: int
    trained_on: int
    error: float
    total: float
    tau: float
    accuracy: float
    covered: float | None = None


def score_baselines(
    samples: Sequence[Sample],
    machine: Machine,
    threads: int,
    *,
    training: Training | None = None,
    progress: Progress | None = None,
) -> list[Score]:
    """Leave each architecture out in turn; return the scores of each model, the ceiling last.

    The ceiling is what a second measurement would score, by the spread of the first. Raises
    LearningError for fewer than two architectures, or where scikit-learn is missing. Where torch
    is, a graph network is among the models; `training` says how long it is trained.
    """
    learners = regressions()
    architectures = list(dict.fromkeys(sample.architecture for sample in samples))
    if len(architectures) < 2:
        raise LearningError(
            "learning needs measured kernels of two models at least: name more, and measure them "
            "with tensolog costs collect"
        )
    table = _table(samples, machine, threads)
    networks = importlib.util.find_spec("torch") is not None
    examples = examples_of(samples, machine, threads) if networks else []
    scores = []
    for number, architecture in enumerate(architectures):
        if progress is not None:
            progress(number, len(architectures))
        test = [n for n, sample in enumerate(samples) if sample.architecture == architecture]
        seen = {samples[n].kernel.hash for n in test}
        train = list(
            {
                sample.kernel.hash: n
                for n, sample in enumerate(samples)
                if sample.kernel.hash not in seen
            }.values()
        )
        if not train:
            continue
        tested = [samples[n] for n in test]
        logs = np.log([samples[n].time_ns for n in train])
        predictions = {
            "roofline": np.array(
                [bound_ns(kernel_sample.kernel, machine, threads) for kernel_sample in tested]
            )
        }
        for name, regression in learners.items():
            predictions[name] = np.exp(regression(table[train], logs, table[test]))
        for name, predicted in predictions.items():
            scores.append(_score(name, tested, len(train), predicted))
        if networks:
            network = CostPredictor(
                train_ensemble(
                    [examples[n] for n in train],
                    prior_feature=PRIOR_FEATURE,
                    training=training,
                ).SerializeToString()
            )
            network_predictions = [network.predict(examples[n]) for n in test]
            predicted, least, most = (
                np.concatenate([getattr(scored, name) for scored in network_predictions])
                for name in ("times_ns", "least_ns", "most_ns")
            )
            times = np.array([sample.time_ns for sample in tested])
            covered = float(np.mean((least <= times) & (times <= most)))
            scored = _score("graph network", tested, len(train), predicted)
            scores.append(replace(scored, covered=covered))
        scores.append(_ceiling(tested, len(train)))
    if not scores:
        raise LearningError(
            "the models have the same kernels, so none can be left out: name others"
        )
    return scores


def _score(name: str, tested: Sequence[Sample], trained_on: int, predicted: Array) -> Score:
    times = np.array([sample.time_ns for sample in tested])
    calls = np.array([sample.calls for sample in tested])
    return Score(
        name,
        tested[0].architecture,
        len(tested),
        trained_on,
        mean_error(times, predicted),
        float((calls * predicted).sum() / (calls * times).sum()),
        kendall_tau(times, predicted),
        ordered_pair_accuracy(times, predicted),
    )


def _ceiling(tested: Sequence[Sample], trained_on: int) -> Score:
    times = np.array([sample.time_ns for sample in tested])
    # The deviation of a median of n samples.
    deviations = np.array(
        [sample.spread_ns * math.sqrt(math.pi / 2 / max(sample.samples, 1)) for sample in tested]
    )
    error, tau, accuracy = (
        noise_ceiling(metric, times, deviations)
        for metric in (mean_error, kendall_tau, ordered_pair_accuracy)
    )
    name, count = tested[0].architecture, len(tested)
    return Score("measured again", name, count, trained_on, error, 1.0, tau, accuracy)


def _table(samples: Sequence[Sample], machine: Machine, threads: int) -> Array:
    """Return a row for each sample: the number of its operator, then its features."""
    names = sorted({operator_name(sample.kernel) for sample in samples})
    rows: dict[str, Array] = {}
    for sample in samples:
        kernel = sample.kernel
        if kernel.hash not in rows:
            number = float(names.index(operator_name(kernel)))
            rows[kernel.hash] = np.r_[number, features(kernel, machine, threads)]
    return np.array([rows[sample.kernel.hash] for sample in samples])


def regressions() -> Mapping[str, Regression]:
    """Return the models that see a row of features, by their names; the first is a category."""
    try:
        # scikit-learn takes a second to import, and comes with an extra only.
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
    except ImportError as error:
        raise LearningError("learning needs scikit-learn: pip install 'tensolog[learn]'") from error

    def trees(rows: Array, logs: Array, others: Array) -> Array:
        model = HistGradientBoostingRegressor(
            max_iter=300, learning_rate=0.05, min_samples_leaf=3, random_state=0
        )
        result: Array = model.fit(rows, logs).predict(others)
        return result

    def perceptron(rows: Array, logs: Array, others: Array) -> Array:
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), [0]),
            remainder=StandardScaler(),
        )
        network = MLPRegressor(
            hidden_layer_sizes=(64, 64), alpha=1e-2, max_iter=400, tol=1e-3, random_state=0
        )
        middle, scale = logs.mean(), logs.std() or 1.0
        model = make_pipeline(columns, network).fit(rows, (logs - middle) / scale)
        # Beyond the times that it was trained on, an exponential leads anywhere.
        result: Array = np.clip(
            middle + scale * model.predict(others), logs.min() - 1.0, logs.max() + 1.0
        )
        return result

    return {"boosted trees": trees, "perceptron": perceptron}
