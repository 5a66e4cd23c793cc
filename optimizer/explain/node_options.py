"""How one node of the model stands in an e-graph: what else could do its work, and for how much.

What an alternative costs is what the cheapest program that contains it costs: an operator that is
cheap by itself may need others that are not, or keep one alive that nothing else needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..egraph.congruence import NONE
from ..egraph.egraph import EGraph
from ..egraph.extraction.e_node_costs import UNUSABLE, Costs, original_selection, problem_of
from ..egraph.extraction.extract import MOST_STEPS, extract
from ..egraph.extraction.problem import Choice, CycleError, Problem, Selection, cost_of, in_order
from ..egraph.plan_steps import correction_text, name_of
from ..egraph.provenance import Application
from ..egraph.saturation.saturate import Growth
from ..match.rewrite import Step
from .reasons import (
    COSTS_MORE,
    IN_PLAN,
    NOT_MEASURED,
    REFUSED,
    WITHOUT_USE,
    NodeOption,
    NodeOptions,
    Reason,
)

# What is said of an e-node whose kernel nobody measured.
UNMEASURED = "not measured within the budget"
# Programs that are looked for to answer one question.
MOST_PROGRAMS = 40
# Rules that a plan is compared with, and the classes of all problems solved for that.
MOST_RULES, MOST_CLASSES = 12, 60_000


def steps_not_in_plan(egraph: EGraph, growth: Growth, costs: Costs) -> list[Step]:
    """What was applied and is not in the cheapest plan: a step a rule, at the first of its places.

    Says what the plan would take more, for as many rules as that takes little time for.
    """
    asker = Asker(egraph, growth.applications, costs)
    return asker.not_in_plan(min(MOST_RULES, MOST_CLASSES // max(1, len(asker.problem.choices))))


class Asker:
    """Asks an e-graph about nodes of the model: the cheapest plan, and those with something else.

    `price` is what an e-node costs, `first` gives the selection that the search starts from: where
    they are left out, what kernels cost, and the model's own.
    """

    def __init__(
        self,
        egraph: EGraph,
        applications: Sequence[Application],
        costs: Costs,
        price: Callable[[int], float] | None = None,
        first: Callable[[Problem], Selection] | None = None,
    ) -> None:
        self.egraph, self.applications, self.costs = egraph, applications, costs
        self.price = costs if price is None else price
        self.problem = problem_of(egraph, self.price)
        self.original = original_selection(egraph, self.problem)
        self.first = self.original if first is None else first(self.problem)
        self.best = extract(self.problem, self.first)
        self.taken = {choice.node for choice in self.best.selection.values()}
        self.differences_ns: dict[tuple[int, int], float | None] = {}

    def answer(self, number: int) -> NodeOptions:
        """Look at the classes that the node gives, and at the matches it takes part in."""
        node, names = self.named(number)
        ways = [way for class_, name in names.items() for way in self.alternatives(class_, name)]
        return NodeOptions(
            ways,
            self._matches(node),
            any(class_ in self.best.selection for class_ in names),
            self.best.cost,
            cost_of(self.original, self.original),
        )

    def named(self, number: int) -> tuple[int, dict[int, str]]:
        """The e-node of the model's node of a number, and the names of the classes it gives."""
        (node,) = (
            e_node for e_node, graph_node in self.egraph.origin.items() if graph_node == number
        )
        (node,) = self.egraph.columns.current(np.array([node], np.int64)).tolist()
        graph = self.egraph.graph
        outputs = zip(graph.nodes[number].outputs, self.egraph.columns.outputs(node), strict=True)
        return node, {c: graph.value_name(value) for value, c in outputs if c != NONE}

    def not_in_plan(self, most: int) -> list[Step]:
        """The rules that the plan does without, dearest last."""
        now, taken = self._now_all(), self.taken
        places: dict[str, list[Application]] = {}
        used: set[str] = set()
        for application in self.applications:
            target_nodes = {now[node] for node in application.target_nodes}
            if target_nodes & taken:
                used.add(application.rule)
            elif application.target_nodes and not application.refusal:
                places.setdefault(application.rule, []).append(application)
        steps = []
        open_ = [(rule, rule_places) for rule, rule_places in places.items() if rule not in used]
        for rule, rule_places in open_[:most]:
            first = rule_places[0]
            names = tuple(name_of(self.egraph, now[node]) for node in first.nodes)
            judged = self._judged(first, names, {now[node] for node in first.target_nodes}, taken)
            if judged.more_ns is None or judged.more_ns <= 0:
                continue
            steps.append(
                Step(
                    rule=rule,
                    nodes=names,
                    removed=0,
                    added=len(first.target_nodes),
                    accepted=False,
                    reason=f"higher cost: the plan would take {judged.more_ns / 1000:.1f} µs more"
                    + (
                        f" at the first of {len(rule_places)} places"
                        if len(rule_places) > 1
                        else ""
                    ),
                    equal=first.equal,
                    summary=first.summary,
                    cost_before_ns=self.best.cost,
                    cost_after_ns=self.best.cost + judged.more_ns,
                    correction=correction_text(first, lambda node: self.price(now[node])),
                )
            )
        return sorted(steps, key=lambda step: (step.cost_after_ns, step.rule))

    def _now_all(self) -> dict[int, int]:
        """E-node -> the living one that it has come to equal, for all that matches touched."""
        flat = sorted({n for a in self.applications for n in (*a.nodes, *a.target_nodes)})
        current = self.egraph.columns.current(np.array(flat, np.int64)).tolist()
        return dict(zip(flat, current, strict=True))

    # -------------------------------------------------------------------------------- ways

    def alternatives(self, class_: int, name: str) -> list[NodeOption]:
        """What can compute a class, cheapest first."""
        offered = {c.node: c for c in self.problem.choices.get(class_, ())}
        living = self.egraph.columns.living()
        nodes, _, values = self.egraph.columns.gives(living)
        members = [n for n in nodes[values == class_].tolist() if not self._is_virtual(n)]
        ways = [self._way(class_, name, node, offered.get(node)) for node in members]
        return sorted(ways, key=lambda way: (way.more_ns is None, way.more_ns or 0.0, way.operator))

    def _is_virtual(self, node: int) -> bool:
        return self.egraph.vocabulary.operators[self.egraph.columns.operator(node)].is_virtual

    def _way(self, class_: int, name: str, node: int, choice: Choice | None) -> NodeOption:
        chosen = self.best.selection.get(class_)
        is_chosen = chosen is not None and chosen.node == node
        more, note = (0.0, "") if is_chosen else self._more(class_, node, choice)
        application = self.egraph.made_by.get(node)
        kernel = self.costs.kernel(node)
        cost = None if kernel is None else self.costs.prices.model.cost(kernel)
        return NodeOption(
            name,
            self.egraph.vocabulary.operators[self.egraph.columns.operator(node)].name,
            application.rule if application else "",
            None if cost is None else self._cost(node, cost.ns),
            "" if cost is None else cost.source,
            more,
            is_chosen,
            note,
        )

    def _cost(self, node: int, own_ns: float) -> float:
        price = self.price(node)
        return price if price < UNUSABLE else own_ns

    def _more(self, class_: int, node: int, choice: Choice | None) -> tuple[float | None, str]:
        """What the plan would cost more if a class had to be computed by an e-node."""
        if self.egraph.is_known(class_):
            return None, "known before the model runs"
        if class_ not in self.best.selection:
            return None, "the plan does without this value"
        if choice is None:
            return None, self._unusable(node)
        if len(self.differences_ns) >= MOST_PROGRAMS:
            return None, "not looked into: there are too many alternatives"
        key = (class_, node)
        if key not in self.differences_ns:
            self.differences_ns[key] = self._forced(class_, choice)
        more = self.differences_ns[key]
        return more, "" if more is not None else "no plan: it would need its own result"

    def _unusable(self, node: int) -> str:
        kernel = self.costs.kernel(node)
        if kernel is None:
            return "its sizes are not known"
        failure = self.costs.prices.model.failure(kernel)
        if failure is not None:
            return f"it does not run: {' '.join(failure.split())[:120]}"
        return UNMEASURED

    def _forced(self, class_: int, choice: Choice) -> float | None:
        """The least that a plan with a choice costs more; None where there is none.

        The model's own choice stays, at a price that nothing else comes near: some plan to start
        from is needed.
        """
        price = 10 * (self.best.cost + cost_of(self.original, self.original) + choice.cost + 1.0)
        problem, selection = self.problem, dict(self.first)
        choices: dict[int, tuple[Choice, ...]] = dict(problem.choices)
        choices[class_] = (choice,)
        mine = selection.get(class_)
        if mine is not None and mine.node != choice.node:
            dear = replace(mine, cost=mine.cost + price)
            choices[class_] = (choice, dear)
            for other, offered in problem.choices.items():
                if other != class_ and mine in offered:
                    choices[other] = tuple(dear if c is mine else c for c in offered)
            selection = {c: dear if chosen is mine else chosen for c, chosen in selection.items()}
        extraction = extract(Problem(choices, problem.roots), selection, MOST_STEPS)
        return None if extraction.cost >= price else extraction.cost - self.best.cost

    def needing(self, class_: int, ways: Sequence[Choice], rest: Selection) -> float | None:
        """The least that a plan costs more which computes a class, too, in one of some ways.

        `rest` says how to compute what the plan does without so far. None where there is no plan.
        """
        choices = {**self.problem.choices, class_: tuple(ways)}
        problem = Problem(choices, (*self.problem.roots, class_))
        start = {**rest, **self.best.selection, class_: rest[class_]}
        try:
            start = {c: start[c] for c in in_order(start, problem.roots)}
        except (CycleError, KeyError):
            return None
        return extract(problem, start, MOST_STEPS).cost - self.best.cost

    # ----------------------------------------------------------------------------- matches

    def _matches(self, node: int) -> list[Reason]:
        """What came of the matches that involve an e-node, each rule and place once."""
        now = self._now_all()
        reasons: dict[tuple[str, tuple[str, ...]], Reason] = {}
        for application in self.applications:
            nodes = [now[n] for n in application.nodes]
            if node not in nodes:
                continue
            names = tuple(name_of(self.egraph, n) for n in nodes)
            target_nodes = {now[n] for n in application.target_nodes}
            key = (application.rule, names)
            if key not in reasons or reasons[key].outcome != IN_PLAN:
                judged = self._judged(application, names, target_nodes, self.taken)
                correction = correction_text(application, lambda node: self.price(now[node]))
                reasons[key] = replace(judged, correction=correction)
        return list(reasons.values())

    def _judged(
        self,
        application: Application,
        names: tuple[str, ...],
        target_nodes: set[int],
        taken: set[int],
    ) -> Reason:
        rule = application.rule
        if application.refusal:
            return Reason(rule, names, REFUSED, application.refusal.removeprefix(f"{rule}: "))
        if not target_nodes:
            return Reason(rule, names, IN_PLAN, "its result is a value that is there already")
        roots = [
            (self.egraph.find(old), self._giver(old, target_nodes)) for old, _ in application.united
        ]
        root_nodes = [(class_, node) for class_, node in roots if node is not None]
        if any(node in taken for _, node in root_nodes):
            return Reason(rule, names, IN_PLAN, "", 0.0)
        for class_, node in root_nodes:
            choice = self._choices(class_).get(node)
            more, note = self._more(class_, node, choice)
            if more is not None:
                return Reason(rule, names, COSTS_MORE, note, more)
            return Reason(rule, names, NOT_MEASURED if note == UNMEASURED else WITHOUT_USE, note)
        return Reason(rule, names, WITHOUT_USE, "what it makes is what was there")

    def _choices(self, class_: int) -> Mapping[int, Choice]:
        return {choice.node: choice for choice in self.problem.choices.get(class_, ())}

    def _giver(self, value: int, target_nodes: set[int]) -> int | None:
        """The e-node among those made that gives a class."""
        class_ = self.egraph.find(value)
        return next(
            (node for node in sorted(target_nodes) if class_ in self.egraph.columns.outputs(node)),
            None,
        )
