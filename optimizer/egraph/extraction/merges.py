"""Merges that give several outputs at once: lazy best-first search from the plan taken out.

Saturation would pair everything that shares an operand with everything else (`pairs_neighbours`
tells such rules from others of several outputs, which it applies). Here a candidate is
a parent, a match in what it selects, and an estimate of the cost it leads to; it is made when it
is the most promising one left, and only then are its kernels measured.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ....rules import Match, Rule, check_conditions, match_of
from ...deadline import checkpoint
from ..congruence import NONE
from ..egraph import EGraph
from ..provenance import Application
from ..saturation.application import apply_matches
from ..saturation.e_matching import ANY, Patterns, operators_in, reachable
from ..saturation.egraph_view import View
from .e_node_costs import UNUSABLE, Costs, free_classes
from .problem import Choice, CycleError, Selection, cost_of, in_order

# Candidates that are made; how much dearer than the best one they may be to lead on, and how many
# that gain nothing may: looking for matches takes longer than making a candidate.
POPS, SLACK, DETOURS = 40, 1.02, 2
Signature = tuple[str, tuple[str, ...]]
# The rows of rules that were looked at, None for those whose conditions don't hold.
Memo = dict[tuple[str, tuple[int, ...]], Match | None]


@dataclass(frozen=True)
class _State:
    """A program: what is selected, and what that costs."""

    selection: dict[int, Choice]
    cost: float


@dataclass
class MergeResult:
    """The best program found, the matches that were applied, and how many candidates were made.

    `untried` are matches that no candidate was made of, since none promised to be cheaper.
    """

    selection: dict[int, Choice]
    cost: float
    applications: list[Application]
    candidates: int
    untried: list[Match]


def merge(
    egraph: EGraph,
    rules: Sequence[Rule],
    costs: Costs,
    selection: Selection,
    pops: int = POPS,
) -> MergeResult:
    """Apply rules of several outputs to a selection as long as that leads to cheaper programs."""
    chosen = reachable([rule for rule in rules if len(rule.outputs) > 1], operators_in(egraph))
    start = _State(dict(selection), cost_of(selection, selection))
    search = _Search(egraph, chosen, costs, start)
    if chosen:
        search.run(start, pops)
    best = _State(canonical(egraph, costs, search.best.selection), search.best.cost)
    return MergeResult(
        best.selection, best.cost, search.applications, search.candidates, search.untried
    )


@cache
def pairs_neighbours(rule: Rule) -> bool:
    """Whether nodes of a rule's left side stand side by side: they share operands at most.

    Of n alike there are as many matches as pairs, and what these make pairs anew.
    """
    part = {node.name: node.name for node in rule.match}
    givers = {output.value: node.name for node in rule.match for output in node.outputs}

    def part_of(name: str) -> str:
        while part[name] != name:
            name = part[name]
        return name

    for node in rule.match:
        for item in node.inputs:
            if item.value in givers:
                part[part_of(node.name)] = part_of(givers[item.value])
    return len({part_of(name) for name in part}) > 1


def merge_everywhere(
    egraph: EGraph,
    rules: Sequence[Rule],
    costs: Costs,
    selection: Selection,
    operators: Collection[str],
) -> list[Application]:
    """Apply rules of several outputs wherever they match in a selection; at most POPS matches.

    Only rules about one of the operators, and whatever it costs: it is for a choice that is still
    to come to decide.
    """
    several = [rule for rule in rules if len(rule.outputs) > 1]
    chosen = [
        rule
        for rule in reachable(several, operators_in(egraph))
        if any(set(node.operators) & set(operators) for node in rule.match)
    ]
    if not chosen:
        return []
    matches = matches_in(egraph, Patterns(egraph, chosen), _selected(egraph, costs, selection))
    return [
        application
        for application in apply_matches(egraph, matches[:POPS])
        if not application.refusal
    ]


def matches_in(
    egraph: EGraph, patterns: Patterns, nodes: Collection[int], memo: Memo | None = None
) -> list[Match]:
    """The matches of rules among some e-nodes, those that have come to equal others by these.

    `memo` keeps what was found, for the next time.
    """
    current = np.unique(egraph.columns.current(np.array(sorted(nodes), np.int64)))
    view = View(egraph)
    tables = patterns.tables(current)
    memo = {} if memo is None else memo
    matches: list[Match] = []
    for rule, rows in patterns.rows(tables, dict.fromkeys(patterns.rules, ANY)):
        for row in rows:
            if (rule.name, row) not in memo:
                match = match_of(rule, row)
                fits = check_conditions(match, view) is None
                memo[rule.name, row] = match if fits else None
            if (match_ := memo[rule.name, row]) is not None:
                matches.append(match_)
    return matches


def signature(match: Match, costs: Costs) -> Signature:
    """What a match has in common with those that are alike: its rule, and the kernels it takes."""
    kernels = (costs.kernel(node) for node in match.nodes.values())
    return match.rule.name, tuple("" if k is None else k.hash for k in kernels)


def _selected(egraph: EGraph, costs: Costs, selection: Selection) -> set[int]:
    return {choice.node for choice in canonical(egraph, costs, selection).values()}


class _Search:
    def __init__(
        self,
        egraph: EGraph,
        rules: tuple[Rule, ...],
        costs: Costs,
        start: _State,
    ) -> None:
        self.egraph, self.costs, self.rules = egraph, costs, rules
        self.patterns = Patterns(egraph, rules)
        self.best = start
        self.applications: list[Application] = []
        self.candidates = self.tickets = 0
        self.detours = DETOURS
        # What a match of a rule on nodes of these kernels was found to gain.
        self.gains: dict[Signature, float] = {}
        self.queue: list[tuple[float, int, _State, tuple[Match, ...]]] = []
        self.seen: set[frozenset[int]] = set()
        self.queued: dict[tuple[str, tuple[int, ...]], Match] = {}
        self.tried: set[tuple[str, tuple[int, ...]]] = set()
        self.memo: Memo = {}

    @property
    def untried(self) -> list[Match]:
        """The matches that were seen and not tried."""
        return [match for key, match in self.queued.items() if key not in self.tried]

    def run(self, start: _State, pops: int) -> None:
        """Make the most promising candidate and queue what it leads to, until none promises."""
        self._expand(start)
        while self.queue and self.candidates < pops:
            checkpoint()
            promised, _, parent, matches = heapq.heappop(self.queue)
            if promised > SLACK * self.best.cost:
                break
            estimate = self._estimate(parent, matches)
            if estimate > promised:  # its like was made in the meantime
                self._push(parent, matches)
                continue
            self.candidates += 1
            self.tried.update(map(_place, matches))
            state = self._make(parent, matches)
            if len(matches) == 1:
                gain = -math.inf if state is None else parent.cost - state.cost
                self.gains[signature(matches[0], self.costs)] = gain
            if state is None:
                continue
            nodes = frozenset(choice.node for choice in state.selection.values())
            if nodes in self.seen:
                continue
            self.seen.add(nodes)
            if state.cost < self.best.cost:
                self.best = state
                self._expand(state)
            elif state.cost <= SLACK * self.best.cost and self.detours:
                self.detours -= 1
                self._expand(state)

    def _expand(self, state: _State) -> None:
        """Queue each match on its own, and together all those known to gain that don't overlap."""
        matches = self._matches(state)
        for match in matches:
            self.queued.setdefault(_place(match), match)
            self._push(state, (match,))
        together: list[Match] = []
        taken: set[int] = set()
        for match in sorted(matches, key=lambda m: -self.gains.get(signature(m, self.costs), 0.0)):
            nodes = set(match.nodes.values())
            if self.gains.get(signature(match, self.costs), 0.0) > 0 and not nodes & taken:
                together.append(match)
                taken |= nodes
        if len(together) > 1:
            self._push(state, tuple(together))

    def _push(self, parent: _State, matches: tuple[Match, ...]) -> None:
        estimate = self._estimate(parent, matches)
        if estimate <= SLACK * self.best.cost:
            self.tickets += 1  # ties go to what was queued first
            heapq.heappush(self.queue, (estimate, self.tickets, parent, matches))

    def _estimate(self, parent: _State, matches: tuple[Match, ...]) -> float:
        """The cost that matches lead to; where nothing is known, as if the new nodes were free."""
        total = parent.cost
        for match in matches:
            gain = self.gains.get(signature(match, self.costs))
            if gain is None:
                gain = sum(self.costs(node) for node in set(match.nodes.values()))
            total -= gain
        return total

    def _matches(self, state: _State) -> list[Match]:
        selected = _selected(self.egraph, self.costs, state.selection)
        return matches_in(self.egraph, self.patterns, selected, self.memo)

    # --------------------------------------------------------------------------- candidates

    def _make(self, parent: _State, matches: tuple[Match, ...]) -> _State | None:
        """Apply matches and select what they made; None where that gives no usable program."""
        applied = [a for a in apply_matches(self.egraph, matches) if not a.refusal]
        if not applied:
            return None
        self.applications += applied
        selection = canonical(self.egraph, self.costs, parent.selection)
        new_nodes = _current(
            self.egraph, [node for application in applied for node in application.target_nodes]
        )
        self.costs.measure(new_nodes)
        ends = {self.egraph.find(old) for a in applied for old, _ in a.united}
        free = free_classes(self.egraph)
        for node in new_nodes:
            choice = choice_of(self.egraph, self.costs, node, free)
            for class_ in self.egraph.columns.outputs(node):
                if class_ != NONE and (class_ in ends or class_ not in selection):
                    selection[class_] = choice
        try:
            order = in_order(selection, self._roots(free))
        except (CycleError, KeyError):
            return None
        selection = {class_: selection[class_] for class_ in order}
        cost = cost_of(selection, order)
        return _State(selection, cost) if cost < UNUSABLE else None

    def _roots(self, free: set[int]) -> list[int]:
        roots = dict.fromkeys(self.egraph.find(value) for value in self.egraph.graph.graph_outputs)
        return [class_ for class_ in roots if class_ not in free]


