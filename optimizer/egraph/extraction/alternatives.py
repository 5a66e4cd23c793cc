"""The next best plans: each the cheapest one without some of the rules that a better one uses.

Swapping one e-node of thousands gives plans that no clock can tell apart. What a prediction gets
wrong is a rule: what its kernels cost beside others, or a pattern that it hides from the runtime.
So plans are told apart by the rules they use, and the space of plans is cut as Lawler does
(Management Science 18, 1972): a plan that uses n rules has n heirs, each the cheapest plan without
one of them; the cheapest plan that nobody listed yet is the next best, and has heirs of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

from .extract import Extraction, extract
from .problem import Problem, Selection

# Classes of all problems solved together: what this takes grows with the model no further.
MOST_CLASSES = 60_000

RuleOf = Callable[[int], str]


@dataclass(frozen=True)
class Alternative:
    """A plan, and the rules that it had to do without."""

    without: tuple[str, ...]
    extraction: Extraction


def alternatives(
    problem: Problem,
    original: Selection,
    best: Extraction,
    rule_of: RuleOf,
    count: int,
    steps: int,
) -> list[Alternative]:
    """List up to `count` plans after the best one, by cost; all of them cheaper than `own`.

    `rule_of` names the rule that made an e-node, "" for the model's own.
    """
    limit = sum({choice.node: choice.cost for choice in original.values()}.values())
    extractions = MOST_CLASSES // max(1, len(problem.choices))
    listed = {_nodes(best.selection), _nodes(original)}
    asked: set[frozenset[str]] = set()
    queue: list[tuple[float, int, frozenset[str], Extraction]] = []
    next_best: list[Alternative] = []
    parent, forbidden = best, frozenset[str]()
    while len(next_best) < count:
        for rule in _rules(parent.selection, rule_of):
            heir = forbidden | {rule}
            if heir in asked or len(asked) >= extractions:
                continue
            asked.add(heir)
            remaining = without(problem, lambda node, heir=heir: rule_of(node) in heir)  # type: ignore[misc]
            extraction = extract(remaining, original, steps)
            if extraction.cost < limit:
                heapq.heappush(queue, (extraction.cost, len(asked), heir, extraction))
        while queue:
            _, _, forbidden, parent = heapq.heappop(queue)
            if _nodes(parent.selection) not in listed:
                break
        else:
            break
        listed.add(_nodes(parent.selection))
        next_best.append(Alternative(tuple(sorted(forbidden)), parent))
    return next_best


def without(problem: Problem, is_forbidden: Callable[[int], bool]) -> Problem:
    """The problem without some of the e-nodes."""
    nodes = {choice.node for offered in problem.choices.values() for choice in offered}
    gone = {node for node in nodes if is_forbidden(node)}
    choices = {
        class_: tuple(choice for choice in offered if choice.node not in gone)
        for class_, offered in problem.choices.items()
    }
    return replace(problem, choices=choices)


def _rules(selection: Selection, rule_of: RuleOf) -> list[str]:
    """The rules that a plan uses."""
    return sorted({rule_of(choice.node) for choice in selection.values()} - {""})


def _nodes(selection: Selection) -> frozenset[int]:
    return frozenset(choice.node for choice in selection.values())
