"""The cheapest plan with blocked values: extracted, written out, and guarded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx

from ...rules import Rule
from ..egraph.build import build
from ..egraph.egraph import EGraph
from ..egraph.extraction.e_node_costs import Costs
from ..egraph.extraction.extract import Extraction
from ..egraph.extraction.merges import canonical, merge_everywhere
from ..egraph.extraction.problem import Selection
from ..egraph.plan_steps import name_of, steps_of
from ..egraph.provenance import Application
from ..egraph.search import SearchResult, roots_of
from ..egraph.search_tables import LayoutSearch
from ..graph.convert import type_proto
from ..graph.graph import Graph
from ..match.rewrite import Step, clean
from ..native.shapes.shapes import Followed
from ..price import Prices
from .blocked_costs import REORDERS
from .filters import FILTERS, computed
from .guard import guard
from .promising import PROMISE, frees, promising
from .runtime import NCHWC, VERSION, block_size
from .space import Space, space_of
from .values import summaries

MOVES = (*REORDERS, "Transpose")
# What the names end in of what is computed in blocks.
IN_BLOCKS = " in blocks"
# A model in blocks enters and leaves them once: where the runtime does no more, nothing is left.
LEAST_MOVES = 2


@dataclass(frozen=True)
class LaidOutPlan:
    """A plan with blocked values: its graph, the steps to it, and what was taken out of `space`."""

    graph: Graph
    steps: list[Step]
    space: Space
    extraction: Extraction

    @property
    def cost_ns(self) -> float:
        """What the plan is expected to take."""
        return self.extraction.cost

    def account(self) -> LayoutSearch:
        """What the layouts of values add to what is told of a search."""
        blocking = self.space.blocking
        return LayoutSearch(
            {value: (plain, layout.name) for plain, layout, value in blocking.values.every()},
            blocking.unconverted(),
            blocking.values.applications,
            self.space.price,
            self.extraction.selection,
            self.extraction.cost,
            self.extraction.bound,
            tuple(self.space.forbidden),
        )


def lay_out(
    graph: Graph,
    prices: Prices,
    rules: Sequence[Rule] = (),
    *,
    filters: Collection[tuple[int, int]] = (),
    sizes: Mapping[str, int],
    fold_limit: int,
) -> tuple[LaidOutPlan | None, LaidOutPlan | None]:
    """Find the cheapest way to compute a graph as it is when values may lie in blocks.

    None where nothing would, or the runtime has no such kernels. What the plan needs is measured
    as far as the budget of `prices` goes, and counts with its bound else. `graph` is left as it is.
    Of `rules` those of the tag `pass` are applied that bring more into blocks. The second plan is
    for kernels of convolutions: those by `filters` of some sizes count less there. It is None as
    well where the same is the cheapest then.
    """
    if sizes:
        graph = graph.copy()
        Followed(graph)  # equal sizes by one name: what is added up or joined lies in one layout
    egraph = EGraph(graph, sizes, fold_limit)
    space = space_of(egraph, Costs(egraph, prices), block_size(), rules=rules)
    if space is None:
        return None, None
    extraction = space.cheapest()
    further = _for_kernels(space, extraction, filters, ())
    return _taken_out(space, extraction, ()), further


def _for_kernels(
    space: Space,
    extraction: Extraction,
    filters: Collection[tuple[int, int]],
    applications: Sequence[Application],
) -> LaidOutPlan | None:
    """Take out what is the cheapest where convolutions that kernels may compute count less."""
    parts = dict.fromkeys(promising(space.blocking, filters), PROMISE)
    if not parts:
        return None
    by_parts = space.cheapest_by_parts(parts, extraction.selection)
    chosen = [
        {c.node for c in extraction_.selection.values()} for extraction_ in (by_parts, extraction)
    ]
    return None if chosen[0] == chosen[1] else _taken_out(space, by_parts, applications)


def lay_out_jointly(
    search_result: SearchResult,
    rules: Sequence[Rule],
    forbidden: Collection[str] = (),
    filters: Collection[tuple[int, int]] = (),
) -> tuple[LaidOutPlan | None, LaidOutPlan | None]:
    """Find the cheapest way to compute what a search found when values may lie in blocks.

    Everything that rules made is a choice beside every layout: a rewrite that pays in blocks alone
    is found, and one that doesn't pay there is left out; convolutions are merged wherever `rules`
    of several outputs can. `forbidden` names rules to do without. The e-graph of `search_result`
    grows by its blocked classes. None as for `lay_out`. The second is for kernels of convolutions
    by `filters`, where rules have made some for them.
    """
    applications = search_result.growth.applications
    is_freed = bool(filters) and frees(search_result.egraph, applications, filters)
    space = joint_space(search_result, rules, forbidden)
    if space is None:
        return None, None
    extraction = space.cheapest()
    further = _for_kernels(space, extraction, filters, applications) if is_freed else None
    return _taken_out(space, extraction, applications), further


def joint_space(
    search_result: SearchResult, rules: Sequence[Rule], forbidden: Collection[str] = ()
) -> Space | None:
    """The e-graph of a search with its values in any layout, to be searched from its plans."""
    egraph, best = search_result.egraph, search_result.plans[0].selection
    search_result.growth.applications += merge_everywhere(
        egraph, rules, search_result.costs, best, ("Conv",)
    )

    def starts() -> list[Selection]:
        return [
            canonical(egraph, search_result.costs, plan.selection) for plan in search_result.plans
        ]

    return space_of(egraph, search_result.costs, block_size(), starts, forbidden, rules)


def _taken_out(
    space: Space, extraction: Extraction, applications: Sequence[Application]
) -> LaidOutPlan | None:
    selection, egraph = extraction.selection, space.egraph
    if not space.is_blocked(selection):
        return None
    laid = build(egraph, selection, roots_of(egraph, selection), _names(space, selection))
    every = [*applications, *space.blocking.values.applications]
    steps = steps_of(egraph, selection, every, space.costs)
    if not finished(laid, egraph.fold_limit, space.blocking.values.block):
        return None
    return LaidOutPlan(laid, steps, space, extraction)


def _names(space: Space, selection: Selection) -> dict[int, str]:
    """Name what is computed in blocks by the model's own nodes that it takes the place of."""
    egraph = space.egraph
    names: dict[int, str] = {}
    often: Counter[str] = Counter()
    for node in sorted({choice.node for choice in selection.values()}):
        application = egraph.made_by.get(node)
        if application is not None and application.rule in summaries() and application.nodes:
            name = f"{_origin(egraph, application.nodes[0])}{IN_BLOCKS}"
            often[name] += 1
            names[node] = name if often[name] == 1 else f"{name} {often[name]}"
    return names


