"""Configurations of architectures left out, where what decides on times is known."""

import numpy as np
import pytest
from tensolog.profiles.learning.errors import LearningError
from tensolog.profiles.learning.samples.archive import CostGraph
from tensolog.profiles.learning.samples.examples import example_of
from tensolog.profiles.learning.scores.graph_scores import score_graphs
from tensolog.profiles.learning.training.ensemble import without
from tensolog.profiles.learning.training.training_options import Training

from ..cost_graphs import layout_graph, tile_graph

pytest.importorskip("sklearn", reason="learning needs scikit-learn")
BRIEFLY = Training(steps=20)  # where torch is, a graph network is among the models


def test_what_decides_on_times_is_learned_from_other_architectures():
    graphs = [
        tile_graph(f"tile/{name}_{seed:016x}.npz", seed=seed, count=20)
        for name, first in (("a", 0), ("b", 8))
        for seed in range(first, first + 8)
    ]
    scores = score_graphs(graphs, training=BRIEFLY)
    assert {score.architecture for score in scores} == {"a", "b"}
    for score in scores:
        assert (score.graphs, score.trained_on) == (8, 8)
        assert 0.0 <= score.top_10 <= score.top_5 <= score.top_1
        if score.model == "boosted trees":
            assert score.accuracy > 0.85 and score.tau > 0.7 and score.error < 0.3
        if score.model == "graph network":
            assert 0.0 <= score.covered <= 1.0
        else:
            assert score.covered is None


def test_what_architectures_share_is_not_learned_from():
    first, other = (example_of(tile_graph("tile/a_0.npz", seed=seed)) for seed in (0, 1))
    shared = example_of(tile_graph("tile/b_0.npz", seed=0))
    (kept,) = without([first, other], [shared])
    assert kept is other


def test_graphs_of_other_features_are_not_learned_together():
    wide = tile_graph("tile/b.npz")
    features = np.ones((4, 7), np.float32)
    wide = CostGraph(wide.path, dict(wide.arrays) | {"node_feat": features})
    with pytest.raises(LearningError, match="learn from one collection at a time"):
        score_graphs([tile_graph("tile/a.npz", nodes=3), wide])


def test_one_architecture_is_too_few():
    with pytest.raises(LearningError, match="1 architecture with"):
        score_graphs([layout_graph()])
