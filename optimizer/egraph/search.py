"""The search: grow an e-graph, take the cheapest program out, measure what decides, repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...rules import Rule
from ..graph import Graph
from ..price import Prices
from ..rewrite import Step
from .build import build
from .costs import Costs, own_nodes, problem_of
from .egraph import EGraph
from .extract import MOST_STEPS, Extraction, extract
from .merges import Merged, merge
from .problem import Selection, cost_of
from .saturate import Budget, Growth, Report, saturate
from .trace import steps_of

# Extractions after which what is not measured yet is left out.
EXTRACTIONS = 6


@dataclass
class Found:
    """The plan: its graph, how it came about, and what is known of how good it is."""

    graph: Graph
    steps: list[Step]
    cost_ns: float
    own_cost_ns: float
    growth: Growth
    extraction: Extraction
    merged: Merged
    egraph: EGraph
    costs: Costs = field(repr=False)

    @property
    def is_better(self) -> bool:
        """Whether the plan is expected to be faster than the graph it was derived from."""
        return self.cost_ns < self.own_cost_ns


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
    progress: Report | None = None,
) -> Found:
    """Find the cheapest program that the rules reach from a graph, within the budgets.

    Kernels count with their bounds until they are measured; what the cheapest program needs is
    measured, and the next one is taken out, until the cheapest one is measured throughout or the
    budget of `prices` is spent. Rules of several outputs are tried on what that leads to. With
    `rounding`, sums and products of floats may be reordered. `graph` is left as it is.
    """
    egraph = EGraph(graph, sizes, fold_limit)
    single = [rule for rule in rules if len(rule.outputs) == 1]
    growth = saturate(egraph, single, budget, progress, rounding=rounding)
    costs = Costs(egraph, prices)
    extraction, own = _cheapest(egraph, costs, steps, progress)
    merged = merge(egraph, rules, costs, extraction.selection)
    growth.applications += merged.applications
    return Found(
        build(egraph, merged.selection, roots_of(egraph, merged.selection)),
        steps_of(egraph, merged.selection, growth.applications, costs),
        merged.cost,
        own,
        growth,
        extraction,
        merged,
        egraph,
        costs,
    )


def roots_of(egraph: EGraph, selection: Selection) -> tuple[int, ...]:
    """The classes of the outputs that have to be computed."""
    found = dict.fromkeys(egraph.find(value) for value in egraph.graph.graph_outputs)
    return tuple(value for value in found if value in selection)


def _cheapest(
    egraph: EGraph, costs: Costs, steps: int, progress: Report | None
) -> tuple[Extraction, float]:
    """Take out and measure in turns; the last extraction takes only what is measured."""

    def told(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress("measuring", done, total, what)

    for _ in range(EXTRACTIONS):
        own, extraction = _extracted(egraph, costs, steps)
        news = {choice.node for choice in extraction.selection.values()}
        old = {choice.node for choice in own.values()}
        if news <= old:
            return extraction, cost_of(own, own)
        open_ = costs.unmeasured(sorted((news | old) - (news & old)))
        left = costs.prices.left_s
        if not open_ or left <= 0:
            break
        costs.prices.measure(
            open_,
            lambda done, total, what: (
                progress("measuring", done, total, what) if progress else None
            ),
        )
    costs.end_measuring()
    own, extraction = _extracted(egraph, costs, steps)
    return extraction, cost_of(own, own)


def _extracted(egraph: EGraph, costs: Costs, steps: int) -> tuple[Selection, Extraction]:
    problem = problem_of(egraph, costs)
    own = own_nodes(egraph, problem)
    return own, extract(problem, own, steps)
