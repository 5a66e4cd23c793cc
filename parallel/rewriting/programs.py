"""All programs that rules lead to from a model: an e-graph, seen as operators and values.

Each e-node that could run is an operator of one workload, each class a value of it. So what an
operator and its divisions cost is asked as of any workload, but that several operators may give one
value.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...optimizer.egraph.build import build
from ...optimizer.egraph.congruence import NONE
from ...optimizer.egraph.egraph import EGraph
from ...optimizer.egraph.extraction.e_node_costs import (
    UNUSABLE,
    kernel_of_e_node,
    original_selection,
    problem_of,
)
from ...optimizer.egraph.extraction.merges import matches_in, pairs_neighbours
from ...optimizer.egraph.extraction.problem import Choice, Problem, in_order
from ...optimizer.egraph.extraction.regions import knots_of
from ...optimizer.egraph.plan_steps import steps_of
from ...optimizer.egraph.provenance import Application
from ...optimizer.egraph.saturation.application import apply_matches
from ...optimizer.egraph.saturation.e_matching import Patterns, operators_in, reachable
from ...optimizer.egraph.saturation.saturate import Budget, Growth, saturate
from ...optimizer.graph.fold import fold_constants
from ...optimizer.graph.infer import infer_types
from ...optimizer.graph.simplify import remove_dead, remove_dead_constants
from ...optimizer.match.rewrite import Step
from ...rules import Rule
from ..workload import Operator, Value, Workload, workload_of

# What depends on constants alone is computed before the first request, however large it is.
_ANY_SIZE = 1 << 62
# What of it is computed as a program is written, the runtime does the rest as it opens it.
_FOLD_BYTES = 256 << 20
# How often rules that pair neighbours are applied, and to how many pairs.
_PAIRINGS, _PAIRS = 2, 40
# Operators that may give one value: the oldest ones, beside the model's own.
_MOST_GIVERS = 12

Selected = Mapping[int, int]
"""By class the operator that gives it, for all classes that a program computes."""


@dataclass(frozen=True)
class Programs:
    """Programs of one e-graph. `operators` of `workload` are e-nodes, and its values classes.

    `givers` are by class the operators that give it, with the output. `roots` are the classes that
    each program computes. `has_all` tells whether these are all programs of the e-graph.
    """

    egraph: EGraph
    growth: Growth
    choices: Problem
    workload: Workload
    givers: Mapping[int, tuple[tuple[int, int], ...]]
    roots: tuple[int, ...]
    original: Selected
    has_all: bool

    @property
    def is_whole(self) -> bool:
        """Tell whether these are all programs that the rules lead to."""
        return self.has_all and self.growth.is_saturated and not self.growth.paused

    def needs(self, number: int) -> tuple[int, ...]:
        """Return the classes that an operator reads and that some operator gives."""
        reads = self.workload.operators[number].reads
        return tuple(dict.fromkeys(value for _, value in reads if value in self.givers))

    def completed(self, selected: Selected) -> dict[int, int]:
        """Return what a selection computes, and nothing else."""
        completed: dict[int, int] = {}
        queue = list(self.roots)
        while queue:
            class_ = queue.pop()
            if class_ not in completed:
                completed[class_] = selected[class_]
                queue += self.needs(selected[class_])
        return completed

    def every(self) -> Iterator[dict[int, int]]:
        """Yield all selections; there may be very many."""
        stack: list[dict[int, int]] = [{}]
        while stack:
            partial = stack.pop()
            wanted = {*self.roots, *(n for choice in partial.values() for n in self.needs(choice))}
            open_ = min(wanted - partial.keys(), default=None)
            if open_ is None:
                yield partial
            else:
                stack += [{**partial, open_: number} for number, _ in self.givers[open_]]

    def are_own(self, numbers: Collection[int], model: Workload) -> bool:
        """Tell whether operators are those of the model: none made by a rule, none united."""
        nodes = {self.workload.operators[number].node for number in numbers}
        run = [operator for operator in model.operators if not operator.kernel.is_constant]
        return nodes <= self.egraph.origin.keys() and len(nodes) == len(run)

    def steps(self, selected: Selected) -> list[Step]:
        """Return the rewrites that lead to a program."""
        return steps_of(self.egraph, self._selection(selected), self.growth.applications, _free)

    def built(self, selected: Selected) -> Workload:
        """Write a program as a workload, in which operators have the names that they have here.

        It may have more of them: those that give a second name to an output.
        """
        selection = self._selection(selected)
        operators = self.workload.operators
        names = {operators[n].node: operators[n].name for n in selected.values()}
        graph = build(self.egraph, selection, self.roots, names)
        fold_constants(graph, _FOLD_BYTES)
        remove_dead(graph)
        remove_dead_constants(graph)
        for value, type_ in infer_types(graph).items():
            graph.types.setdefault(value, type_)
        return workload_of(graph)

    def _selection(self, selected: Selected) -> dict[int, Choice]:
        operators = self.workload.operators
        nodes = {class_: operators[number].node for class_, number in selected.items()}
        choices = self.choices.choices
        selection = {
            c: next(choice for choice in choices[c] if choice.node == n) for c, n in nodes.items()
        }
        return {class_: selection[class_] for class_ in in_order(selection, self.roots)}


def programs_of(
    workload: Workload, rules: Sequence[Rule], budget: Budget | None = None
) -> Programs:
    """Apply rules to a workload, within a budget: counts, and seconds as the last resort."""
    egraph = EGraph(workload.graph, fold_limit=_ANY_SIZE)
    growth = _grown(egraph, rules, budget)
    known = {operator.node: operator for operator in workload.operators}
    operator_of: dict[int, Operator] = {}
    names = _Names()

    def usable(node: int) -> float:
        operator = _operator(egraph, node, known.get(egraph.origin.get(node, -1)), names)
        if operator is not None:
            operator_of[node] = operator
        return UNUSABLE if operator is None else 0.0

    choices = problem_of(egraph, usable)
    original = original_selection(egraph, choices)
    ranks = _ranks(choices, {c: place for place, c in enumerate(in_order(original, choices.roots))})
    knots = knots_of(choices)
    left_out = False
    operators: list[Operator] = []
    values: dict[int, Value] = {}
    numbers: dict[int, int] = {}
    givers: dict[int, list[tuple[int, int]]] = {class_: [] for class_ in choices.choices}
    for class_, offered in choices.choices.items():
        first = original.get(class_)
        ordered = sorted(offered, key=lambda choice: choice.node)
        for choice in ([first] if first else []) + [
            operator for operator in ordered if operator != first
        ]:
            node = choice.node
            is_circular = any(
                knots.get(need, need) == knots.get(class_)
                and ranks.get(need, _NEVER) >= ranks[class_]
                for need in choice.needs
            )
            if is_circular or len(givers[class_]) == _MOST_GIVERS:
                left_out = True
                continue
            if node not in numbers:
                numbers[node] = len(operators)
                operators.append(operator_of[node])
            givers[class_].append((numbers[node], operator_of[node].outputs.index(class_)))
    for operator in operators:
        for named in (*operator.inputs, *operator.captures, *operator.outputs):
            if named is not None and named not in values:
                values[named] = _value(egraph, named)
    return Programs(
        egraph,
        growth,
        choices,
        Workload(workload.graph, tuple(operators), values),
        {class_: tuple(givers_of) for class_, givers_of in givers.items()},
        choices.roots,
        {class_: numbers[choice.node] for class_, choice in original.items()},
        not left_out,
    )


def _grown(egraph: EGraph, rules: Sequence[Rule], budget: Budget | None) -> Growth:
    """Apply rules; those that pair neighbours to the model's own, and once to what that made.

    Of n alike these find as many as there are pairs, and what they make pairs anew.
    """
    single = [rule for rule in rules if not pairs_neighbours(rule)]
    growth = saturate(egraph, single, budget)
    pairing = reachable([rule for rule in rules if pairs_neighbours(rule)], operators_in(egraph))
    choices = problem_of(egraph, _free)
    nodes = {choice.node for choice in original_selection(egraph, choices).values()}
    applications: list[Application] = []
    for _ in range(_PAIRINGS if pairing else 0):
        egraph.columns.now += 1
        matches = matches_in(egraph, Patterns(egraph, pairing), nodes)
        derived = [
            application
            for application in apply_matches(egraph, matches[:_PAIRS])
            if not application.refusal
        ]
        applications += derived
        nodes |= {node for application in derived for node in application.target_nodes}
    if applications:
        growth.applications += applications
        growth.applications += saturate(egraph, single, budget).applications
        growth.ended = "rules that pair neighbours were applied a few times"
    return growth


def _free(node: int) -> float:
    return 0.0


Rank = tuple[int, int]
_NEVER: Rank = (1 << 62, 0)


def _ranks(problem: Problem, places: Mapping[int, int]) -> dict[int, Rank]:
    """Number classes so that what needs smaller numbers alone makes no circle.

    The model's own have their place in it. Others come after the last that they need, by the
    choice for which that is the earliest.
    """
    ranks: dict[int, Rank] = {class_: (place, 0) for class_, place in places.items()}
    readers: dict[int, list[tuple[int, Choice]]] = {}
    for class_, offered in problem.choices.items():
        for choice in offered if class_ not in places else ():
            for need in choice.needs:
                readers.setdefault(need, []).append((class_, choice))
    queue = list(places)
    queue += [c for c, offered in problem.choices.items() if any(not o.needs for o in offered)]
    while queue:
        reached = queue.pop()
        if reached not in ranks:
            ranks[reached] = (-1, 0)
        for class_, choice in readers.get(reached, ()):
            if all(need in ranks for need in choice.needs):
                place, depth = max(ranks[need] for need in choice.needs)
                if (place, depth + 1) < ranks.get(class_, _NEVER):
                    ranks[class_] = (place, depth + 1)
                    queue.append(class_)
    return ranks


class _Names:
    """Names of operators that rules made, each of its own."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def of(self, egraph: EGraph, node: int) -> str:
        origin = egraph.origin.get(node)
        if origin is not None:
            return egraph.graph.node_name(origin)
        op = egraph.vocabulary.operators[egraph.columns.operator(node)].op_type
        application = egraph.made_by.get(node)
        return f"{application.rule if application else 'computed'}/{op}{next(self._numbers)}"


