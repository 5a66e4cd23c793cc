"""The search: grow an e-graph, take the cheapest program out, measure what decides, repeat."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...rules import Rule
from ..collector_pause import seldom_collected
from ..graph.graph import Graph
from ..match.rewrite import Step
from ..price import Prices, Progress
from .absorbing_rules import is_naming
from .active_measurement import cheapest_within_intervals
from .build import build
from .derivations.derive_all import derive, prepare
from .egraph import EGraph
from .extraction.absorbing_kernels import name_kernels
from .extraction.alternatives import Alternative, alternatives
from .extraction.e_node_costs import Costs, original_selection, problem_of
from .extraction.extract import MOST_STEPS, Extraction, extract
from .extraction.merges import MergeResult, canonical, merge, pairs_neighbours
from .extraction.problem import Choice, Problem, Selection, cost_of
from .plan_steps import steps_of
from .saturation.saturate import Budget, Growth, Report, saturate

# Extractions after which what is not measured yet is left out.
EXTRACTIONS = 6
# Kernels of the runtime in the place of ten operators.
KERNELS_OF_MANY = {"com.microsoft:MultiHeadAttention", "com.microsoft:RotaryEmbedding"}
# How many times fewer steps it takes to find a plan where what is to be in it is free.
FAVOURED = 10


@dataclass(frozen=True)
class Derived:
    """A plan taken out: its graph, how it came about, its cost, and rules it had to do without."""

    graph: Graph
    steps: list[Step]
    cost_ns: float
    selection: dict[int, Choice]
    without: tuple[str, ...] = ()


@dataclass
class SearchResult:
    """The plans, the cheapest one first, and what is known of how good it is.

    `named` is one that is cheaper still by kernels which take in their neighbours, if there is one.
    """

    plans: list[Derived]
    original_cost_ns: float
    growth: Growth
    extraction: Extraction
    merged: MergeResult
    egraph: EGraph
    costs: Costs = field(repr=False)
    named: Derived | None = None

    @property
    def bound_ns(self) -> float:
        """What no plan of single results is below, as far as the e-graph goes."""
        return min(self.extraction.bound, self.cost_ns)

    @property
    def graph(self) -> Graph:
        """The graph of the cheapest plan."""
        return self.plans[0].graph

    @property
    def steps(self) -> list[Step]:
        """How the cheapest plan came about."""
        return self.plans[0].steps

    @property
    def cost_ns(self) -> float:
        """The cost of the cheapest plan."""
        return self.plans[0].cost_ns


@seldom_collected()
def search(
    graph: Graph,
    rules: Sequence[Rule],
    prices: Prices,
    *,
    sizes: Mapping[str, int],
    fold_limit: int,
    budget: Budget | None = None,
    steps: int = MOST_STEPS,
    rounding: bool = True,
    count: int = 1,
    contributed: bool = False,
    of_passes: Sequence[Rule] = (),
    progress: Report | None = None,
) -> SearchResult:
    """Find the cheapest programs that the rules reach from a graph, within the budgets.

    Kernels count with their bounds until they are measured; what the cheapest program needs is
    measured, and the next one is taken out, until the cheapest one is measured throughout or the
    budget of `prices` is spent. Rules that pair neighbours are tried on what that leads to. Up to
    `count` plans are given, which differ in the rules they use (see `alternatives`). With
    `rounding`, sums and products of floats may be reordered, and what no rule can say is derived
    (see `derive`), with `contributed` ONNX Runtime's own kernels among it, and `of_passes`, rules,
    are applied where that pays; then the second plan has all of that whatever it seems to cost.
    Rules that name kernels which take in what stands beside an operator lead to one plan more,
    `named`, where that costs less than the cheapest one without. `graph` is left as it is.
    """
    egraph = EGraph(graph, sizes, fold_limit)
    kernels = [rule for rule in rules if is_naming(rule)]
    rules = [rule for rule in rules if not is_naming(rule)]
    grown = [rule for rule in rules if not pairs_neighbours(rule)]
    prepared = prepare(egraph) if contributed and rounding else []
    growth = saturate(egraph, grown, budget, progress, rounding=rounding)
    derived = derive(egraph, of_passes, contributed=contributed) if rounding else []
    growth.applications = [*prepared, *growth.applications, *derived]
    costs = Costs(egraph, prices)
    extraction, original = _cheapest(egraph, costs, steps, progress)
    others = _others(egraph, costs, extraction, count - 1, steps, progress) if count > 1 else []
    merged = merge(egraph, rules, costs, extraction.selection)
    growth.applications += merged.applications
    programs: list[tuple[Selection, float, tuple[str, ...]]] = [(merged.selection, merged.cost, ())]
    if merged.cost < extraction.cost and count > 1:  # whether merges pay, the clock may deny
        left_out = tuple(dict.fromkeys(a.rule for a in merged.applications))
        programs.append((extraction.selection, extraction.cost, left_out))
    derived_nodes = {node for application in derived for node in application.target_nodes}
    derived_nodes |= {
        node
        for application in growth.applications
        if any(_replaces_many(egraph, node) for node in application.target_nodes)
        for node in application.target_nodes
    }
    if derived_nodes and contributed:
        favoured = _favouring(egraph, costs, derived_nodes, steps, progress)
        if all(_nodes(favoured) != _nodes(selection) for selection, _, _ in programs):
            programs.insert(1, (favoured, cost_of(favoured, favoured), ()))
            count = max(count, 2)
    programs += [(o.extraction.selection, o.extraction.cost, o.without) for o in others]
    plans = [
        _derived(egraph, costs, growth, selection, cost, left_out)
        for selection, cost, left_out in programs[:count]
    ]
    naming = name_kernels(egraph, kernels, costs, merged.selection, steps, _measuring(progress))
    growth.applications += naming.applications
    named = None
    if naming.cost < merged.cost:
        named = _derived(egraph, costs, growth, naming.selection, naming.cost, ())
    costs.withhold(naming.new_nodes)
    return SearchResult(
        plans,
        original,
        growth,
        extraction,
        merged,
        egraph,
        costs,
        named,
    )


def _favouring(
    egraph: EGraph,
    costs: Costs,
    favoured: Collection[int],
    steps: int,
    progress: Report | None,
) -> Selection:
    """The cheapest plan if some e-nodes that were made cost nothing, where it can be measured.

    One kernel in the place of ten saves what no kernel shows, and alone takes about as long as they
    do: a race has to decide.
    """
    costs.measure(sorted(favoured), _measuring(progress))
    problem = problem_of(egraph, costs)
    choices = {
        class_: tuple(replace(c, cost=0.0) if c.node in favoured else c for c in offered)
        for class_, offered in problem.choices.items()
    }
    free = replace(problem, choices=choices)
    selection = extract(free, original_selection(egraph, free), steps // FAVOURED).selection
    return {
        class_: next(c for c in problem.choices[class_] if c.node == choice.node)
        for class_, choice in selection.items()
    }


def _replaces_many(egraph: EGraph, node: int) -> bool:
    """Whether an e-node is a kernel in the place of ten operators."""
    name = egraph.vocabulary.operators[egraph.columns.operator(node)].name
    return name in KERNELS_OF_MANY


def _nodes(selection: Selection) -> set[int]:
    return {choice.node for choice in selection.values()}


def _derived(
    egraph: EGraph,
    costs: Costs,
    growth: Growth,
    selection: Selection,
    cost: float,
    left_out: tuple[str, ...],
) -> Derived:
    current = canonical(egraph, costs, selection)
    return Derived(
        build(egraph, current, roots_of(egraph, current)),
        steps_of(egraph, current, growth.applications, costs),
        cost,
        current,
        left_out,
    )


def roots_of(egraph: EGraph, selection: Selection) -> tuple[int, ...]:
    """The classes of the outputs that have to be computed."""
    roots = dict.fromkeys(egraph.find(value) for value in egraph.graph.graph_outputs)
    return tuple(value for value in roots if value in selection)


def _cheapest(
    egraph: EGraph, costs: Costs, steps: int, progress: Report | None
) -> tuple[Extraction, float]:
    """Take out and measure in turns; the last extraction takes what is measured or predicted."""
    if costs.prices.model.predictions is not None:
        return cheapest_within_intervals(egraph, costs, steps, _measuring(progress))
    for _ in range(EXTRACTIONS):
        problem, original, extraction = _extracted(egraph, costs, steps)
        news = {choice.node for choice in extraction.selection.values()}
        old = {choice.node for choice in original.values()}
        # The model's own may look cheapest for no other reason than that nobody measured it.
        decisive = news ^ old if news - old else _contested(problem, original)
        if not costs.measure(sorted(decisive), _measuring(progress)):
            if news <= old:
                return extraction, cost_of(original, original)
            if not costs.unmeasured(sorted(news)):
                # What nobody measured counted with a bound, and did not look cheaper: the same
                # would come out without it.
                costs.end_measuring()
                return extraction, cost_of(original, original)
            break
    costs.end_measuring()
    _, original, extraction = _extracted(egraph, costs, steps)
    return extraction, cost_of(original, original)


def _contested(problem: Problem, selection: Selection) -> set[int]:
    """The e-nodes of the model that something else could stand for."""
    return {choice.node for class_, choice in selection.items() if len(problem.choices[class_]) > 1}


def _measuring(progress: Report | None) -> Progress | None:
    """What measuring reports, reported as a phase of its own."""
    if progress is None:
        return None
    report = progress
    return lambda done, total, detail: report("measuring", done, total, detail)


def _extracted(egraph: EGraph, costs: Costs, steps: int) -> tuple[Problem, Selection, Extraction]:
    problem = problem_of(egraph, costs)
    original = original_selection(egraph, problem)
    return problem, original, extract(problem, original, steps)


def _others(
    egraph: EGraph,
    costs: Costs,
    best: Extraction,
    count: int,
    steps: int,
    progress: Report | None,
) -> list[Alternative]:
    """The next best plans, their kernels measured as far as the budget goes."""

    def rule_of(node: int) -> str:
        application = egraph.made_by.get(node)
        return application.rule if application else ""

    additional: list[Alternative] = []
    for _ in range(2):
        problem = problem_of(egraph, costs)
        additional = alternatives(
            problem, original_selection(egraph, problem), best, rule_of, count, steps
        )
        nodes = {c.node for other in additional for c in other.extraction.selection.values()}
        measured = costs.measure(sorted(nodes), _measuring(progress))
        if not measured and not costs.unmeasured(sorted(nodes)):
            break
        costs.end_measuring()
    return additional
