"""How well the configurations of graphs are ranked that nothing of their architecture was seen of.

Each architecture is left out in turn. Beside a graph network there are boosted trees and a
perceptron, which see means and maxima over a graph's nodes. The metrics are those of TpuGraphs. Its
format says nothing of noise, so that there is no ceiling to compare with.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import LearningError
from ..predictor import CostPredictor, graph_signature
from ..samples.archive import CostGraph
from ..samples.examples import Array, Example
from ..training.ensemble import subset, timed_examples, train_ensemble, widths_of, without
from ..training.training_options import Progress, Training
from .baselines import regressions
from .metrics import kendall_tau, mean_error, ordered_pair_accuracy, top_k_error

# Of a graph's configurations, so many at most teach the models that see graphs as rows.
_MOST_ROWS = 200


@dataclass(frozen=True)
class GraphScore:
    """How one model ranks the configurations of an architecture's graphs, on average.

    `accuracy` is that of ordered pairs, `top_1` to `top_10` the slowdown of the best of so many
    that are predicted to be best, `error` the mean relative one, `covered` the share of times
    within the interval. Only graphs whose configurations take different times are ranked.
    """

    model: str
    architecture: str
    graphs: int
    trained_on: int
    accuracy: float
    tau: float
    top_1: float
    top_5: float
    top_10: float
    error: float
    covered: float | None = None


def score_graphs(
    graphs: Iterable[CostGraph],
    *,
    training: Training | None = None,
    progress: Progress | None = None,
) -> list[GraphScore]:
    """Leave each architecture out in turn; return the scores of each model.

    Raises LearningError for fewer than two architectures, for graphs of different features, or
    where scikit-learn is missing. Where torch is, a graph network is among the models.
    """
    learners = regressions()
    examples, prior = timed_examples(graphs)
    architectures = sorted({example.architecture for example in examples})
    if len(architectures) < 2:
        raise LearningError(
            f"{len(architectures)} architecture{'' if len(architectures) == 1 else 's'} with timed "
            "configurations in the catalog, and one is left out at a time: import or collect more"
        )
    widths_of(examples)
    networks = importlib.util.find_spec("torch") is not None
    scores = []
    for number, architecture in enumerate(architectures):
        if progress is not None:
            progress(number, len(architectures))
        unseen = [example for example in examples if example.architecture == architecture]
        training_examples = without(examples, unseen)
        if not training_examples:
            continue
        table = np.concatenate([_rows(_few(example)) for example in training_examples])
        logs = np.concatenate([_few(example).logs for example in training_examples])
        tested = np.concatenate([_rows(example) for example in unseen])
        ends = np.cumsum([len(example.logs) for example in unseen])[:-1]
        for name, regression in learners.items():
            predicted = np.exp(regression(table, logs, tested))
            times = np.split(predicted, ends)
            scores.append(_score(name, architecture, len(training_examples), unseen, times))
        if networks:
            model = train_ensemble(training_examples, prior_feature=prior, training=training)
            predictor = CostPredictor(model.SerializeToString())
            predictions = [predictor.predict(example) for example in unseen]
            within = [
                (prediction.least_ns <= np.exp(example.logs))
                & (np.exp(example.logs) <= prediction.most_ns)
                for prediction, example in zip(predictions, unseen, strict=True)
            ]
            times = [prediction.times_ns for prediction in predictions]
            covered = float(np.mean(np.concatenate(within)))
            scores.append(
                _score(
                    "graph network", architecture, len(training_examples), unseen, times, covered
                )
            )
    if not scores:
        raise LearningError("the architectures have the same graphs, so none can be left out")
    return scores


def _score(
    model: str,
    architecture: str,
    trained_on: int,
    unseen: Sequence[Example],
    predicted: Sequence[Array],
    covered: float | None = None,
) -> GraphScore:
    pairs = [
        (np.exp(example.logs), times) for example, times in zip(unseen, predicted, strict=True)
    ]
    ranked = [pair for pair in pairs if pair[0].min() < pair[0].max()]
    ranks = [
        (
            ordered_pair_accuracy(*pair),
            # Equal predictions rank nothing.
            0.0 if math.isnan(order := kendall_tau(*pair)) else order,
            *(top_k_error(*pair, k) for k in (1, 5, 10)),
        )
        for pair in ranked
    ]
    means = np.mean(ranks, axis=0).tolist() if ranks else [math.nan] * 5
    accuracy, tau, top_1, top_5, top_10 = means
    error = float(np.mean([mean_error(*pair) for pair in pairs]))
    return GraphScore(
        model,
        architecture,
        len(unseen),
        trained_on,
        accuracy,
        tau,
        top_1,
        top_5,
        top_10,
        error,
        covered,
    )


def _few(example: Example) -> Example:
    stride = max(1, len(example.logs) // _MOST_ROWS)
    return subset(example, np.arange(len(example.logs))[::stride])


def _rows(example: Example) -> Array:
    """Return a row for each configuration: what graph it is, means and maxima of features."""
    values = example.configurations
    if not values.shape[1]:
        values = np.full((len(values), 1, values.shape[2]), -1.0, np.float32)
    graph = np.r_[
        float(graph_signature(example)),
        example.prior[0],
        math.log(example.nodes),
        example.features.mean(axis=0),
        example.features.max(axis=0),
    ]
    return np.concatenate(
        [
            np.repeat(graph[None], len(values), axis=0),
            values.mean(axis=1),
            values.max(axis=1),
            values.min(axis=1),
        ],
        axis=1,
    )
