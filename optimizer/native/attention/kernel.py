"""Attention as one kernel: softmax(f(Q K)) V, f being whatever elementwise lies between.

Blocks of queries go through at a time, so that their scores stay in the cache (Dao et al. 2022 do
the same on another kind of memory). Where f ends in adding a mask, or in choosing by one, panels of
keys that contribute exactly nothing to a block are left out: those whose mask is so far below the
row's largest that exp gives 0 whatever the product is, by Cauchy and Schwarz's bound of it. So
nothing needs to be known of the mask beforehand; a causal one halves the work.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..configurations.attention_configuration import ChosenAttention
from ..grow import RegionKernel
from ..loops.affine import Extent, Map, loop
from ..loops.cells import Access
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.lower import MOST_AXES, MOST_LOOPS, Kernel, flushes, label, named, shapes_of
from ..regions.region_facts import MOVES, PICKS
from .operator import spelled
from .text import Between, attention_text, moves, own_place, renamed

# Products and sums that are worth a task of their own.
GRAIN = 1 << 21
# Numbers that keys may be multiplied by, so that products of two are none too large or small.
LEAST_SCALE = 1e-15


@dataclass(frozen=True)
class Match:
    """The nodes of an attention: two products, a softmax, and what is elementwise between.

    `behind` are those that put 0 for NaN after the softmax: exporters add them for rows that are
    masked everywhere.
    """

    scores: int
    chain: frozenset[int]
    softmax: int
    product: int
    behind: frozenset[int] = frozenset()


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
    attention_kernels: list[RegionKernel] = []
    for number in meanings.graph.order():
        match = _match(meanings, number, allowed)
        if match is not None:
            try:
                attention_kernels.append(_lowered(meanings, match, allowed))
            except LoweringError:
                continue
    return attention_kernels


# ------------------------------------------------------------------------------------ matching


def _match(meanings: Meanings, softmax: int, allowed: Collection[int]) -> Match | None:
    graph = meanings.graph
    node = graph.nodes[softmax]
    if node.operator != "Softmax" or softmax not in allowed or not meanings.has(softmax):
        return None
    shape = graph.shape(node.inputs[0])
    if shape is None or graph.opset() < 13 or not meanings.is_full(softmax):
        return None
    if graph.attribute(softmax, "axis") not in (-1, len(shape) - 1):
        return None
    weights, behind = _without_nan(meanings, node.outputs[0])
    product = _only_user(meanings, weights)
    if product is None or graph.nodes[product].operator != "MatMul":
        return None
    if graph.nodes[product].inputs[0] != weights or not {product, *behind} <= set(allowed):
        return None
    chain: set[int] = set()
    scores: int | None = None
    waiting = [node.inputs[0]]
    inside = {softmax}
    while waiting:
        value = waiting.pop()
        producer = graph.producer.get(value)
        if producer is None or producer not in allowed or graph.shape(value) != shape:
            continue
        if graph.is_pinned(value) or graph.users[value] - inside:
            continue
        if graph.nodes[producer].operator == "MatMul":
            if scores is not None and scores != producer:
                return None
            scores = producer
        elif (
            meanings.kind(producer) == "elementwise"
            and meanings.has(producer)
            and meanings.is_full(producer)
        ):
            chain.add(producer)
            inside.add(producer)
            waiting += graph.nodes[producer].inputs
    if scores is None or len(graph.shape(graph.nodes[product].outputs[0]) or ()) != len(shape):
        return None
    return Match(scores, frozenset(chain), softmax, product, behind)


def _without_nan(meanings: Meanings, value: int) -> tuple[int, frozenset[int]]:
    """Return what a value becomes where 0 stands for NaN in it, and the nodes that do that."""
    graph = meanings.graph
    users = sorted(graph.users.get(value, ()), key=lambda n: graph.nodes[n].operator)
    if [graph.nodes[n].operator for n in users] != ["IsNaN", "Where"] or graph.is_pinned(value):
        return value, frozenset()
    asks, puts = users
    (told,), (made,) = graph.nodes[asks].outputs, graph.nodes[puts].outputs
    condition, then, otherwise = graph.nodes[puts].inputs
    is_read_here = graph.users[told] == {puts} and not graph.is_pinned(told)
    if not is_read_here or condition != told or otherwise != value or meanings.scalar(then) != 0:
        return value, frozenset()
    return (
        (made, frozenset(users))
        if graph.shape(made) == graph.shape(value)
        else (value, frozenset())
    )


def _only_user(meanings: Meanings, value: int) -> int | None:
    graph = meanings.graph
    users = graph.users.get(value, set())
    return next(iter(users)) if len(users) == 1 and not graph.is_pinned(value) else None


# ------------------------------------------------------------------------------------ lowering


@dataclass(frozen=True)
class _Operand:
    """A tensor, where it is read by the attention's loops, and the moves that led there."""

    value: int
    place: Map
    nodes: frozenset[int]


