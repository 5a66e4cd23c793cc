"""Where rules match in an e-graph: derived by Datalog from the clauses that match in any graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import duckdb
import numpy as np

from ...catalog.datalog import Program, evaluate, parse
from ...rules import Match, Rule, check_conditions, matches
from ...rules.clause import clause_of
from ...rules.compile import default_facts, graph_relations
from ...rules.conditions import UsedOnlyHere
from .egraph import EGraph
from .facts import load_facts
from .places import Places
from .view import View


@lru_cache(maxsize=64)
def program_of(rules: tuple[Rule, ...]) -> Program:
    """Compile rules for e-graphs, once a process.

    That an interior value has no other user is left out: a rewrite takes nothing away here, and
    whether it pays is for the costs to say.
    """
    parts = [graph_relations(), default_facts(rules)]
    for rule in rules:
        clause = clause_of(rule)
        kept = [part for part in clause.parts if not isinstance(part.condition, UsedOnlyHere)]
        parts.append(f"{replace(clause, parts=kept).text()}\n.output match_{rule.name}\n")
    return parse("\n".join(parts), "rules in an e-graph")


@dataclass
class _Ration:
    """How many matches a rule may have a round, and until which round it pauses."""

    most: int
    paused_until: int = 0


class EMatcher:
    """Rules, compiled once, that find matches which were not there before.

    A rule with more new matches in a round than its ration has the first of them taken, pauses,
    and comes back with twice the ration (egg's backoff scheduler).
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, rules: Sequence[Rule], most: int = 1000
    ) -> None:
        self.connection, self.rules = connection, tuple(rules)
        self._program = program_of(self.rules)
        self._rations = {rule.name: _Ration(most) for rule in rules}
        self._seen: set[tuple[str, tuple[int, ...]]] = set()
        self._asked: dict[str, int] = {rule.name: 0 for rule in rules}
        self.found = 0

    @property
    def is_paused(self) -> bool:
        """Whether a rule waits with matches that were not taken."""
        return any(ration.paused_until for ration in self._rations.values())

    def find(self, egraph: EGraph, round_: int) -> list[Match]:
        """List the new matches whose conditions hold, in a deterministic order."""
        due = self._due(egraph, round_)
        if not due:
            return []
        relations = evaluate(
            self._program,
            self.connection,
            inputs=load_facts(self.connection, egraph, egraph.columns.living()),
            only=[f"match_{rule.name}" for rule in due],
        )
        view = View(egraph)
        found: list[Match] = []
        filled = _filled(self.connection, self._program, due)
        for rule in due:
            self._asked[rule.name] = egraph.columns.now
            if rule.name not in filled:
                continue
            found += self._rationed(rule, self._new(rule, matches(rule, relations), view), round_)
        self.found += len(found)
        return found

    def _due(self, egraph: EGraph, round_: int) -> list[Rule]:
        """The rules that may have new matches since their last turn, or had some left over."""
        places = Places(egraph)
        due = []
        for rule in self.rules:
            ration, since = self._rations[rule.name], self._asked[rule.name]
            if ration.paused_until > round_:
                continue
            paused, ration.paused_until = bool(ration.paused_until), 0
            if places.has_news(rule, -1 if paused else since):
                due.append(rule)
        return due

    def _new(self, rule: Rule, found: Sequence[Match], view: View) -> Iterator[Match]:
        for match in found:
            key = (rule.name, (*match.nodes.values(), *match.values.values()))
            if key in self._seen:
                continue
            self._seen.add(key)
            if check_conditions(match, view) is None:
                yield match

    def _rationed(self, rule: Rule, found: Iterator[Match], round_: int) -> list[Match]:
        ration = self._rations[rule.name]
        taken: list[Match] = []
        for match in found:
            if len(taken) == ration.most:
                self._seen.discard((rule.name, (*match.nodes.values(), *match.values.values())))
                ration.most *= 2
                ration.paused_until = round_ + 2
                break
            taken.append(match)
        return taken


def _filled(
    connection: duckdb.DuckDBPyConnection, program: Program, rules: Sequence[Rule]
) -> set[str]:
    """The names of the rules whose match relation has rows: one query instead of one each."""
    sizes = dict(
        connection.execute(
            "SELECT table_name, estimated_size FROM duckdb_tables() WHERE temporary"
        ).fetchall()
    )
    tables = {rule.name: program.relations[f"match_{rule.name}"].table for rule in rules}
    return {name for name, table in tables.items() if sizes.get(table, 1)}


def reachable(rules: Sequence[Rule], operators: Collection[str]) -> tuple[Rule, ...]:
    """The rules that may match where these operators occur, or what other rules make of them.

    A smaller program is compiled in less time.
    """
    present = set(operators)
    while True:
        chosen = tuple(r for r in rules if all(present & set(n.operators) for n in r.match))
        made = {op for rule in chosen for node in rule.rewrite for op in node.operators}
        if made <= present:
            return chosen
        present |= made


def operators_in(egraph: EGraph) -> set[str]:
    """The names of the operators of the living e-nodes."""
    numbers = np.unique(egraph.columns.operators_of(egraph.columns.living())).tolist()
    return {egraph.vocabulary.operators[number].name for number in numbers}
