"""Small cost graphs whose times follow from their nodes, and the frozen ones."""

from functools import cache
from pathlib import Path

import numpy as np
from tensolog.profiles.learning.samples.archive import CostGraph
from tensolog.profiles.learning.samples.cost_graphs import read_archives

DATA = Path(__file__).resolve().parents[3] / "benchmarks/data"


def layout_graph(name="layout/net_0123456789abcdef.npz", *, nodes=12, count=9, seed=0, edges=None):
    """A chain of nodes, every other one configurable: what it is set to decides on its time."""
    random = np.random.default_rng(seed)
    ids = np.arange(0, nodes, 2, dtype=np.int32)
    features = random.integers(0, 1000, (nodes, 3)).astype(np.float32)
    settings = random.integers(-1, 3, (count, len(ids), 2)).astype(np.float32)
    work = features[ids, 0] * (1.0 + np.abs(settings[:, :, 0] - 1.0))
    chain = np.stack([np.arange(1, nodes), np.arange(nodes - 1)], 1)
    arrays = {
        "node_feat": features,
        "node_opcode": random.integers(1, 5, nodes).astype(np.int32),
        "edge_index": np.asarray(chain if edges is None else edges, np.int32).reshape(-1, 2),
        "node_config_ids": ids,
        "node_config_feat": settings,
        "config_runtime": (1000 + work.sum(axis=1)).astype(np.int64),
    }
    return CostGraph(name, arrays)


def tile_graph(name="tile/kernel_0123456789abcdef.npz", *, nodes=4, count=6, seed=0):
    """A kernel of a few nodes, with configurations of the whole."""
    random = np.random.default_rng(seed)
    settings = random.integers(1, 9, (count, 2)).astype(np.float32)
    times = (100 * settings[:, 0] + 10 * settings[:, 1]).astype(np.int64)
    arrays = {
        "node_feat": random.integers(-1, 50, (nodes, 3)).astype(np.float32),
        "node_opcode": random.integers(1, 5, nodes).astype(np.int32),
        "edge_index": np.stack([np.arange(1, nodes), np.arange(nodes - 1)], 1).astype(np.int32),
        "config_feat": settings,
        "config_runtime": times,
        "config_runtime_normalizers": np.full_like(times, times[0]),
    }
    return CostGraph(name, arrays)


@cache
def frozen_graphs():
    """The graphs of the frozen data set, read once."""
    return tuple(read_archives(DATA / "kernels.zip"))
