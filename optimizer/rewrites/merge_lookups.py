"""Lookups in several tables, made in one table of all their rows.

Recommenders look up a row, or the sum of a few, in each of many tables, and join what they find
(Naumov et al., Deep learning recommendation model, arXiv 1906.00091, 2019). Each lookup is two or
three operators of little work. Joined in Concat,

    reduce(T1[ids1]), ..., reduce(Tk[idsk])   =   reduce((T1 .. Tk)[ids1 + o1 .. idsk + ok])

where o are the rows above each table; an index below zero counts from the end of its own table, and
one beyond its table is refused as before. The steps are rules (rules/lookup.rules), but for one: a
table is cut from a constant that holds the rows of all. Here is where that pays, and which lookups
come together. Tables that are large together are made several: the runtime takes long to read a
large tensor from a file (docs/search.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby

import numpy as np

from ...rules import ABSENT, Match, Rule, check_conditions, promise
from ...rules.compiler.match_rows import match_of_all
from ..graph.axes import explicit_axes
from ..graph.fold import fold_constants
from ..graph.graph import Graph, Node
from ..graph.maker import Maker
from ..graph.simplify import remove_dead, remove_dead_constants, share_constants
from ..match.matcher import Matcher
from ..match.rewrite import RewriteError, Step, apply_all, apply_match

# The rules, in the order in which they are applied. Of those for one form of reduction, or of
# Split, only some match.
OF_64_BITS = ("ConvertIndicesToInt64",)
APART = (
    "SplitLookup",
    "SplitSumOfLookups",
    "SplitSumOverAxesOfLookups",
    "SplitReductionOfLookups",
    "SplitReductionOverAxesOfLookups",
)
WHOLE = ("ConvertLookupToWholeTable",)
MERGED = ("MergeLookupsOfOneTable", "MergeLookupsOfOneTableInEqualParts")
REDUCED = (
    "MergeSumsOfLookups",
    "MergeReductionsOfLookups",
    "MergeReductionsOverAxesOfLookups",
    "MergeReductionsOfLookupsInEqualParts",
)
JOINED = (
    "JoinColumnsOfParts",
    "JoinColumnsOfLookups",
    "JoinPartsOfColumns",
)
JOIN = "JoinConcats"
TIDIED = (JOIN, "EliminateConcatOfOne", "EliminateConcatOfSplit")
PASS = "MergeLookups"  # what constants and steps of its own are named after
REDUCTIONS = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"}
# The axis of what is looked up for one index, of three, from either end.
MIDDLE = ((1,), (-2,))
# Fewer lookups than this gain little; a table made of several has at most so many bytes, and all
# that are written anew so many.
LEAST_LOOKUPS, MOST_TABLE_BYTES, MOST_BYTES = 3, 31 << 20, 448 << 20
_FOLD_LIMIT = 1 << 10  # bounds of tables are numbers
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


def merge_lookups(graph: Graph, rules: Sequence[Rule]) -> list[Step]:
    """Merge lookups that are joined side by side, in place, by the rules that are named here.

    Where one that is needed is not among `rules`, lookups stay as they are from there on.
    """
    if graph.opset() < _FIRST_OPSET:
        return []
    groups_of: dict[int, list[Group]] = {}
    for number, node in graph.nodes.items():
        if node.operator == "Concat" and graph.attribute(number, "axis") in (1, -1):
            # another run of the same Concat is for another day
            groups = next(filter(None, (_groups(graph, run) for run in _runs(graph, node))), None)
            if groups:
                groups_of[number] = groups
    if not groups_of:
        return []
    merging = _Merging(graph, rules)
    merging.merge(groups_of)
    remove_dead(graph)
    remove_dead_constants(graph)
    return merging.steps


def _runs(graph: Graph, node: Node) -> Iterator[list[tuple[int, Lookup]]]:
    """Yield lookups of one kind that are side by side, with their places."""
    lookups = [_lookup(graph, value) for value in node.inputs]
    for kind, run in groupby(enumerate(lookups), key=lambda item: item[1] and item[1].kind):
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


class _Merging:
    """The rules as they are applied to lookups, and the steps that were made."""

    def __init__(self, graph: Graph, rules: Sequence[Rule]) -> None:
        self.graph = graph
        self.rules = {rule.name: rule for rule in rules}
        self.steps: list[Step] = []
        self.added: set[int] = set()

    def merge(self, groups_of: Mapping[int, Sequence[Group]]) -> None:
        """Make the lookups of each group one, in the rows of all their tables.

        `groups_of` are the groups in each Concat.
        """
        if JOIN not in self.rules:
            return
        groups = [group.lookups for of in groups_of.values() for group in of]
        for concat, of in groups_of.items():
            self._put_apart(concat, of)
        group_of = {
            lookup.gather: number for number, group in enumerate(groups) for lookup in group
        }
        short = {gather for gather in group_of if self._index_type(gather) == "int32"}
        group_of = self._moved(group_of, self._replace_each(OF_64_BITS, short))
        separate = self._replace_each(APART, group_of)
        if len(separate) < len(group_of):
            return
        group_of = self._moved(group_of, separate)
        for number in range(len(groups)):
            self._cut([gather for gather, group in group_of.items() if group == number])
        group_of = self._moved(group_of, self._replace_each(WHOLE, group_of))
        remove_dead(self.graph)
        fold_constants(self.graph, _FOLD_LIMIT)
        share_constants(self.graph)
        for split in self._together(MERGED, partial(self._order, group_of)):
            self._together(REDUCED, partial(self._place, split))
        remove_dead(self.graph)
        self._join_parts()
        self._tidy()
        fold_constants(self.graph, _FOLD_LIMIT)

    # ------------------------------------------------------------------------------- steps

    def _replace_each(self, names: Sequence[str], targets: Collection[int]) -> dict[int, list[int]]:
        """Apply rules wherever they match at one of some nodes; what was added in its place."""
        new_gathers: dict[int, list[int]] = {}
        applied: dict[str, list[str]] = {}
        before = len(self.graph.nodes)
        for match in self._matches(names):
            gathers = [node for node in match.nodes.values() if node in targets]
            if gathers and gathers[0] not in new_gathers:
                name = self.graph.node_name(gathers[0])
                added = self._apply(match)
                if added is not None:
                    new_gathers[gathers[0]] = added
                    applied.setdefault(match.rule.name, []).append(name)
        for rule, nodes in applied.items():
            self._note(self.rules[rule], nodes, before)
        return new_gathers

    def _together(
        self, names: Sequence[str], order: Callable[[Match], tuple[int, ...] | None]
    ) -> list[int]:
        """Apply rules of any number of nodes to those that have a place; the Splits added.

        What has places that begin alike comes together, in their order.
        """
        splits: list[int] = []
        merging = Matcher([self.rules[name] for name in names if name in self.rules])
        for rule, rule_matches in merging.groups(self.graph):
            placed = sorted(
                ((place, match) for match in rule_matches if (place := order(match)) is not None),
                key=lambda pair: pair[0],
            )
            for _, group in groupby(placed, key=lambda pair: pair[0][:-1]):
                matches = [match for _, match in group]
                whole = match_of_all(rule, matches)
                if len(matches) < 2 or check_conditions(whole, self.graph) is not None:
                    continue
                nodes = [self.graph.node_name(max(match.nodes.values())) for match in matches]
                before = len(self.graph.nodes)
                added = self._apply(whole)
                if added is not None:
                    self._note(rule, nodes, before)
                    splits.append(added[-1])
        return splits

    def _join_parts(self) -> None:
        """Join what was made of neighbouring parts before it is joined with all else."""
        before, nodes = len(self.graph.nodes), []
        for number in self.added & self.graph.nodes.keys():
            node = self.graph.nodes[number]
            if node.operator == "Concat" and not self.graph.is_constant(node.inputs[0]):
                self._take_pairwise(number, node)
        while match := next(filter(self._is_of_one_split, self._matches(JOINED)), None):
            name = self.graph.node_name(match.nodes["Y"])
            if self._apply(match) is None:
                break
            nodes.append((match.rule.name, name))
        for rule in dict.fromkeys(rule for rule, _ in nodes):
            self._note(self.rules[rule], [name for of, name in nodes if of == rule], before)

    def _tidy(self) -> None:
        refused: set[tuple[str, tuple[int, ...]]] = set()
        steps = self.steps
        while steps:
            remove_dead(self.graph)  # what else reads a value keeps it from being joined
            steps = apply_all(self.graph, self._matches(TIDIED), refused)
            self.steps += steps

    def _matches(self, names: Sequence[str]) -> list[Match]:
        return Matcher([self.rules[name] for name in names if name in self.rules]).find(self.graph)

    def _apply(self, match: Match) -> list[int] | None:
        """Apply a match; the nodes added, or None where it is refused."""
        try:
            added, _ = apply_match(self.graph, match)
        except RewriteError:
            return None
        self.added |= set(added)
        return added

    def _note(self, rule: Rule, nodes: Sequence[str], before: int) -> None:
        added = len(self.graph.nodes) - before
        reason = f"{len(nodes)} places"
        self.steps.append(
            Step(rule.name, tuple(nodes), max(-added, 0), max(added, 0), True, reason,
                 promise(rule), rule.summary)
        )  # fmt: skip

    # ------------------------------------------------------------------------------ places

    def _index_type(self, gather: int) -> str | None:
        return self.graph.dtype(self.graph.nodes[gather].inputs[1])

    def _moved(
        self, group_of: Mapping[int, int], new_gathers: Mapping[int, Sequence[int]]
    ) -> dict[int, int]:
        """The groups of the Gathers that have taken the place of others, in the same order."""
        nodes = self.graph.nodes
        moved = {}
        for gather, group in group_of.items():
            heirs = [
                node for node in new_gathers.get(gather, ()) if nodes[node].operator == "Gather"
            ]
            moved[heirs[0] if heirs else gather] = group
        return moved

    def _put_apart(self, concat: int, groups: Sequence[Group]) -> None:
        """Join what groups find by itself first: JoinConcats says that it makes no difference."""
        graph, rule = self.graph, self.rules[JOIN]
        node, maker = graph.nodes[concat], Maker(graph, JOIN)
        inputs = list(node.inputs)
        for group in reversed(groups):
            place = slice(group.place, group.place + len(group.lookups))
            inputs[place] = [self._pairwise(maker, inputs[place])]
        graph.remove_node(concat)
        graph.put_node(concat, replace(node, inputs=tuple(inputs)))
        names, kept = (graph.node_name(concat),), promise(rule)
        reason = "the other way round"
        self.steps.append(Step(rule.name, names, 0, maker.count, True, reason, kept, rule.summary))

    def _take_pairwise(self, number: int, node: Node) -> None:
        maker = Maker(self.graph, JOIN)
        *values, last = node.inputs
        if len(values) > 1:
            self.graph.remove_node(number)
            first = self._pairwise(maker, values)
            self.graph.put_node(number, replace(node, inputs=(first, last)))

    def _pairwise(self, maker: Maker, values: Sequence[int]) -> int:
        """Join values along the second axis, two at a time."""
        whole, *rest = values
        for value in rest:
            whole = maker.node("Concat", (whole, value), axis=1)
        return whole

    def _cut(self, gathers: Sequence[int]) -> None:
        """Cut the tables of some Gathers from one constant with the rows of all."""
        graph, maker = self.graph, Maker(self.graph, "join constants")
        tables = list(dict.fromkeys(graph.nodes[gather].inputs[0] for gather in gathers))
        arrays = [graph.constants[table].array() for table in tables]
        ends = dict(zip(tables, accumulate(map(len, arrays)), strict=True))
        rows = tables[0]
        if len(tables) > 1:
            rows = graph.add_constant(np.concatenate(arrays), f"{PASS}/table")
        for gather in gathers:
            node = graph.nodes[gather]
            table, end = node.inputs[0], ends[node.inputs[0]]
            bounds = (end - len(graph.constants[table].array()), end, 0)
            cut = maker.node("Slice", (rows, *(maker.constant(np.array([n])) for n in bounds)))
            graph.remove_node(gather)
            graph.put_node(gather, replace(node, inputs=(cut, *node.inputs[1:])))
        reason = f"{len(tables)} tables are rows of one"
        self.steps.append(Step("join constants", (), 0, maker.count, True, reason))

    def _order(self, group_of: Mapping[int, int], match: Match) -> tuple[int, ...] | None:
        """The group of a lookup and its place there."""
        gather = next((node for node in match.nodes.values() if node in group_of), None)
        return None if gather is None else (group_of[gather], list(group_of).index(gather))

    def _place(self, split: int, match: Match) -> tuple[int, ...] | None:
        """The place of what is reduced among the parts of a Split."""
        part = match.values["X"]
        if self.graph.producer.get(part) != split:
            return None
        return (split, self.graph.nodes[split].outputs.index(part))

    def _is_of_one_split(self, match: Match) -> bool:
        """Whether a match joins parts that were made of what was taken apart here."""
        if not {match.nodes["P"], match.nodes["Q"]} <= self.added:
            return False
        if match.rule.name.endswith("PartsOfColumns"):
            return True
        return self._split_of(match.values["A"]) == self._split_of(match.values["B"])

    def _split_of(self, value: int) -> int | None:
        """The Split of whose parts a value is made, if it is of one."""
        number = self.graph.producer.get(value)
        if number is None or number not in self.added:
            return None
        node = self.graph.nodes[number]
        return self._split_of(node.inputs[0]) if node.operator == "Concat" else number