def _lowered(meanings: Meanings, match: Match, allowed: Collection[int]) -> RegionKernel:
    graph = meanings.graph
    first, second = graph.nodes[match.scores], graph.nodes[match.product]
    scores = meanings.shape(first.outputs[0])
    query, scales = _unscaled(meanings, first.inputs[0], match.scores, allowed)
    key, others = _unscaled(meanings, first.inputs[1], match.scores, allowed)
    value, scales = second.inputs[1], scales | others
    rank = len(scores)
    batch = rank - 2
    depth, width = meanings.shape(query)[-1], meanings.shape(value)[-1]
    extents: tuple[Extent, ...] = (*scores, depth, width)
    i, j, d, e = batch, batch + 1, batch + 2, batch + 3
    if len(extents) > MOST_LOOPS or rank > MOST_AXES or 0 in extents:
        raise LoweringError("too many axes")
    outer = tuple(range(batch))
    inner = frozenset({match.scores, match.product, *scales})
    places = ((query, (*outer, i, d)), (key, (*outer, d, j)), (value, (*outer, j, e)))
    operands = _operands(meanings, places, extents, inner, allowed)
    chain = tuple(n for n in graph.order() if n in match.chain)
    between = graph.nodes[match.softmax].inputs[0]
    written = Between(meanings, chain, first.outputs[0], between, scores)
    accesses = [Access(operand.value, operand.place, "float32") for operand in operands]
    accesses += written.loads
    inputs = tuple(dict.fromkeys(access.value for access in accesses))
    output, place, last = _result(meanings, match.product, (*outer, i, e), allowed)
    moved = frozenset[int]().union(*(operand.nodes for operand in operands))
    covered = {*match.chain, *inner, match.softmax, *match.behind, *moved, *last}
    nodes = tuple(n for n in graph.order() if n in covered)
    outputs = ((meanings.shape(output), place),)
    shapes = shapes_of(meanings, inputs, extents, outputs, accesses=accesses)
    scale = math.prod(scales.values(), start=1.0)
    text = attention_text(extents, accesses, inputs, written, scale, bool(match.behind))
    region = Region(nodes, read_by(meanings.graph, nodes), (output,), scores, 1)
    names = label([graph.nodes[n].op_type for n in nodes if n not in moved])
    kernel = Kernel(
        "",
        f"Attention{names}"[:60],
        text,
        shapes,
        inputs,
        (output,),
        grain=GRAIN,
        arrange="arrange_attention",
        support="attention.h",
        skips=written.is_masked,
        flushes=flushes(meanings, chain),
    )
    return RegionKernel(region, named(kernel))


def configured(attention: RegionKernel, chosen: ChosenAttention) -> RegionKernel:
    """Return an attention that was found by default in another configuration."""
    kernel, block = attention.kernel, chosen.configuration.block
    text = chosen.specialised(kernel.text.replace(f"run_{kernel.name}", "NAME"))
    again = replace(kernel, name="", text=text, configuration=chosen)
    if block:
        again = replace(again, arrange="arrange_attention_by", columns=(block,))
    return RegionKernel(attention.region, named(again))