def _operator(
    egraph: EGraph, node: int, original: Operator | None, names: _Names
) -> Operator | None:
    """Return an e-node as an operator; None where its sizes are not known."""
    columns = egraph.columns
    outputs = tuple(None if v == NONE else egraph.find(v) for v in columns.outputs(node))
    if (
        original is not None and original.captures
    ):  # what a subgraph reads is no operand of a kernel
        read = tuple(None if v is None else egraph.find(v) for v in original.inputs)
        captures = tuple(sorted({egraph.find(v) for v in original.captures}))
        return Operator(original.name, node, original.kernel, read, outputs, captures)
    kernel = kernel_of_e_node(egraph, node) or (original.kernel if original is not None else None)
    if kernel is None:
        return None
    _, written = egraph.written(node)
    inputs = tuple(None if v == NONE else egraph.find(v) for v in written[: len(kernel.inputs)])
    return Operator(names.of(egraph, node), node, kernel, inputs, outputs)


def _value(egraph: EGraph, class_: int) -> Value:
    type_ = egraph.type(class_)
    shape = () if type_ is None or type_.shape is None else type_.shape
    return Value(
        f"class{class_}",
        "float32" if type_ is None else type_.dtype,
        tuple(size if isinstance(size, int) else 0 for size in shape),
        egraph.is_known(class_),
    )
