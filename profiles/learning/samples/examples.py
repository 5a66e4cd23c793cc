"""Cost graphs as a network sees them: pruned, scaled, in segments, several side by side.

Numbers of any size are scaled by sign(x) log(1 + |x|); -1 stands for what a node does not have,
since 0 is a value. Arrays only: training and prediction share this, and only training needs torch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .archive import CostGraph

Array = np.ndarray[Any, Any]

_ABSENT = float(-np.log1p(1.0))  # -1, scaled
_DIGEST = re.compile(r"[_-]-?[0-9a-f]{12,64}$")


@dataclass(frozen=True)
class Example:
    """A graph with configurations, as arrays that a network reads.

    Of n nodes, m edges, c configurations of k places with g features: opcodes (n), features (n, f)
    as scaled float32, edges (m, 2) with [u, v] where u reads v, places (n) with the place of a
    node's configuration or -1, configurations (c, k, g) scaled as well, prior (c) a first guess of
    log(time in ns), logs (c) the logarithms of times.
    """

    path: str
    architecture: str
    opcodes: Array
    features: Array
    edges: Array
    places: Array
    configurations: Array
    prior: Array
    logs: Array

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.opcodes)

    @cached_property
    def content(self) -> str:
        """A digest of the graph, whatever it is called and however long it takes.

        Architectures share kernels: what is learned from one is no test in another.
        """
        digest = hashlib.sha256()
        for array in (self.opcodes, self.features, self.edges):
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Batch:
    """Segments of graphs side by side, under c configurations of each graph.

    opcodes (n), features (n, f), configurations (n, c, g), consumers (m) and producers (m) of
    edges, reading (m) one over what the consumer reads, feeding (m) one over what reads the
    producer, segments (n) the number of a node's segment.
    """

    opcodes: Array
    features: Array
    configurations: Array
    consumers: Array
    producers: Array
    reading: Array
    feeding: Array
    segments: Array
    count: int


def scaled(values: Array) -> Array:
    """Return sign(x) log(1 + |x|) as float32."""
    numbers = np.asarray(values, dtype=np.float32)
    result: Array = np.sign(numbers) * np.log1p(np.abs(numbers))
    return result


def architecture_of(path: str) -> str:
    """Return the architecture that a file of TpuGraphs is of: its name without the digest."""
    stem = path.rsplit("/", 1)[-1].removesuffix(".npz")
    return _DIGEST.sub("", stem)


def example_of(graph: CostGraph, *, hops: int | None = None, prior: int | None = None) -> Example:
    """Describe a graph; `hops` keeps what is so many edges from a configurable node at most.

    `prior` is the node feature that holds a first guess of the time in ns, of the one node where it
    is not negative; without it the guess is one nanosecond. A tile collection configures all nodes.
    """
    arrays = graph.arrays
    count = len(arrays["config_runtime"])
    opcodes = arrays["node_opcode"].astype(np.int64)
    edges = arrays["edge_index"].astype(np.int64).reshape(-1, 2)
    features = arrays["node_feat"]
    if graph.collection == "tile":
        places = np.zeros(len(opcodes), np.int64)
        configurations = arrays["config_feat"][:, None, :]
    else:
        ids = arrays["node_config_ids"].astype(np.int64)
        places = np.full(len(opcodes), -1, np.int64)
        places[ids] = np.arange(len(ids))
        configurations = arrays["node_config_feat"]
    guess = 0.0
    if prior is not None and len(features):
        guess = float(np.log(max(float(features[:, prior].max()), 1.0)))
    if hops is not None:
        kept = _near(places >= 0, edges, hops)
        numbers = np.cumsum(kept) - 1
        edges = numbers[edges[kept[edges].all(axis=1)]]
        opcodes, features, places = opcodes[kept], features[kept], places[kept]
    return Example(
        graph.path,
        architecture_of(graph.path),
        opcodes,
        scaled(features),
        edges,
        places,
        scaled(configurations),
        np.full(count, guess),
        np.log(arrays["config_runtime"].astype(np.float64)),
    )


def _near(start: Array, edges: Array, hops: int) -> Array:
    """Return which nodes are at most so many edges, in either direction, from the first ones."""
    kept = start.copy()
    for _ in range(hops):
        ends = edges[kept[edges].any(axis=1)]
        kept[ends.ravel()] = True
    return kept


def segments_of(example: Example, most: int) -> list[Array]:
    """Divide the nodes into the fewest runs of equal length and of `most` nodes at most.

    Nodes of a cost graph stand in an order in which they can be computed, so that a run is a
    contiguous piece. Each part is the numbers of its nodes; all nodes lie in one of them.
    """
    parts = max(1, -(-example.nodes // most))
    return np.array_split(np.arange(example.nodes), parts)


def batch_of(parts: Sequence[tuple[Example, Array, Array]], codes: Array) -> Batch:
    """Put segments side by side: of each its graph, the numbers of its nodes, configurations.

    Of each graph there are equally many configurations (their positions). Edges between segments
    are cut. `codes` are the opcodes that a network knows, sorted; an opcode is the number of its
    place, counted from 1, and 0 where it is unknown.
    """
    opcodes, features, configurations, consumers, producers, segments = [], [], [], [], [], []
    offset = 0
    for number, (example, nodes, chosen) in enumerate(parts):
        whole = len(nodes) == example.nodes
        opcodes.append(example.opcodes if whole else example.opcodes[nodes])
        features.append(example.features if whole else example.features[nodes])
        configurations.append(_configured(example, nodes, chosen))
        edges = example.edges if whole else _inner(example, nodes)
        consumers.append(edges[:, 0] + offset)
        producers.append(edges[:, 1] + offset)
        segments.append(np.full(len(nodes), number))
        offset += len(nodes)
    reads, feeds = np.concatenate(consumers), np.concatenate(producers)
    return Batch(
        _numbers(np.concatenate(opcodes), codes),
        np.concatenate(features),
        np.concatenate(configurations),
        reads,
        feeds,
        (1.0 / np.bincount(reads, minlength=offset)[reads]).astype(np.float32),
        (1.0 / np.bincount(feeds, minlength=offset)[feeds]).astype(np.float32),
        np.concatenate(segments),
        len(parts),
    )


def _configured(example: Example, nodes: Array, chosen: Array) -> Array:
    """Return what configures each node of a segment (n, c, g), -1 where nothing does."""
    places = example.places[nodes]
    configured = np.flatnonzero(places >= 0)
    width = example.configurations.shape[2]
    columns = np.full((len(nodes), len(chosen), width), _ABSENT, np.float32)
    values = example.configurations[np.ix_(chosen, places[configured])]
    columns[configured] = values.transpose(1, 0, 2)
    return columns


def _inner(example: Example, nodes: Array) -> Array:
    """Return the edges within a segment, which is a run of nodes, as numbers within it."""
    first, last = int(nodes[0]), int(nodes[-1])
    inside = (example.edges >= first) & (example.edges <= last)
    inner: Array = example.edges[inside.all(axis=1)] - first
    return inner


def _numbers(opcodes: Array, codes: Array) -> Array:
    if not len(codes):
        return np.zeros(len(opcodes), np.int64)
    place = np.minimum(np.searchsorted(codes, opcodes), len(codes) - 1)
    return np.where(codes[place] == opcodes, place + 1, 0)
