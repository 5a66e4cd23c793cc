"""Rules over a model's own operators, those of connected nodes with the most to do first.

A rule rewrites nodes that read each other. So the connected pieces of a model are looked at, up to
`MOST_NODES` of them, and the sets of operators that occur in such pieces are ordered by how many
elements their nodes read and give in all. Of what is equal over such a set only what matches
somewhere in the model is proved.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx

from ..language.syntax import Rule
from .choices import takes_part
from .findings import Generation
from .run import Program, generate

# Nodes of a connected piece, different operators in one, and pieces that begin at one node.
MOST_NODES, MOST_OPERATORS, MOST_PIECES = 5, 3, 200
Piece = frozenset[int]
# The least time, in seconds, that is of use for one set of operators.
_LEAST_S = 8.0


def generate_for_model(
    model: onnx.ModelProto,
    *,
    budget: float,
    known: Sequence[Rule],
    nodes: int = 2,
    places: Callable[[Sequence[Rule]], Mapping[str, int]] | None = None,
    find: Callable[..., Generation] = generate,
    **settings: Any,
) -> tuple[Generation, ...]:
    """Find rules for the pieces of a model: a run for each set of its operators, hot ones first.

    `budget` is the time for all of it in seconds: half of what is left is for the next set. After
    programs of up to `nodes` operators larger ones follow, up to `MOST_NODES`, over those sets that
    were seen whole. What a run finds is known to those after it. `places` counts the matches of
    rules in the model, so that only what matches is proved; `settings` are those of `generate`.
    """
    program = None if places is None else Program(_reads(model.graph), places)
    began = time.monotonic()
    runs: list[Generation] = []
    rules = list(known)
    waiting = [(nodes, names) for names in operator_sets(model)]
    while waiting:
        size, names = waiting.pop(0)
        remaining_s = began + budget - time.monotonic()
        if remaining_s < _LEAST_S:
            break
        share = max(_LEAST_S, remaining_s / 2)
        runs.append(find(names, budget=share, known=rules, nodes=size, program=program, **settings))
        rules += runs[-1].rules
        if runs[-1].complete and size < MOST_NODES:
            waiting.append((size + 1, names))
    return tuple(runs)


def operator_sets(model: onnx.ModelProto) -> tuple[tuple[str, ...], ...]:
    """The sets of operators in connected pieces of a model, those with the most elements first.

    Only operators whose specifications let them take part are named; a set that is part of one with
    more elements to its name is left out.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    elements = _elements(graph)
    counts: Counter[frozenset[str]] = Counter()
    work = [
        sum(elements.get(name, 0) for name in (*node.input, *node.output)) for node in graph.node
    ]
    for piece in _pieces(graph):
        names = frozenset(graph.node[number].op_type for number in piece)
        if len(names) <= MOST_OPERATORS:
            counts[names] += sum(work[number] for number in piece) // len(piece)
    chosen: list[frozenset[str]] = []
    for names, _ in sorted(counts.items(), key=lambda entry: (-entry[1], sorted(entry[0]))):
        if not any(names <= other for other in chosen):
            chosen = [*(other for other in chosen if not other <= names), names]
    return tuple(tuple(sorted(names)) for names in chosen)


def _reads(graph: onnx.GraphProto) -> frozenset[tuple[str, str]]:
    """Pairs of operators of which the second reads what the first gives."""
    producer = {name: node.op_type for node in graph.node for name in node.output}
    return frozenset(
        (producer[name], node.op_type)
        for node in graph.node
        for name in node.input
        if name in producer
    )


def _elements(graph: onnx.GraphProto) -> dict[str, int]:
    """The elements of each value whose sizes are known; an unknown one counts as 1."""
    elements: dict[str, int] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        count = 1
        for dimension in value.type.tensor_type.shape.dim:
            count *= max(1, dimension.dim_value)
        elements[value.name] = count
    for tensor in graph.initializer:
        count = 1
        for size in tensor.dims:
            count *= size
        elements[tensor.name] = count
    return elements


def _pieces(graph: onnx.GraphProto) -> Iterator[Piece]:
    """Connected pieces of nodes that take part, each once."""
    beside = _neighbours(graph)
    seen: set[Piece] = set()
    for start in beside:
        waiting, count = [frozenset((start,))], 0
        while waiting and count < MOST_PIECES:
            piece = waiting.pop(0)
            if piece in seen:
                continue
            seen.add(piece)
            count += 1
            if len(piece) > 1:
                yield piece
            if len(piece) < MOST_NODES:
                next_ = sorted({other for number in piece for other in beside[number]} - piece)
                waiting += [piece | {other} for other in next_]


def _neighbours(graph: onnx.GraphProto) -> Mapping[int, list[int]]:
    """For each node that takes part those that read it, or that it reads."""
    producer = {
        name: number for number, node in enumerate(graph.node) for name in node.output if name
    }
    beside: dict[int, list[int]] = {
        number: []
        for number, node in enumerate(graph.node)
        if not node.domain and takes_part(node.op_type)
    }
    for number in beside:
        for name in graph.node[number].input:
            other = producer.get(name)
            if other in beside:
                beside[number].append(other)
                beside[other].append(number)
    return beside
