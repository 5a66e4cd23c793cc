"""Attention as one kernel: softmax(f(Q K)) V, f being whatever elementwise lies between.

Blocks of queries go through at a time, so that their scores stay in the cache (Dao et al. 2022 do
the same on another kind of memory). Where f ends in adding a mask, or in choosing by one, panels of
keys that contribute exactly nothing to a block are left out: those whose mask is so far below the
row's largest that exp gives 0 whatever the product is, by Cauchy and Schwarz's bound of it. So
nothing needs to be known of the mask beforehand; a causal one halves the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..configurations.attention_configuration import ChosenAttention, specialised
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    flushes,
    label_of,
    named,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Extent, Map, axis_by_long_axis, loop
from ..loops.cells import Access
from ..loops.elementwise_chain import ElementwiseChain, by_loops, cells_of
from ..loops.kernel_region import Meanings, read_by
from ..regions.region_candidates import AttentionCandidate, candidates
from .attention_operator import spelled
from .attention_text import attention_text
from .mask import is_masked

# Products and sums that are worth a task of their own.
GRAIN = 1 << 21


def attentions(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find attentions that one kernel computes, in order of the graph."""
    whole = spelled(meanings, allowed)
    if not whole.parts:
        return _matched(meanings, allowed)
    value_count = len(meanings.graph.names)
    attention_kernels: list[RegionKernel] = []
    for matched in _matched(Meanings(whole.graph), {*allowed, *whole.parts}):
        nodes = whole.model_nodes(matched.region.nodes)
        if nodes is not None and all(value < value_count for value in matched.kernel.inputs):
            read = read_by(meanings.graph, nodes)
            attention_kernels.append(
                RegionKernel(replace(matched.region, nodes=nodes, inputs=read), matched.kernel)
            )
    return attention_kernels


