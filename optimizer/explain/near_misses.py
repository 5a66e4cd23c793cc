"""Near misses in a graph: the places where all conditions of a rule hold but one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...catalog.datalog.language.syntax import String
from ...rules import Rule, is_reported, why_missed
from ...rules import near_misses as read_near_misses
from ..graph.graph import Graph
from ..match.clauses import near_clauses, readings
from ..match.matcher import tables_of, with_present_operators
from .reasons import CONDITION, Reason


def near_misses(rules: Sequence[Rule], graph: Graph) -> list[Reason]:
    """List the places in a graph where all conditions of a rule hold but one."""
    possible = [rule for rule in with_present_operators(rules, graph) if is_reported(rule)]
    if not possible:
        return []
    relations = _Nearly(possible, graph)
    return [
        Reason(
            miss.rule.name,
            tuple(graph.node_name(number) for number in miss.match.nodes.values()),
            CONDITION,
            why_missed(miss.rule, miss.condition, miss.match, graph),
            condition=miss.condition,
        )
        for miss in read_near_misses(relations.rules, relations, graph)
    ]


class _Nearly(Mapping[str, "_Rows"]):
    """The relations that near misses are read from, for the rules whose structure occurs."""

    def __init__(self, rules: Sequence[Rule], graph: Graph) -> None:
        self.symbols: dict[str, int] = {}
        self.tables = tables_of(graph, rules, self.symbols)
        self.rules = [
            rule
            for rule, reading in readings(rules, uses=True).items()
            if reading.may_match(self.tables)
        ]
        self.names: list[str] = []
        for rule in self.rules:
            clauses = near_clauses(rule)
            self.tables.define(clauses)
            self.names += clauses
            for conjunction in clauses.get(f"nearly_{rule.name}", ()):
                for term in conjunction.head:
                    if isinstance(term, String):
                        self.symbols.setdefault(term.value, len(self.symbols))

    def __getitem__(self, name: str) -> _Rows:
        columns = [column.tolist() for column in self.tables.rows(name)]
        if name.startswith("nearly_") and columns:
            texts = list(self.symbols)
            columns[0] = [texts[number] for number in columns[0]]
        return _Rows(list(zip(*columns, strict=True)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class _Rows:
    rows: list[tuple[Any, ...]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows
