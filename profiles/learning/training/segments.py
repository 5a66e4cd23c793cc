"""Graph segment training: a graph larger than memory is computed a segment at a time.

In a step all segments have gradients, or k of J. All: their sums first, without gradients, then the
loss and its gradient with regard to the sums, then each segment once more with that. Gradients are
exact, but for the edges between segments, and memory is that of a segment. k of J: what the others
were when they were last computed stands in a table; each of these stale embeddings is kept with
probability p, and those computed anew are weighted by eta = p + (1 - p) J / k, so that the sum is
right on average. p = 1 is historical embeddings without dropout, p = 0 no historical embeddings.
With one segment, both are full training. The table holds one vector a segment and configuration.
Source: Cao et al., Large Graph Property Prediction via Graph Segment Training, arXiv 2305.12322,
sections 3.2 and 3.3; computing again what gradients need: Chen et al., Training Deep Nets with
Sublinear Memory Cost, arXiv 1604.06174. What each of these gives: benchmarks/results/segments.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..samples.examples import Array, Example, batch_of
from .network import Parameters, Tensor, encode

Part = tuple[Example, Array, Array]


def fresh_weight(kept: float, segments: int, fresh: int) -> float:
    """Return eta: what a segment computed anew counts, so that sums are right on average."""
    return kept + (1.0 - kept) * segments / fresh


@dataclass
class Table:
    """The embeddings of segments as they were last computed, by graph, (J, c, width) each."""

    width: int
    values: dict[str, Tensor] = field(default_factory=dict)
    is_computed: dict[str, Array] = field(default_factory=dict)

    def rows(self, example: Example, segments: int, dtype: Any) -> tuple[Tensor, Array]:
        """Return a graph's embeddings, and which of them were ever computed."""
        key = example.path
        if key not in self.values:
            shape = (segments, len(example.logs))
            self.values[key] = torch.zeros((*shape, self.width), dtype=dtype)
            self.is_computed[key] = np.zeros(shape, dtype=bool)
        return self.values[key], self.is_computed[key]


@dataclass(frozen=True)
class Selection:
    """A graph in a step: its segments, those computed with gradients, its configurations."""

    example: Example
    segments: Sequence[Array]
    fresh: Array
    chosen: Array


def graph_sums(
    parameters: Parameters,
    selections: Sequence[Selection],
    table: Table,
    codes: Array,
    kept: float,
    random: np.random.Generator,
    most_nodes: int = sys.maxsize,
) -> Tensor:
    """Return the sums over the nodes of graphs (b, c, width), with gradients of fresh segments.

    What is computed is written to the table, with at most `most_nodes` nodes side by side, unless a
    segment has more. A stale embedding that was never computed is computed once, without gradients,
    where `kept` is above 0.
    """
    embedded = torch.cat(
        [
            encode(parameters, batch_of(parts, codes))
            for parts in _side_by_side(_fresh_parts(selections), most_nodes)
        ]
    )
    sums, first = [], 0
    for selection in selections:
        count = len(selection.segments)
        mine = embedded[first : first + len(selection.fresh)]
        first += len(selection.fresh)
        total = fresh_weight(kept, count, len(selection.fresh)) * mine.sum(dim=0)
        stale = np.setdiff1d(np.arange(count), selection.fresh)
        if len(stale) and kept > 0.0:
            stale = stale[random.random(len(stale)) < kept]
            values, is_computed = table.rows(selection.example, count, mine.dtype)
            for number in stale[~is_computed[np.ix_(stale, selection.chosen)].all(axis=1)]:
                _renew(parameters, selection, int(number), values, is_computed, codes)
            total = total + values[np.ix_(stale, selection.chosen)].sum(dim=0)
            values[np.ix_(selection.fresh, selection.chosen)] = mine.detach()
            is_computed[np.ix_(selection.fresh, selection.chosen)] = True
        sums.append(total)
    return torch.stack(sums)


def add_gradients(
    parameters: Parameters,
    selections: Sequence[Selection],
    gradients: Tensor,
    codes: Array,
    kept: float,
    most_nodes: int,
) -> None:
    """Add to the parameters' gradients what those of the sums over graphs (b, c, width) lead to.

    Fresh segments are computed once more, with at most `most_nodes` nodes side by side.
    """
    weights = [
        fresh_weight(kept, len(selection.segments), len(selection.fresh)) * gradient
        for selection, gradient in zip(selections, gradients, strict=True)
        for _ in selection.fresh
    ]
    first = 0
    for parts in _side_by_side(_fresh_parts(selections), most_nodes):
        part_gradients = torch.stack(weights[first : first + len(parts)])
        encode(parameters, batch_of(parts, codes)).backward(part_gradients)
        first += len(parts)


def _fresh_parts(selections: Sequence[Selection]) -> list[Part]:
    """Return the segments that are computed with gradients: a graph, nodes, configurations."""
    return [
        (selection.example, selection.segments[number], selection.chosen)
        for selection in selections
        for number in selection.fresh
    ]


def _side_by_side(parts: Sequence[Part], most_nodes: int) -> list[list[Part]]:
    """Divide segments into runs of `most_nodes` nodes at most, or of one segment."""
    runs: list[list[Part]] = []
    nodes = 0
    for part in parts:
        if not runs or nodes + len(part[1]) > most_nodes:
            runs.append([])
            nodes = 0
        runs[-1].append(part)
        nodes += len(part[1])
    return runs


def fresh_sums(
    parameters: Parameters, example: Example, segments: Sequence[Array], chosen: Array, codes: Array
) -> Tensor:
    """Return the sum over a graph's nodes (1, c, width), a segment at a time, without gradients."""
    with torch.no_grad():
        total: Tensor = sum(
            encode(parameters, batch_of([(example, nodes, chosen)], codes)) for nodes in segments
        )
    return total


def _renew(
    parameters: Parameters,
    selection: Selection,
    number: int,
    values: Tensor,
    is_computed: Array,
    codes: Array,
) -> None:
    part = (selection.example, selection.segments[number], selection.chosen)
    with torch.no_grad():
        values[number, selection.chosen] = encode(parameters, batch_of([part], codes))[0]
    is_computed[number, selection.chosen] = True