def _unscaled(
    meanings: Meanings, value: int, reader: int, allowed: Collection[int]
) -> tuple[int, dict[int, float]]:
    """Return what is multiplied by numbers before a product, and the nodes that do so.

    The kernel multiplies keys once, where they are packed.
    """
    graph = meanings.graph
    factors: dict[int, float] = {}
    while True:
        producer = graph.producer.get(value)
        if producer is None or producer not in allowed or graph.is_pinned(value):
            return value, factors
        node = graph.nodes[producer]
        if node.operator not in ("Mul", "Div") or graph.users[value] != {reader}:
            return value, factors
        numbers = [meanings.scalar(input_) for input_ in node.inputs]
        at = 0 if numbers[1] is not None else 1
        number = numbers[1 - at]
        if number is None or not LEAST_SCALE < abs(number) < 1 / LEAST_SCALE:
            return value, factors
        if (at == 1 and node.op_type == "Div") or graph.shape(node.inputs[at]) != graph.shape(
            value
        ):
            return value, factors
        factors[producer] = float(number) if node.op_type == "Mul" else 1 / float(number)
        value, reader = node.inputs[at], producer


def _operands(
    meanings: Meanings,
    places: Iterable[tuple[int, tuple[int, ...]]],
    extents: tuple[Extent, ...],
    inside: frozenset[int],
    allowed: Collection[int],
) -> list[_Operand]:
    """Follow the operands back through what only moves their elements, and is read by them alone.

    They may be parts of one tensor, cut from it in any way.
    """
    graph, left, places = meanings.graph, set(allowed), tuple(places)
    while True:
        found = [_operand(meanings, value, loops, extents, left) for value, loops in places]
        nodes = inside.union(*(one.nodes for one in found))
        needed = {number for number in nodes - inside if _users(graph, number) - nodes}
        if not needed:
            return found
        left -= needed


def _operand(
    meanings: Meanings,
    value: int,
    loops: tuple[int, ...],
    extents: tuple[Extent, ...],
    allowed: Collection[int],
) -> _Operand:
    """Follow an operand back through what only moves its elements."""
    graph = meanings.graph
    shape = meanings.shape(value)
    loops = loops[len(loops) - len(shape) :]
    for axis, number in enumerate(loops):
        if shape[axis] not in (1, extents[number]):
            raise LoweringError("operands of an attention that don't fit")
    best = _Operand(value, renamed(own_place(shape), shape, loops), frozenset())
    nodes: list[int] = []
    current = value
    while True:
        producer = graph.producer.get(current)
        if producer is None or producer not in allowed:
            return best
        node = graph.nodes[producer]
        if node.operator not in {*MOVES, PICKS} or not meanings.has(producer):
            return best
        if any(map(graph.is_pinned, node.outputs)):
            return best
        nodes.insert(0, producer)
        try:
            cells = moves(meanings, tuple(nodes), value, shape)
        except LoweringError:
            return best
        if len(cells.accesses) != 1:
            return best
        (access,) = cells.accesses
        best = _Operand(access.value, renamed(access.map, shape, loops), frozenset(nodes))
        current = access.value


def _users(graph: Graph, number: int) -> set[int]:
    return {user for value in graph.nodes[number].outputs for user in graph.users.get(value, ())}


def _result(
    meanings: Meanings, product: int, loops: tuple[int, ...], allowed: Collection[int]
) -> tuple[int, Map, frozenset[int]]:
    """Return the output, which loop each of its axes is, and a transposition that it includes."""
    graph = meanings.graph
    value = graph.nodes[product].outputs[0]
    user = _only_user(meanings, value)
    if user in allowed and user is not None and graph.nodes[user].operator == "Transpose":
        order = graph.attribute(user, "perm")
        if isinstance(order, tuple):
            loops = tuple(loops[axis] for axis in order)
            moved = graph.nodes[user].outputs[0]
            return moved, _whole(loops), frozenset({user})
    return value, _whole(loops), frozenset()


def _whole(loops: tuple[int, ...]) -> Map:
    return tuple(map(loop, loops))
