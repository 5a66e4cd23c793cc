"""Where rules match in an e-graph: derived by Datalog from the clauses that match in any graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ....catalog.terms.syntax_tree import Expression, ListOf, Literal, Unary, walk
from ....rules import Match, Rule, check_conditions, match_of
from ....rules.compiler.compile import columns
from ....rules.language.conditions import HasAttribute, IsLiteral, conditions
from ...deadline import checkpoint
from ...match.arrays import Ints
from ...match.clauses import Row, graph_clauses, rule_clauses, rule_facts
from ...match.joins import Tables
from ..egraph import EGraph
from .egraph_view import View
from .facts import Facts
from .rule_triggers import RuleTriggers

ANY = -1  # since when a rule is asked for matches, if it is for all there are
# Of the bindings that a join of a rule's left side leads to in a round, and of the matches whose
# conditions are checked for each one that a rule may have, those beyond are left for later rounds.
MOST_BINDINGS, MOST_CHECKED = 400_000, 20


class Patterns:
    """The left sides of rules, to be found among any e-nodes of one e-graph.

    Unless `distinct`, two nodes of a pattern may be one e-node.
    """

    def __init__(self, egraph: EGraph, rules: Sequence[Rule], *, distinct: bool = True) -> None:
        self.egraph, self.rules, self.distinct = egraph, tuple(rules), distinct
        self.facts = Facts(egraph, as_written=any(map(_counts_from_the_end, self.rules)))
        self._rule_facts = rule_facts(self.rules, self.facts.symbol)

    def tables(self, nodes: Ints) -> Tables:
        """What holds for some e-nodes."""
        relations = {**self.facts.of(nodes), **self._rule_facts}
        return Tables(relations, graph_clauses(), self.facts.symbols)

    def rows(
        self, tables: Tables, rules_since: Mapping[Rule, int], most: int | None = None
    ) -> Iterator[tuple[Rule, list[Row]]]:
        """For each rule that is asked for, the matches of which a part changed since then.

        With `most`, joins are cut there: `tables.was_cut` tells of the rule that was yielded.
        """
        columns = self.egraph.columns
        stamps = np.zeros(columns.size, np.int64)
        living = columns.living()
        stamps[living] = columns.stamps_of(living)
        clauses_of = rule_clauses(rules_since, uses=False, distinct=self.distinct)
        for rule, since in rules_since.items():
            tables.was_cut = False
            yield (
                rule,
                clauses_of[rule].rows(tables, None if since == ANY else stamps >= since, most),
            )


@dataclass
class _Ration:
    """How many matches a rule may have a round, and until which round it pauses."""

    most: int
    paused_until: int = 0


class EMatcher:
    """Rules that find matches which were not there before.

    A rule with more new matches in a round than its ration has the first of them taken, pauses,
    and comes back with twice the ration (egg's backoff scheduler). So does a rule of which more
    candidates than `MOST_CHECKED` times the ration were looked at; it is `capped`, as is one whose
    left side has more than `bindings` partial matches, of which the first are looked at.
    """

    def __init__(
        self,
        egraph: EGraph,
        rules: Sequence[Rule],
        most: int = 1000,
        bindings: int = MOST_BINDINGS,
        *,
        distinct: bool = True,
    ) -> None:
        self.egraph, self.rules, self.bindings = egraph, tuple(rules), bindings
        self._patterns = Patterns(egraph, self.rules, distinct=distinct)
        self._rations = {rule.name: _Ration(most) for rule in rules}
        self._seen: set[tuple[str, Row]] = set()
        self._failed: set[tuple[str, Row]] = set()
        self._asked: dict[str, int] = {rule.name: ANY for rule in rules}
        self._capped: dict[str, None] = {}

    @property
    def capped(self) -> tuple[str, ...]:
        """The rules of which some round looked at a part of what it could have looked at."""
        return tuple(self._capped)

    @property
    def paused(self) -> tuple[str, ...]:
        """The rules that wait with matches that were not taken."""
        return tuple(name for name, ration in self._rations.items() if ration.paused_until)

    def find(self, round_: int, is_over: Callable[[], bool] = lambda: False) -> list[Match]:
        """List the new matches whose conditions hold, in a deterministic order.

        When `is_over`, rules that are not asked yet are asked in the next round.
        """
        due = self._due(round_)
        if not due:
            return []
        tables = self._patterns.tables(self.egraph.columns.living())
        view = View(self.egraph)
        matches: list[Match] = []
        for rule, rows in self._patterns.rows(tables, due, self.bindings):
            checkpoint()
            self._asked[rule.name] = self.egraph.columns.now
            if tables.was_cut:
                self._capped[rule.name] = None
            matches += self._rationed(rule, rows, view, round_)
            if is_over():
                break
        return matches

    def _due(self, round_: int) -> dict[Rule, int]:
        """The rules that may have new matches since their last turn, or had some left over."""
        places = RuleTriggers(self.egraph)
        due: dict[Rule, int] = {}
        for rule in self.rules:
            ration, since = self._rations[rule.name], self._asked[rule.name]
            if ration.paused_until > round_:
                continue
            if ration.paused_until:
                ration.paused_until, since = 0, ANY
            if places.may_match_anew(rule, since):
                due[rule] = since
        return due

    def _rationed(self, rule: Rule, rows: list[Row], view: View, round_: int) -> list[Match]:
        ration = self._rations[rule.name]
        identity = sum(column[:2] in ("n_", "v_") for column in columns(rule))
        taken: list[Match] = []
        checked = 0
        for row in rows:
            key = (rule.name, row[:identity])
            if key in self._seen or (rule.name, row) in self._failed:
                continue
            if checked == MOST_CHECKED * ration.most:
                self._capped[rule.name] = None
                ration.most *= 2
                ration.paused_until = round_ + 2
                break
            checked += 1
            match = match_of(rule, row)
            if check_conditions(match, view) is not None:  # another spelling of it may fit
                self._failed.add((rule.name, row))
                continue
            if len(taken) == ration.most:
                ration.most *= 2
                ration.paused_until = round_ + 2
                break
            self._seen.add(key)
            taken.append(match)
        return taken


@cache
def _counts_from_the_end(rule: Rule) -> bool:
    """Whether a rule's left side has a negative number in the place of an attribute or a list.

    Axes are counted from the front in an e-graph: such a rule is shown the other spellings, too.
    """
    written: list[Expression] = []
    for condition in conditions(rule):
        if isinstance(condition, HasAttribute):
            written.append(condition.expression)
        elif isinstance(condition, IsLiteral) and isinstance(condition.literal, ListOf):
            written.append(condition.literal)
    return any(
        (isinstance(part, Unary) and part.operator == "-")
        or (isinstance(part, Literal) and isinstance(part.value, int) and part.value < 0)
        for expression in written
        for part in walk(expression)
    )


def reachable(rules: Sequence[Rule], operators: Collection[str]) -> tuple[Rule, ...]:
    """The rules that may match where these operators occur, or what other rules make of them."""
    present = set(operators)
    while True:
        chosen = tuple(r for r in rules if all(present & set(n.operators) for n in r.match))
        produced = {
            op
            for rule in chosen
            for node in (*rule.rewrite, *rule.correct)
            for op in node.operators
        }
        if produced <= present:
            return chosen
        present |= produced


def operators_in(egraph: EGraph) -> set[str]:
    """The names of the operators of the living e-nodes."""
    numbers = np.unique(egraph.columns.operators_of(egraph.columns.living())).tolist()
    return {egraph.vocabulary.operators[number].name for number in numbers}
