"""How a plan came about: the matches that lead from the model to a selection, as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..match.rewrite import Step
from .egraph import EGraph
from .extraction.e_node_costs import UNUSABLE
from .extraction.problem import Selection
from .provenance import Application


def steps_of(
    egraph: EGraph,
    selection: Selection,
    applications: Sequence[Application],
    costs: Callable[[int], float],
) -> list[Step]:
    """The matches that made what is selected, and what they matched, in the order applied.

    Where the model's own e-node is selected for a class, but another of its own gave the value
    before, a match that made nothing has united the two: it is a step too.
    """
    chosen = {choice.node for choice in selection.values()}
    place = {id(application): number for number, application in enumerate(applications)}
    wanted: dict[int, Application] = {}
    queue = [egraph.made_by[node] for node in sorted(chosen) if node in egraph.made_by]
    queue += _unions(egraph, selection, applications)
    while queue:
        application = queue.pop()
        number = place[id(application)]
        if number in wanted:
            continue
        wanted[number] = application
        queue += [egraph.made_by[node] for node in application.nodes if node in egraph.made_by]
    return [_step(egraph, chosen, wanted[number], costs) for number in sorted(wanted)]


def _unions(
    egraph: EGraph, selection: Selection, applications: Sequence[Application]
) -> list[Application]:
    uniting = []
    chosen = {choice.node for choice in selection.values()}
    graph_inputs = {egraph.find(value) for value in egraph.graph.graph_inputs}
    for application in applications:
        if application.refusal or application.target_nodes:
            continue
        gone = [n for n in application.nodes if n in egraph.origin and n not in chosen]
        ends = [egraph.find(old) for old, _ in application.united]
        if gone and any(e in selection or e in graph_inputs or egraph.is_known(e) for e in ends):
            uniting.append(application)
    return uniting


def _step(
    egraph: EGraph, chosen: set[int], application: Application, costs: Callable[[int], float]
) -> Step:
    before = [node for node in dict.fromkeys(application.nodes) if node not in chosen]
    after = [node for node in dict.fromkeys(application.target_nodes) if node in chosen]
    return Step(
        rule=application.rule,
        nodes=tuple(name_of(egraph, node) for node in application.nodes),
        removed=sum(node in egraph.origin for node in before),
        added=len(after),
        accepted=True,
        reason="part of the cheapest plan found",
        equal=application.equal,
        summary=application.summary,
        cost_before_ns=sum(costs(node) for node in before),
        cost_after_ns=sum(costs(node) for node in after),
        correction=correction_text(application, costs),
    )


def correction_text(application: Application, price: Callable[[int], float]) -> str:
    """Say where a partial equivalence differs, what makes it whole, and what that costs."""
    if not application.correction:
        return ""
    cost = sum(price(node) for node in application.target_nodes[-application.corrected :])
    cost_text = f"{cost / 1000:.1f} µs" if cost < UNUSABLE else "cost not known"
    return f"{application.correction} ({cost_text})"


def name_of(egraph: EGraph, node: int) -> str:
    """The name of the model's own node, or the operator and the rule that made it."""
    if node in egraph.origin:
        return egraph.graph.node_name(egraph.origin[node])
    op = egraph.vocabulary.operators[egraph.columns.operator(node)].name
    application = egraph.made_by.get(node)
    return f"{op} made by {application.rule}" if application else op
