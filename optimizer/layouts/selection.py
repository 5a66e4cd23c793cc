"""A selection to start from, where values may lie in blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ..egraph.extraction.alternatives import without
from ..egraph.extraction.e_node_costs import original_selection
from ..egraph.extraction.greedy import PaidChoice, cheapest_by_parts
from ..egraph.extraction.problem import Choice, CycleError, Problem, Selection, cost_of, in_order
from .blocked_costs import REORDERS
from .blocking import Blocking


def first_selection(
    problem: Problem, blocking: Blocking, others: Sequence[Selection] = ()
) -> Selection:
    """The cheapest of the model's own, of `others`, and of what is better by far mostly."""
    ways = [_within(problem, other) for other in others]
    ways.append(cheapest_choices(problem, blocking))
    candidates: list[Selection] = [original_selection(blocking.egraph, problem)]
    for way in ways:
        with contextlib.suppress(CycleError, KeyError):
            candidates.append({c: way[c] for c in in_order(way, problem.roots)})
    return min(candidates, key=lambda selection: cost_of(selection, selection))


def cheapest_choices(problem: Problem, blocking: Blocking) -> dict[int, Choice]:
    """Each class as cheaply as can be, where what several operators read is charged in parts.

    A value is charged to each of its readers in equal parts: what a network's layers share in one
    layout they mostly share in another. The reorders alone bear all that they need, so that no two
    of them can be chosen in a circle.
    """
    egraph = blocking.egraph
    counts = readers_of(blocking)
    names = egraph.vocabulary.operators
    ways: dict[int, list[PaidChoice]] = {}
    for class_, offered in problem.choices.items():
        ways[class_] = []
        for choice in offered:
            is_reorder = names[egraph.columns.operator(choice.node)].op_type in REORDERS
            paid = tuple((n, 1 if is_reorder else counts.get(n, 1)) for n in choice.needs)
            ways[class_].append(PaidChoice(choice, paid))
    return cheapest_by_parts(ways)


def readers_of(blocking: Blocking) -> dict[int, int]:
    """Class -> how many nodes of the model read its value, in whatever layout."""
    egraph = blocking.egraph
    counts = {egraph.find(value): max(1, len(users)) for value, users in egraph.graph.users.items()}
    for class_, layouts in blocking.values.blocked.items():
        for value in layouts.values():
            counts[egraph.find(value)] = counts.get(class_, 1)
    return counts


def _within(problem: Problem, selection: Selection) -> dict[int, Choice]:
    """The choices of the same e-nodes, at the problem's costs."""
    nodes = {choice.node for choice in selection.values()}
    within: dict[int, Choice] = {}
    for class_, offered in problem.choices.items():
        original = next((choice for choice in offered if choice.node in nodes), None)
        if original is not None:
            within[class_] = original
    return within


def narrowed(problem: Problem, selection: Selection, blocking: Blocking) -> Problem:
    """The problem of one program: a selection's e-nodes, and those that do the same in blocks.

    The model's own stay, so that there is something to start from.
    """
    nodes = {choice.node for choice in selection.values()} | set(blocking.egraph.origin)
    laid = {
        node for application in blocking.values.applications for node in application.target_nodes
    }
    made_by = blocking.egraph.made_by

    def is_left_out(node: int) -> bool:
        if node in nodes:
            return False
        sources = made_by[node].nodes if node in laid else ()
        return node not in laid or not all(s in nodes or s in laid for s in sources)

    return without(problem, is_left_out)
