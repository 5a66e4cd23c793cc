"""Attention under a constant mask, computed by blocks of rows over the columns that each one sees.

Under a causal mask half of the scores are computed to be thrown away; under a window, most of them.
The number of blocks depends on the length, which no rule can say: this is a derivation of its own.

    softmax(scale(Q Kt) + M) V   =   rows of softmax(scale(Q[a:b] Kt[:, l:h]) + M[a:b, l:h]) V[l:h]

for each block of rows a:b, where M is below the largest of its row by GAP or more at every column
outside of l:h. What holds then: a score that far below the largest has an exponential of 0 in
floating point, since exp(x) is 0 for x < -745 in float64 (-104 in float32), as long as the scores
themselves differ by less than GAP - 745 within a row. So the columns left out add zeros to the
sums, and nothing changes but the order of additions. A row that sees nothing (a mask of -Inf alone
gives NaN) rules the mask out. tests/optimizer/rewrites/test_split_masked_attention.py
compares both sides for random lengths, heads, scales and masks; like any plan, it is compared with
the original's outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.graph import Graph, Node
from ..graph.maker import Maker
from ..graph.simplify import remove_dead
from ..match.rewrite import Step

NAME = "SplitMaskedAttention"
SUMMARY = "computes attention under a constant mask by blocks of rows, over what each block sees"
# How far below the largest of its row a masked element is: masks are -1e4 or less, or -Inf.
GAP = 9000.0
# Rows of a block: fewer make kernels small, more compute what is masked. Multiples of STEP.
ROWS, STEP = 96, 16
# At least this part of the scores must be left out, or nothing is gained.
LEAST_LEFT_OUT = 0.2
_FIRST_OPSET = 10  # Slice takes its bounds as inputs


@dataclass(frozen=True)
class Site:
    """One attention: its nodes from the scores to the result, and what each row may see."""

    scores: int
    scale: tuple[int, ...]
    mask: int
    softmax: int
    result: int
    masked: np.ndarray[Any, Any]  # [..., rows, columns], true where nothing is seen

    @property
    def nodes(self) -> tuple[int, ...]:
        """List the nodes, in order."""
        return (self.scores, *self.scale, self.mask, self.softmax, self.result)


def split_masked_attention(graph: Graph) -> list[Step]:
    """Split every attention under a constant mask that leaves enough out, in place."""
    steps = []
    if graph.opset() < _FIRST_OPSET:
        return []
    for number in list(graph.nodes):
        site = _site(graph, number)
        if site is not None and (blocks := blocks_of(site.masked)):
            names = tuple(graph.node_name(node) for node in site.nodes)
            added = _split(graph, site, blocks)
            reason = f"{len(blocks)} blocks, {1 - work(blocks, site.masked):.0%} fewer scores"
            steps.append(
                Step(NAME, names, len(site.nodes), added, True, reason, "rounding", SUMMARY)
            )
    remove_dead(graph)
    return steps


Block = tuple[int, int, int, int]
"""Rows a:b, which see columns l:h."""


def blocks_of(masked: np.ndarray[Any, Any]) -> list[Block]:
    """Divide the rows of a mask, [..., rows, columns]; nothing where too little is left out."""
    rows = masked.shape[-2]
    count = max(2, -(-rows // ROWS))
    size = -(-rows // count // STEP) * STEP or STEP
    seen = np.any(~masked.reshape(-1, *masked.shape[-2:]), axis=0)
    blocks: list[Block] = []
    for start in range(0, rows, size):
        end = min(start + size, rows)
        columns = np.flatnonzero(seen[start:end].any(axis=0))
        blocks.append((start, end, int(columns[0]), int(columns[-1]) + 1))
    return blocks if work(blocks, masked) <= 1 - LEAST_LEFT_OUT else []


def work(blocks: Sequence[Block], masked: np.ndarray[Any, Any]) -> float:
    """Give the part of the scores that is computed by blocks."""
    rows, columns = masked.shape[-2:]
    return float(sum((b - a) * (h - low) for a, b, low, h in blocks) / (rows * columns))


def masked_by(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Tell which elements an added mask hides; None where a row would be left with nothing."""
    with np.errstate(all="ignore"):
        wide = mask.astype(np.float64)
        largest = wide.max(axis=-1, keepdims=True)
        if not np.isfinite(largest).all():
            return None
        return np.asarray(wide <= largest - GAP)


def _site(graph: Graph, number: int) -> Site | None:
    """Match upwards from the product of the probabilities and the values."""
    result = graph.nodes.get(number)
    if result is None or result.operator != "MatMul":
        return None
    softmax = _above(graph, result.inputs[0], ("Softmax",))
    if softmax is None or not _is_last(graph, softmax):
        return None
    mask_input = _mask(graph, graph.nodes[softmax].inputs[0])
    if mask_input is None:
        return None
    mask, value, masked = mask_input
    scale: list[int] = []
    while (above := _above(graph, value, ("Div", "Mul"))) is not None:
        node = graph.nodes[above]
        place = 1 if _is_scalar(graph, node.inputs[1]) else 0
        if not _is_scalar(graph, node.inputs[place]) or (node.op_type == "Div" and place == 0):
            return None
        scale.insert(0, above)
        value = node.inputs[1 - place]
    scores = _above(graph, value, ("MatMul",))
    if scores is None:
        return None
    operands = (*graph.nodes[scores].inputs, result.inputs[1], result.inputs[0])
    shapes = [graph.shape(operand) for operand in operands]
    if any(shape is None or len(shape) < 2 for shape in shapes):
        return None
    rows, columns = (shapes[0] or ())[-2], (shapes[1] or ())[-1]
    if (rows, columns) != masked.shape[-2:] or (shapes[2] or ())[-2] != columns:
        return None
    return Site(scores, tuple(scale), mask, softmax, number, masked)