def _place(match: Match) -> tuple[str, tuple[int, ...]]:
    return match.rule.name, tuple(match.nodes.values())


def canonical(egraph: EGraph, costs: Costs, selection: Selection) -> dict[int, Choice]:
    """A selection in terms of the classes and e-nodes that there are now."""
    free = free_classes(egraph)
    columns = egraph.columns
    leaders = columns.leaders
    gone = free.union(np.flatnonzero(leaders != np.arange(len(leaders))).tolist())
    dead = set(columns.dead().tolist())
    canonical_choices: dict[int, Choice] = {}
    for class_, choice in selection.items():
        leader = columns.find(class_)
        if leader in free:
            continue
        if choice.node in dead or not gone.isdisjoint(choice.needs):
            (node,) = _current(egraph, [choice.node])
            choice = choice_of(egraph, costs, node, free)
        canonical_choices.setdefault(leader, choice)
    return canonical_choices


def choice_of(egraph: EGraph, costs: Costs, node: int, free: set[int]) -> Choice:
    """An e-node as a choice: its cost, and the classes it needs beside those that are free."""
    operands = egraph.columns.operands(node)
    needs = dict.fromkeys(value for value in operands if value != NONE and value not in free)
    return Choice(node, costs(node), tuple(needs))


def _current(egraph: EGraph, nodes: Sequence[int]) -> list[int]:
    """E-nodes, each once, in the place of each dead one the living one that it equals."""
    return list(dict.fromkeys(egraph.columns.current(np.array(nodes, np.int64)).tolist()))
