"""The frozen data set, and a model of costs that was trained on a part of it, without torch."""

from collections import defaultdict

import numpy as np
import pytest
from tensolog.profiles.learning.predictor import CostPredictor
from tensolog.profiles.learning.samples.kernel_graphs import FEATURES, prior_feature_of
from tensolog.profiles.learning.scores.metrics import mean_error, ordered_pair_accuracy

from .cost_graphs import DATA, frozen_graphs

# What kernels.onnx was trained without: benchmarks/data/README.md.
LEFT_OUT = ("bert", "products", "squeezenet", "unet")


@pytest.fixture(scope="module")
def predictor():
    return CostPredictor(DATA / "kernels.onnx")


@pytest.fixture(scope="module")
def described(predictor):
    """Examples by architecture; of those left out without what others share with them."""
    examples = defaultdict(list)
    known = {entry["label"][-20:] for entry in predictor.metadata["known"]}
    for graph in frozen_graphs():
        assert prior_feature_of(graph) is not None
        assert graph.arrays["node_feat"].shape[1] == len(FEATURES)
        example = predictor.example(graph)
        if example.architecture in LEFT_OUT and graph.path[-20:] in known:
            continue  # a kernel that another architecture shares with it
        examples[example.architecture].append(example)
    return examples


def test_kernels_of_many_architectures_under_several_configurations(described):
    assert len(described) == 18
    counts = {len(example.logs) for examples in described.values() for example in examples}
    assert counts == {3}


def test_times_of_architectures_left_out_are_foretold_better_than_by_the_bound(
    described, predictor
):
    for architecture in LEFT_OUT:
        examples = described[architecture]
        times = np.concatenate([np.exp(example.logs) for example in examples])
        bounds = np.concatenate([np.exp(example.prior) for example in examples])
        predictions = [predictor.predict(example).times_ns for example in examples]
        predicted = np.concatenate(predictions)
        assert mean_error(times, predicted) < 0.8 * mean_error(times, bounds), architecture
        assert ordered_pair_accuracy(times, predicted) > 0.7, architecture


def test_intervals_hold_on_architectures_left_out(described, predictor):
    """Nine of ten times, give or take what four architectures differ by."""
    within = []
    for architecture in LEFT_OUT:
        for example in described[architecture]:
            prediction, times = predictor.predict(example), np.exp(example.logs)
            within.append((prediction.least_ns <= times) & (times <= prediction.most_ns))
    assert 0.8 <= np.mean(np.concatenate(within)) <= 0.99


def test_what_was_left_out_is_not_among_what_is_known(described, predictor):
    known = {entry["label"] for entry in predictor.metadata["known"]}
    assert not {example.path for name in LEFT_OUT for example in described[name]} & known
    assert {
        example.path for name in described.keys() - {*LEFT_OUT} for example in described[name]
    } == known


def test_it_is_small():
    assert sum(file.stat().st_size for file in DATA.iterdir()) < 4_000_000