def _above(graph: Graph, value: int, operators: Sequence[str]) -> int | None:
    """Give the node that makes a value for one reader alone, if it is one of these operators."""
    number = graph.producer.get(value)
    if number is None or graph.nodes[number].operator not in operators:
        return None
    return number if graph.use_count(value) == 1 else None


def _is_last(graph: Graph, softmax: int) -> bool:
    """Tell whether a Softmax runs over the last axis alone."""
    axis = graph.attribute(softmax, "axis")
    shape = graph.shape(graph.nodes[softmax].inputs[0])
    return shape is not None and axis in (-1, len(shape) - 1)


def _is_scalar(graph: Graph, value: int) -> bool:
    shape = graph.shape(value)
    return graph.is_constant(value) and shape is not None and all(size == 1 for size in shape)


def _mask(graph: Graph, value: int) -> tuple[int, int, np.ndarray[Any, Any]] | None:
    """Give the node that masks, what it masks, and which elements: an Add, or a Where."""
    number = _above(graph, value, ("Add", "Where"))
    if number is None:
        return None
    node = graph.nodes[number]
    shape = graph.shape(value)
    if shape is None or len(shape) < 2 or not all(isinstance(n, int) for n in shape[-2:]):
        return None
    if node.op_type == "Add":
        places = [place for place in (0, 1) if graph.is_constant(node.inputs[place])]
        if len(places) != 1:
            return None
        added = graph.constant(node.inputs[places[0]])
        hidden = None if added is None or added.dtype.kind != "f" else masked_by(added)
        other = node.inputs[1 - places[0]]
    else:
        condition = graph.constant(node.inputs[0])
        places = [place for place in (1, 2) if _is_scalar(graph, node.inputs[place])]
        if condition is None or len(places) != 1:
            return None
        filler = graph.constant(node.inputs[places[0]])
        if filler is None or filler.item() > -GAP:
            return None
        hidden = condition if places[0] == 1 else ~condition
        hidden = None if hidden.ndim == 0 or hidden.all(axis=-1).any() else hidden
        other = node.inputs[3 - places[0]]
    if hidden is None or hidden.shape[-2:] != shape[-2:] or hidden.ndim > len(shape):
        return None
    return number, other, hidden


def _split(graph: Graph, site: Site, blocks: Sequence[Block]) -> int:
    """Build the blocks beside the site, and let what reads its result read theirs."""
    builder = _Builder(graph, NAME)
    queries, keys = graph.nodes[site.scores].inputs
    values = graph.nodes[site.result].inputs[1]
    columns = site.masked.shape[-1]
    parts = []
    for start, end, low, high in blocks:
        value = builder.part(queries, -2, start, end)
        whole = (low, high) == (0, columns)
        seen = keys if whole else builder.part(keys, -1, low, high)
        value = builder.node("MatMul", [value, seen])
        for number in site.scale:
            value = builder.like(number, value)
        value = builder.masked(site.mask, value, (start, end, low, high))
        value = builder.like(site.softmax, value)
        seen = values if whole else builder.part(values, -2, low, high)
        parts.append(builder.node("MatMul", [value, seen]))
    old = graph.nodes[site.result].outputs[0]
    rank = len(graph.shape(old) or ())
    new = builder.node("Concat", parts, axis=rank - 2)
    if old in graph.types:
        graph.types[new] = graph.types[old]
    graph.transfer(old, new, rename=True)
    return builder.count


class _Builder(Maker):
    """Adds nodes to a graph, and parts of those that were there."""

    def like(self, number: int, value: int) -> int:
        """Add a node like another one, reading `value` in the place of what is no constant."""
        node = self.graph.nodes[number]
        inputs = tuple(i if self.graph.is_constant(i) else value for i in node.inputs)
        return self.add(Node(node.op_type, node.domain, inputs, (), node.attributes))

    def part(self, value: int, axis: int, start: int, end: int) -> int:
        """Add a Slice; `axis` counts from the end."""
        rank = len(self.graph.shape(value) or ())
        bounds = [self.graph.add_constant(np.array([n]), NAME) for n in (start, end, rank + axis)]
        return self.node("Slice", [value, *bounds])

    def masked(self, number: int, value: int, block: Block) -> int:
        """Add the masking node for a block; constants that span it are cut."""
        start, end, low, high = block
        node = self.graph.nodes[number]
        inputs = []
        for operand in node.inputs:
            array = self.graph.constant(operand)
            if array is None:
                inputs.append(value)
            elif array.ndim >= 2 and array.shape[-2:] != (1, 1):
                cut = np.ascontiguousarray(array[..., start:end, low:high])
                inputs.append(self.graph.add_constant(cut, NAME))
            else:
                inputs.append(operand)
        return self.add(Node(node.op_type, node.domain, tuple(inputs), (), node.attributes))
