"""Kernels of the runtime that take in what stands beside an operator, in one more plan.

The runtime's own optimizer makes most of them, of whatever plan it is given. A plan that names them
hides the operators that they stand for: from layouts, from fused kernels, from what else the
runtime's optimizer looks for. So rules that name them come when all other plans are taken out, and
lead to one plan more: the cheapest one, with such kernels where they are measured to cost less than
what they stand for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....rules import Match, Rule
from ...price import Progress
from ..congruence import NONE
from ..egraph import EGraph
from ..provenance import Application
from ..saturation.application import apply_matches
from ..saturation.e_matching import Patterns, operators_in, reachable
from .e_node_costs import UNUSABLE, Costs, free_classes
from .extract import extract
from .merges import Signature, canonical, choice_of, matches_in, signature
from .problem import Choice, Problem, Selection

# Of the time left for measuring, the share that such kernels may have.
SHARE = 0.5


@dataclass(frozen=True)
class NamedPlan:
    """A plan with such kernels: what is selected, its cost, the matches, and the e-nodes made."""

    selection: Selection
    cost: float
    applications: list[Application]
    new_nodes: list[int]


def name_kernels(
    egraph: EGraph,
    rules: Sequence[Rule],
    costs: Costs,
    start: Selection,
    steps: int,
    progress: Progress | None,
) -> NamedPlan:
    """Find the cheapest plan by naming kernels; it costs what `start` does where none of them pays.

    They stand for what `start` selects. Of those that are alike one is made, and the others where
    it costs less than all that it stands for. What was made is to be withheld from any other plan;
    what the budget left unmeasured is no part of this one.
    """
    egraph.columns.now += 1
    selection = canonical(egraph, costs, start)
    applications = _applied(egraph, rules, costs, selection, progress)
    kernels = [
        n
        for application in applications
        for n in application.target_nodes
        if egraph.made_by.get(n) is application
    ]
    selection = canonical(egraph, costs, selection)
    choices: dict[int, tuple[Choice, ...]] = {c: (choice,) for c, choice in selection.items()}
    free = free_classes(egraph)
    for node in kernels:
        choice = choice_of(egraph, costs, node, free)
        for class_ in egraph.columns.outputs(node) if choice.cost < UNUSABLE else ():
            if class_ in choices:
                choices[class_] += (choice,)
    roots = dict.fromkeys(egraph.find(value) for value in egraph.graph.graph_outputs)
    problem = Problem(choices, tuple(root for root in roots if root in choices))
    extraction = extract(problem, selection, steps)
    return NamedPlan(extraction.selection, extraction.cost, applications, kernels)


def _applied(
    egraph: EGraph,
    rules: Sequence[Rule],
    costs: Costs,
    selection: Selection,
    progress: Progress | None,
) -> list[Application]:
    """Apply rules to what is selected: one match of each kind, and the others where that pays."""
    chosen = reachable(rules, operators_in(egraph))
    if not chosen:
        return []
    readers: dict[int, set[int]] = {egraph.find(v): {NONE} for v in egraph.graph.graph_outputs}
    for choice in selection.values():
        for need in choice.needs:
            readers.setdefault(need, set()).add(choice.node)
    nodes = {choice.node for choice in selection.values()}
    matches = matches_in(egraph, Patterns(egraph, chosen), nodes)
    matches = [match for match in matches if _fits(egraph, match, readers)]
    alike: dict[Signature, list[Match]] = {}
    # What adds commutes: matches of the same nodes are the same, read in another order.
    for match in {(m.rule.name, tuple(m.nodes.values())): m for m in matches}.values():
        alike.setdefault(signature(match, costs), []).append(match)
    applications = apply_matches(egraph, [matches[0] for matches in alike.values()])
    costs.measure_within(
        SHARE, [n for application in applications for n in application.target_nodes], progress
    )
    pays = [_pays(application, costs) for application in applications]
    others = [matches[1:] for matches, does in zip(alike.values(), pays, strict=True) if does]
    return applications + apply_matches(egraph, list(itertools.chain(*others)))


def _fits(egraph: EGraph, match: Match, readers: Mapping[int, set[int]]) -> bool:
    """Whether others read of what a match computes all that it still gives, and nothing else.

    An e-graph does not ask for that, since nothing is taken away; a program does.
    """
    matched = set(match.nodes.values())
    results = {class_ for node in matched for class_ in egraph.columns.outputs(node)}
    kept = {egraph.find(match.values[name]) for name in match.rule.outputs}
    return {class_ for class_ in results if readers.get(class_, set()) - matched} == kept


def _pays(application: Application, costs: Costs) -> bool:
    """Whether what a match made is measured, and costs less than all that it stands for."""
    if application.refusal or costs.unmeasured(application.target_nodes):
        costs.withhold(application.target_nodes)
        return False
    return sum(map(costs, application.target_nodes)) < sum(map(costs, set(application.nodes)))
