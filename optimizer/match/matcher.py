"""Where rules match in a graph: the relations that stand for it joined by the rules' clauses.

In e-graphs, whose relations grow, the same clauses are joined by egraph/saturation/e_matching.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...rules import Match, Rule, check_conditions, match_of
from ...rules.compiler.match_rows import match_groups, match_of_all
from ...rules.language.repetition import gathers
from ..graph.graph import Graph
from .clauses import graph_clauses, rule_clauses, rule_facts
from .joins import Tables
from .relations import fact_columns


class Matcher:
    """Rules that find their matches in any graph."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)

    def find(self, graph: Graph) -> list[Match]:
        """List the matches whose conditions hold, in a deterministic order.

        Only rules whose operators all occur in the graph are looked at.
        """
        matches: list[Match] = []
        for rule, rows in self._rows(graph):
            if gathers(rule):
                rows = [match_of_all(rule, group) for group in match_groups(rule, rows, graph)]
            matches += [match for match in rows if check_conditions(match, graph) is None]
        return matches

    def groups(self, graph: Graph) -> list[tuple[Rule, list[Match]]]:
        """List what rules that gather any number of nodes may gather, as matches at single nodes.

        Any of a group may be put together by `match_of_all`.
        """
        return [
            (rule, group)
            for rule, rows in self._rows(graph)
            if gathers(rule)
            for group in match_groups(rule, rows, graph)
        ]

    def _rows(self, graph: Graph) -> Iterator[tuple[Rule, list[Match]]]:
        """Yield for each rule what Datalog finds, before all conditions are checked."""
        rules = with_present_operators(self.rules, graph)
        if rules:
            tables = tables_of(graph, rules, {})
            for rule, clauses in rule_clauses(rules, uses=True).items():
                yield rule, [match_of(rule, row) for row in clauses.rows(tables, None)]


def count_matches(rules: Sequence[Rule], graph: Graph) -> Counter[str]:
    """Count the matches of rules in a graph, by their names."""
    return Counter(match.rule.name for match in Matcher(rules).find(graph))


def tables_of(graph: Graph, rules: Sequence[Rule], symbols: dict[str, int]) -> Tables:
    """What holds for a graph, and what rules state; `symbols` takes up the texts, numbered."""
    relations = fact_columns(graph, symbols)
    relations |= rule_facts(rules, lambda text: symbols.setdefault(text, len(symbols)))
    return Tables(relations, graph_clauses(), symbols)


def with_present_operators(rules: Sequence[Rule], graph: Graph) -> tuple[Rule, ...]:
    """Keep the rules for whose every node some operator of the graph would do."""
    present = {node.operator for node in graph.nodes.values()}
    return tuple(
        rule for rule in rules if all(present & set(node.operators) for node in rule.match)
    )
