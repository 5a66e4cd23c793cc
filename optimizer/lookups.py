"""Lookups in several tables, made in one table of all their rows.

Recommenders look up a row, or the sum of a few, in each of many tables, and join what they find
(Naumov et al., Deep learning recommendation model, arXiv 1906.00091, 2019). Each lookup is two or
three operators of little work; how many there are no rule can say, so this is a derivation of its
own. Joined in Concat,

    reduce(T1[ids1]), ..., reduce(Tk[idsk])   =   reduce((T1 .. Tk)[ids1 + o1 .. idsk + ok])

where o are the rows above each table; an index below zero counts from the end of its own table. An
index beyond its table is made one beyond all of them, so that it is refused as before.
tests/optimizer/test_lookups.py compares both sides; like any plan, it is compared with the
original's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ..rules import ABSENT
from .axes import given_axes
from .graph import Graph, Node
from .maker import Maker
from .rewrite import Step
from .simplify import remove_dead

NAME = "MergeLookups"
SUMMARY = "looks up rows of several tables in one table of all their rows"
REDUCTIONS = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"}
# The axis of what is looked up for one index, of three, from either end.
MIDDLE = ((1,), (-2,))
# Fewer lookups than this gain little; tables beyond this are not written anew.
LEAST_LOOKUPS, MOST_BYTES = 3, 448 << 20
_FIRST_OPSET = 11  # before, an index could not count from the end


@dataclass(frozen=True)
class Lookup:
    """One lookup: its table, its indices, how many each row has, and what reduces what they find.

    `reduction` is the number of a node, ABSENT for a single index; `kind` is what lookups that are
    merged must have in common.
    """

    gather: int
    reduction: int
    table: int
    ids: int
    count: int
    kind: tuple[object, ...]


def merge_lookups(graph: Graph) -> list[Step]:
    """Merge lookups that are joined side by side, in place."""
    if graph.opset() < _FIRST_OPSET:
        return []
    steps = []
    for number, node in list(graph.nodes.items()):
        if node.operator != "Concat" or graph.attribute(number, "axis") not in (1, -1):
            continue
        for first, lookups in _runs(graph, node):
            steps.append(_merge(graph, number, first, lookups))
            break  # the nodes have changed; another run of the same Concat is for another day
    remove_dead(graph)
    return steps


def _runs(graph: Graph, node: Node) -> Iterator[tuple[int, list[Lookup]]]:
    """Yield runs of lookups of one kind that are worth it, with the place of the first."""
    found = [_lookup(graph, value) for value in node.inputs]
    places = range(len(found))
    for kind, group in groupby(places, key=lambda at: found[at].kind if found[at] else None):  # type: ignore[union-attr]
        run = list(group)
        lookups = [lookup for at in run if (lookup := found[at]) is not None]
        if kind is None or len(lookups) < LEAST_LOOKUPS:
            continue
        tables = dict.fromkeys(lookup.table for lookup in lookups)
        if sum(graph.types[table].size_bytes or 0 for table in tables) <= MOST_BYTES:
            yield run[0], lookups


def _lookup(graph: Graph, value: int) -> Lookup | None:
    """The lookup that gives a value and nothing else reads; None where it is something else."""
    number = graph.producer.get(value)
    if number is None or graph.use_count(value) != 1:
        return None
    node, reduction = graph.nodes[number], ABSENT
    form: tuple[object, ...] = ()
    if node.operator in REDUCTIONS:
        if given_axes(graph, number) not in MIDDLE or graph.attribute(number, "keepdims") != 0:
            return None
        reduction, form = number, (node.op_type,)
        inner = graph.producer.get(node.inputs[0])
        if inner is None or graph.use_count(node.inputs[0]) != 1:
            return None
        number, node = inner, graph.nodes[inner]
    if node.operator != "Gather" or graph.attribute(number, "axis") != 0:
        return None
    table, ids = node.inputs
    rows, places = graph.types.get(table), graph.types.get(ids)
    if table not in graph.constants or ids in graph.constants or rows is None or places is None:
        return None
    if rows.shape is None or len(rows.shape) != 2 or places.shape is None:
        return None
    if len(places.shape) != (1 if reduction == ABSENT else 2):
        return None
    count = 1 if reduction == ABSENT else places.shape[1]
    if not isinstance(count, int):
        return None
    kind = (form, rows.dtype, rows.shape[1], places.dtype, count, places.shape[0])
    return Lookup(number, reduction, table, ids, count, kind)


def _merge(graph: Graph, number: int, first: int, lookups: Sequence[Lookup]) -> Step:
    """Put one lookup in the place of several inputs of a Concat."""
    names = tuple(graph.node_name(lookup.gather) for lookup in lookups)
    before = len(graph.nodes)
    made = _Maker(graph, NAME)
    tables = list(dict.fromkeys(lookup.table for lookup in lookups))
    arrays = [graph.constants[table].array() for table in tables]
    starts = dict(zip(tables, np.cumsum([0, *map(len, arrays[:-1])]), strict=True))
    rows = dict(zip(tables, map(len, arrays), strict=True))
    dtype = np.dtype(graph.types[lookups[0].ids].dtype)
    count, width, total = lookups[0].count, arrays[0].shape[1], len(lookups)

    def spread(numbers: Sequence[int]) -> int:
        return made.constant(np.repeat(np.array(numbers, dtype), count)[None])

    ids = [lookup.ids for lookup in lookups]
    if lookups[0].reduction == ABSENT:
        column = made.constant(np.array([-1, 1]))
        ids = [made.node("Reshape", (one, column)) for one in ids]
    joined = made.node("Concat", tuple(ids), axis=1)
    above = spread([int(starts[lookup.table]) for lookup in lookups])
    beyond = spread([int(starts[lookup.table] + rows[lookup.table]) for lookup in lookups])
    negative = made.node("Less", (joined, made.constant(np.array(0, dtype))))
    offset = made.node("Where", (negative, beyond, above))
    within = made.node("Add", (joined, offset))
    too_low = made.node("Less", (joined, spread([-rows[lookup.table] for lookup in lookups])))
    too_high = made.node(
        "Greater", (joined, spread([rows[lookup.table] - 1 for lookup in lookups]))
    )
    outside = made.node("Or", (too_low, too_high))
    nowhere = made.constant(np.array(sum(map(len, arrays)), dtype))
    places = made.node("Where", (outside, nowhere, within))
    whole = graph.add_constant(np.concatenate(arrays), f"{NAME}/table")
    found = made.node("Gather", (whole, places), axis=0)
    if lookups[0].reduction != ABSENT:
        apart = made.node("Reshape", (found, made.constant(np.array([0, total, count, width]))))
        found = made.reduction(lookups[0].reduction, apart)
    flat = made.node("Reshape", (found, made.constant(np.array([0, total * width]))))
    node = graph.nodes[number]
    inputs = (*node.inputs[:first], flat, *node.inputs[first + total :])
    graph.remove_node(number)
    graph.add_node(Node(node.op_type, "", inputs, node.outputs, node.attributes, name=node.name))
    remove_dead(graph)
    added = made.count
    reason = f"{total} lookups in {len(tables)} tables"
    removed = before - (len(graph.nodes) - added)
    return Step(NAME, names, removed, added, True, reason, "rounding", SUMMARY)


class _Maker(Maker):
    """Adds nodes, and reductions like those that were there."""

    def reduction(self, like: int, value: int) -> int:
        """Reduce over the indices of each lookup, spelled as another reduction is."""
        node = self.graph.nodes[like]
        if len(node.inputs) > 1 and node.inputs[1] != ABSENT:
            axes = self.constant(np.array([2]))
            return self.node(node.op_type, (value, axes), keepdims=0)
        return self.node(node.op_type, (value,), axes=[2], keepdims=0)