def _origin(egraph: EGraph, node: int) -> str:
    """The name of the first of the model's own nodes that an e-node came of."""
    while node not in egraph.origin:
        application = egraph.made_by.get(node)
        if application is None or not application.nodes or application.nodes[0] >= node:
            break
        node = application.nodes[0]
    return name_of(egraph, node)


def sources(graph: Graph, number: int, steps: Sequence[Step]) -> tuple[str, ...]:
    """The names of the model's nodes that one of a plan computes, by the steps that led to it."""
    name, in_blocks, _ = graph.node_name(number).partition(IN_BLOCKS)
    if not in_blocks:
        return (name,)
    laid = (step.nodes for step in steps if step.rule in summaries() and name in step.nodes[:1])
    return next(laid, (name,))


def finished(graph: Graph, fold_limit: int, block: int) -> bool:
    """Compute the weights of a plan, guard it, import its operators; False where it can't be."""
    clean(graph, fold_limit)
    for number, node in list(graph.nodes.items()):
        if node.domain != FILTERS:
            continue
        (source,), (output,) = node.inputs, node.outputs
        array = graph.constant(source)
        if array is None:
            return False
        laid = computed(node.op_type, array, graph.attributes(number))
        graph.remove_node(number)
        graph.set_constant(output, graph.shelve(laid))
    guard(graph, block)
    base = onnx.ModelProto()
    base.CopyFrom(graph.base)
    base.opset_import.add(domain=NCHWC, version=VERSION)
    graph.base = base
    clean(graph, fold_limit)
    for node in graph.nodes.values():  # nobody but the runtime knows these operators' types
        type_ = graph.types.get(node.outputs[0])
        if node.domain == NCHWC and type_ is not None:
            name = graph.names[node.outputs[0]]
            base.graph.value_info.append(onnx.ValueInfoProto(name=name, type=type_proto(type_)))
    return True


def moves(run: Counter[str]) -> int:
    """Count the operators that do nothing but move images from one layout to another."""
    return sum(run[name] for name in MOVES)


def reorders_less(graph: Graph, run: Counter[str]) -> bool:
    """Whether a plan reorders less often than the runtime does where it lays the model out itself.

    `run` counts the operators that it runs then. Else the plan is what the runtime makes anyway.
    """
    operators = Counter(node.op_type for node in graph.nodes.values())
    return operators["ReorderOutput"] > 0 and moves(operators) < moves(run)