def _matched(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    matches = candidates(meanings).attentions

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        match = matches[number]
        if free.issuperset({match.scores, match.product, *match.chain, *match.behind}):
            yield partial(_lowered, meanings, match, free)

    return disjoint_kernels(matches, allowed, attempts)


# ------------------------------------------------------------------------------------ lowering


@dataclass(frozen=True)
class _Operand:
    """A tensor, where it is read by the attention's loops, and the moves that led there."""

    value: int
    place: Map
    nodes: frozenset[int]


def _lowered(
    meanings: Meanings, match: AttentionCandidate, allowed: Collection[int]
) -> RegionKernel:
    graph = meanings.graph
    first, second = graph.nodes[match.scores], graph.nodes[match.product]
    scores = meanings.shape(first.outputs[0])
    scaling = match.scales & set(allowed)
    query, scales = _unscaled(meanings, first.inputs[0], scaling)
    key, others = _unscaled(meanings, first.inputs[1], scaling)
    value, scales = second.inputs[1], scales | others
    rank = len(scores)
    batch = rank - 2
    depth, width = meanings.shape(query)[-1], meanings.shape(value)[-1]
    extents: tuple[Extent, ...] = (*scores, depth, width)
    i, j, d, e = batch, batch + 1, batch + 2, batch + 3
    if 0 in extents:
        raise LoweringError("nothing to attend to")
    outer = tuple(range(batch))
    inner = frozenset({match.scores, match.product, *scales})
    places = ((query, (*outer, i, d)), (key, (*outer, d, j)), (value, (*outer, j, e)))
    moving = [nodes & set(allowed) for nodes in match.moves]
    operands = _operands(meanings, places, extents, moving, inner)
    chain = meanings.in_order(match.chain)
    between = graph.nodes[match.softmax].inputs[0]
    written = ElementwiseChain(meanings, chain, first.outputs[0], between, scores, scores)
    accesses = [Access(operand.value, operand.place, "float32") for operand in operands]
    accesses += written.loads
    inputs = tuple(dict.fromkeys(access.value for access in accesses))
    last = match.turned_after & set(allowed)
    output, place, last = _result(meanings, match.product, (*outer, i, e), last)
    moved = frozenset[int]().union(*(operand.nodes for operand in operands))
    covered = {*match.chain, *inner, match.softmax, *match.behind, *moved, *last}
    nodes = meanings.in_order(covered)
    result = [(meanings.shape(output), place)]
    shapes = shapes_of(meanings, inputs, extents, result, accesses=accesses)
    scale = math.prod(scales.values(), start=1.0)
    text = attention_text(extents, accesses, inputs, written, scale, bool(match.behind))
    names = label_of(meanings, (n for n in nodes if n not in moved))
    kernel = Kernel(
        f"Attention{names}"[:60],
        text,
        shapes,
        inputs,
        (output,),
        grain=GRAIN,
        arrange="arrange_attention",
        support="attention.h",
        skips=is_masked(written),
        flushes=flushes(meanings, chain),
    )
    return region_kernel(meanings, nodes, kernel, "attention", space=scores, reduced=1)


def configured(attention: RegionKernel, chosen: ChosenAttention) -> RegionKernel:
    """Return an attention that was found by default in another configuration."""
    kernel, block = attention.kernel, chosen.configuration.block
    text = specialised(kernel.text.replace(f"run_{kernel.name}", "NAME"), chosen)
    again = replace(kernel, name="", text=text, configuration=chosen)
    if block:
        again = replace(again, arrange="arrange_attention_by", columns=(block,))
    return RegionKernel(attention.region, named(again))


def _unscaled(
    meanings: Meanings, value: int, scaling: Collection[int]
) -> tuple[int, dict[int, float]]:
    """Return what is multiplied by numbers before a product, and the nodes that do so.

    The kernel multiplies keys once, where they are packed.
    """
    graph = meanings.graph
    factors: dict[int, float] = {}
    while (producer := graph.producer.get(value)) in scaling:
        assert producer is not None
        node = graph.nodes[producer]
        numbers = [meanings.scalar(input_) for input_ in node.inputs]
        position = 0 if numbers[1] is not None else 1
        number = float(numbers[1 - position] or 0)
        factors[producer] = number if node.op_type == "Mul" else 1 / number
        value = node.inputs[position]
    return value, factors


def _operands(
    meanings: Meanings,
    places: Iterable[tuple[int, tuple[int, ...]]],
    extents: tuple[Extent, ...],
    moving: Sequence[Collection[int]],
    inside: frozenset[int],
) -> list[_Operand]:
    """Follow the operands back through what only moves their elements, and is read by them alone.

    They may be parts of one tensor, cut from it in any way. `moving` are such nodes of each.
    """
    graph, places = meanings.graph, tuple(places)
    optional = [set(nodes) for nodes in moving]
    while True:
        operands = [
            _operand(meanings, value, loops, extents, nodes)
            for (value, loops), nodes in zip(places, optional, strict=True)
        ]
        nodes = inside.union(*(operand.nodes for operand in operands))
        needed = {number for number in nodes - inside if _users(graph, number) - nodes}
        if not needed:
            return operands
        optional = [nodes - needed for nodes in optional]


def _operand(
    meanings: Meanings,
    value: int,
    loops: tuple[int, ...],
    extents: tuple[Extent, ...],
    moving: Collection[int],
) -> _Operand:
    """Follow an operand back through what only moves its elements."""
    graph = meanings.graph
    shape = meanings.shape(value)
    loops = loops[len(loops) - len(shape) :]
    for axis, number in enumerate(loops):
        if shape[axis] not in (1, extents[number]):
            raise LoweringError("operands of an attention that don't fit")
    best = _Operand(value, by_loops(axis_by_long_axis(shape), shape, loops), frozenset())
    nodes: list[int] = []
    current = value
    while (producer := graph.producer.get(current)) in moving:
        assert producer is not None
        nodes.insert(0, producer)
        try:
            cells = cells_of(meanings, tuple(nodes), value, shape)
        except LoweringError:
            return best
        if len(cells.accesses) != 1:
            return best
        (access,) = cells.accesses
        best = _Operand(access.value, by_loops(access.map, shape, loops), frozenset(nodes))
        current = access.value
    return best


def _users(graph: Graph, number: int) -> set[int]:
    return {user for value in graph.nodes[number].outputs for user in graph.users.get(value, ())}


def _result(
    meanings: Meanings, product: int, loops: tuple[int, ...], turning: Collection[int]
) -> tuple[int, Map, frozenset[int]]:
    """Return the output, which loop each of its axes is, and a transposition that it includes."""
    graph = meanings.graph
    for number in turning:
        order = graph.attribute(number, "perm")
        if isinstance(order, tuple):
            loops = tuple(loops[axis] for axis in order)
            moved = graph.nodes[number].outputs[0]
            return moved, _whole(loops), frozenset({number})
    return graph.nodes[product].outputs[0], _whole(loops), frozenset()


def _whole(loops: tuple[int, ...]) -> Map:
    return tuple(map(loop, loops))
