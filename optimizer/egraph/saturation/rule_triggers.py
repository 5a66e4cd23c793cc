"""Which rules may have new matches: those whose operators follow one another somewhere anew.

A cheap necessary condition, so that few rules are evaluated; Datalog says where they match.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....rules import Rule
from ..egraph import EGraph

Operators = tuple[str, ...]


@cache
def links(rule: Rule) -> tuple[tuple[Operators, Operators], ...]:
    """The operators of pattern nodes where one reads what the other gives, reader first."""
    givers = {output.value: node for node in rule.match for output in node.outputs}
    return tuple(
        (node.operators, givers[item.value].operators)
        for node in rule.match
        for item in node.inputs
        if item.value in givers
    )


class RuleTriggers:
    """When operators, and pairs of them that follow one another, last appeared or changed."""

    def __init__(self, egraph: EGraph) -> None:
        columns = egraph.columns
        names = [op.name for op in egraph.vocabulary.operators]
        living = columns.living()
        operators = np.zeros(columns.size, np.int64)
        operators[living] = columns.operators_of(living)
        stamps = np.zeros(columns.size, np.int64)
        stamps[living] = columns.stamps_of(living)
        self._single = {
            names[number]: latest
            for number, latest in _latest(operators[living], stamps[living]).items()
        }
        readers, _, read = columns.reads(living)
        givers, _, results = columns.gives(living)
        order = np.argsort(results, kind="stable")
        results, givers = results[order], givers[order]
        first = np.searchsorted(results, read, "left")
        counts = np.searchsorted(results, read, "right") - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) + np.repeat(first - (ends - counts), counts)
        above, below = np.repeat(readers, counts), givers[places]
        pairs = operators[above] * len(names) + operators[below]
        self._pairs = {
            (names[pair // len(names)], names[pair % len(names)]): latest
            for pair, latest in _latest(pairs, np.maximum(stamps[above], stamps[below])).items()
        }

    def may_match_anew(self, rule: Rule, since: int) -> bool:
        """Whether a rule may match, and may match something that changed at `since` or later."""
        latest = -1
        for node in rule.match:
            latest_of_operators = [self._single[op] for op in node.operators if op in self._single]
            if not latest_of_operators:
                return False
            latest = max(latest, *latest_of_operators)
        pairs = links(rule)
        if len(pairs) >= len(rule.match) - 1 and pairs:
            latest = -1
        for above, below in pairs:
            latest_of_operators = [
                self._pairs[a, b] for a in above for b in below if (a, b) in self._pairs
            ]
            if not latest_of_operators:
                return False
            latest = max(latest, *latest_of_operators)
        return latest >= since


def _latest(keys: np.ndarray, stamps: np.ndarray) -> dict[int, int]:
    """Key -> its latest stamp."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    latest = np.full(len(distinct), -1, np.int64)
    np.maximum.at(latest, inverse, stamps)
    return dict(zip(distinct.tolist(), latest.tolist(), strict=True))
