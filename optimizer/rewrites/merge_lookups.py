"""Lookups in several tables, made in one table of all their rows.

Recommenders look up a row, or the sum of a few, in each of many tables, and join what they find
(Naumov et al., Deep learning recommendation model, arXiv 1906.00091, 2019). Each lookup is two or
three operators of little work; how many there are no rule can say, so this is a derivation of its
own. Joined in Concat,

    reduce(T1[ids1]), ..., reduce(Tk[idsk])   =   reduce((T1 .. Tk)[ids1 + o1 .. idsk + ok])

where o are the rows above each table; an index below zero counts from the end of its own table. An
index beyond its table is made one beyond all of them, so that it is refused as before. Tables that
are large together are made several: the runtime takes long to read a large tensor from a file
(docs/search.md). tests/optimizer/rewrites/test_merge_lookups.py compares both sides; like any
plan, it is compared with the original's outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np

from ...rules import ABSENT
from ..graph.axes import explicit_axes
from ..graph.graph import Graph, Node
from ..graph.maker import Maker
from ..graph.simplify import remove_dead
from ..match.rewrite import Step

NAME = "MergeLookups"
SUMMARY = "looks up rows of several tables in one table of all their rows"
REDUCTIONS = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"}
# The axis of what is looked up for one index, of three, from either end.
MIDDLE = ((1,), (-2,))
# Fewer lookups than this gain little; a table made of several has at most so many bytes, and all
# that are written anew so many.
LEAST_LOOKUPS, MOST_TABLE_BYTES, MOST_BYTES = 3, 31 << 20, 448 << 20
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


@dataclass(frozen=True)
class Group:
    """Lookups side by side whose tables become one, and the place of the first in their Concat."""

    place: int
    lookups: list[Lookup]


def merge_lookups(graph: Graph) -> list[Step]:
    """Merge lookups that are joined side by side, in place."""
    if graph.opset() < _FIRST_OPSET:
        return []
    steps = []
    for number, node in list(graph.nodes.items()):
        if node.operator != "Concat" or graph.attribute(number, "axis") not in (1, -1):
            continue
        for run in _runs(graph, node):
            if groups := _groups(graph, run):
                steps.append(_merge(graph, number, groups))
                break  # the nodes have changed; another run of the same Concat is for another day
    remove_dead(graph)
    return steps


def _runs(graph: Graph, node: Node) -> Iterator[list[tuple[int, Lookup]]]:
    """Yield lookups of one kind that are side by side, with their places."""
    lookups_of_node = [_lookup(graph, value) for value in node.inputs]
    for kind, run in groupby(enumerate(lookups_of_node), key=lambda each: each[1] and each[1].kind):
        if kind is not None:
            yield [(place, lookup) for place, lookup in run if lookup is not None]


def _groups(graph: Graph, run: Sequence[tuple[int, Lookup]]) -> list[Group]:
    """Cut a run into lookups whose tables become one each, where that is worth it."""
    groups: list[Group] = []
    for place, lookup in run:
        if groups and _bytes(graph, [*groups[-1].lookups, lookup]) <= MOST_TABLE_BYTES:
            groups[-1].lookups.append(lookup)
        else:
            groups.append(Group(place, [lookup]))
    groups = [group for group in groups if len(group.lookups) >= LEAST_LOOKUPS]
    written = accumulate(_bytes(graph, group.lookups) for group in groups)
    return [group for group, size in zip(groups, written, strict=True) if size <= MOST_BYTES]


def _bytes(graph: Graph, lookups: Sequence[Lookup]) -> int:
    """Add up the bytes of the tables of several lookups."""
    tables = {lookup.table for lookup in lookups}
    return sum(graph.types[table].size_bytes or 0 for table in tables)


def _lookup(graph: Graph, value: int) -> Lookup | None:
    """The lookup that gives a value and nothing else reads; None where it is something else."""
    number = graph.producer.get(value)
    if number is None or graph.use_count(value) != 1:
        return None
    node, reduction = graph.nodes[number], ABSENT
    form: tuple[object, ...] = ()
    if node.operator in REDUCTIONS:
        if explicit_axes(graph, number) not in MIDDLE or graph.attribute(number, "keepdims") != 0:
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


def _merge(graph: Graph, number: int, groups: Sequence[Group]) -> Step:
    """Put one lookup in the place of several inputs of a Concat, for each group of them."""
    lookups = [lookup for group in groups for lookup in group.lookups]
    names = tuple(graph.node_name(lookup.gather) for lookup in lookups)
    before, node = len(graph.nodes), graph.nodes[number]
    made, count = _Maker(graph, NAME), lookups[0].count
    tables = [_Table(graph, group.lookups) for group in groups]
    places = _places(made, lookups, tables)
    inputs, end = list(node.inputs), len(lookups)
    for group, table in reversed(list(zip(groups, tables, strict=True))):
        total, width = len(group.lookups), table.rows.shape[1]
        table_rows = (
            made.columns(places, (end - total) * count, end * count) if groups[1:] else places
        )
        gathered = made.node(
            "Gather", (graph.add_constant(table.rows, f"{NAME}/table"), table_rows), axis=0
        )
        if lookups[0].reduction != ABSENT:
            separate = made.node(
                "Reshape", (gathered, made.constant(np.array([0, total, count, width])))
            )
            gathered = made.reduction(lookups[0].reduction, separate)
        flat = made.node("Reshape", (gathered, made.constant(np.array([0, total * width]))))
        inputs[group.place : group.place + total] = [flat]
        end -= total
    graph.remove_node(number)
    graph.add_node(Node("Concat", "", tuple(inputs), node.outputs, node.attributes, name=node.name))
    remove_dead(graph)
    added = made.count
    reason = f"{len(lookups)} lookups, in {len(tables)} made of their tables"
    removed = before - (len(graph.nodes) - added)
    return Step(NAME, names, removed, added, True, reason, "rounding", SUMMARY)


def _places(made: _Maker, lookups: Sequence[Lookup], tables: Sequence[_Table]) -> int:
    """Return the rows that indices of several lookups, side by side, find in the new tables."""
    graph, count, ids = made.graph, lookups[0].count, [lookup.ids for lookup in lookups]
    dtype = np.dtype(graph.types[ids[0]].dtype)

    def spread(numbers: Iterable[int]) -> int:
        return made.constant(np.repeat(np.array(list(numbers), dtype), count)[None])

    if lookups[0].reduction == ABSENT:
        column = made.constant(np.array([-1, 1]))
        ids = [made.node("Reshape", (indices, column)) for indices in ids]
    joined = made.node("Concat", tuple(ids), axis=1)
    rows = [size for table in tables for size in table.counts]
    above = [start for table in tables for start in table.starts]
    beyond = spread(start + size for start, size in zip(above, rows, strict=True))
    negative = made.node("Less", (joined, made.constant(np.array(0, dtype))))
    within = made.node("Add", (joined, made.node("Where", (negative, beyond, spread(above)))))
    too_low = made.node("Less", (joined, spread(-size for size in rows)))
    too_high = made.node("Greater", (joined, spread(size - 1 for size in rows)))
    outside = made.node("Or", (too_low, too_high))
    nowhere = spread(len(table.rows) for table in tables for _ in table.starts)
    return made.node("Where", (outside, nowhere, within))


class _Table:
    """All rows of the tables of several lookups; where those of each start, and how many it has."""

    def __init__(self, graph: Graph, lookups: Sequence[Lookup]) -> None:
        tables = list(dict.fromkeys(lookup.table for lookup in lookups))
        arrays = [graph.constants[table].array() for table in tables]
        self.rows = np.concatenate(arrays)
        counts = dict(zip(tables, map(len, arrays), strict=True))
        starts = dict(zip(tables, accumulate(map(len, arrays[:-1]), initial=0), strict=True))
        self.starts = [starts[lookup.table] for lookup in lookups]
        self.counts = [counts[lookup.table] for lookup in lookups]


class _Maker(Maker):
    """Adds nodes, columns of a matrix, and reductions like those that were there."""

    def columns(self, matrix: int, start: int, end: int) -> int:
        """Cut columns from a matrix."""
        bounds = [self.constant(np.array([number])) for number in (start, end, 1)]
        return self.node("Slice", (matrix, *bounds))

    def reduction(self, like: int, value: int) -> int:
        """Reduce over the indices of each lookup, spelled as another reduction is."""
        node = self.graph.nodes[like]
        if len(node.inputs) > 1 and node.inputs[1] != ABSENT:
            axes = self.constant(np.array([2]))
            return self.node(node.op_type, (value, axes), keepdims=0)
        return self.node(node.op_type, (value,), axes=[2], keepdims=0)
