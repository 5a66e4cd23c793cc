"""Near misses in a graph: the places where all conditions of a rule hold but one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...rules import (
    Match,
    Rule,
    is_reported,
    match_of,
    misses_among,
    near_match_of,
    why_missed,
)
from ...rules.compiler.compile import remainder
from ..graph.graph import Graph
from ..match.clauses import near_clauses, rule_clauses
from ..match.joins import Tables
from ..match.matcher import tables_of, with_present_operators
from .reasons import CONDITION, Reason


def near_misses(rules: Sequence[Rule], graph: Graph) -> list[Reason]:
    """List the places in a graph where all conditions of a rule hold but one."""
    possible = [rule for rule in with_present_operators(rules, graph) if is_reported(rule)]
    if not possible:
        return []
    tables = tables_of(graph, possible, {})
    return [
        Reason(
            rule.name,
            tuple(graph.node_name(number) for number in miss.match.nodes.values()),
            CONDITION,
            why_missed(miss, graph),
            condition=str(miss.condition),
        )
        for rule, clauses in rule_clauses(possible, uses=True).items()
        if clauses.may_match(tables)
        for miss in misses_among(rule, _candidates(rule, tables), graph)
    ]


def _candidates(rule: Rule, tables: Tables) -> Iterator[Match]:
    """Yield the matches of which conditions are left to Python, then the near matches."""
    clauses = near_clauses(rule)
    tables.define(clauses)

    def read(kind: str, match: Callable[[Rule, tuple[int, ...]], Match]) -> Iterator[Match]:
        name = f"{kind}_{rule.name}"
        if name in clauses:
            columns = [column.tolist() for column in tables.rows(name)]
            yield from (match(rule, row) for row in sorted(zip(*columns, strict=True)))

    if remainder(rule):
        yield from read("match", match_of)
    yield from read("nearly", near_match_of)
