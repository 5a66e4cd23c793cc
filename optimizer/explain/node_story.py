"""What happened to one node of a model, and why not something else: `explain --node`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from ...rules import Rule, load_rules
from ..egraph.derivations.derive_all import derive
from ..egraph.egraph import EGraph
from ..egraph.extraction.e_node_costs import Costs, original_selection, problem_of
from ..egraph.extraction.extract import extract
from ..egraph.extraction.merges import merge, pairs_neighbours
from ..egraph.plan_steps import name_of
from ..egraph.saturation.saturate import Growth, saturate
from ..graph.fold import fold_constants
from ..graph.graph import Graph
from ..graph.infer import bound_types
from ..graph.simplify import remove_dead, share_constants, share_subexpressions
from ..match.matcher import Matcher
from ..match.rewrite import Step
from ..price import Prices, kernel_of
from ..report.notebook import Text
from ..setting import OptionError, Setting
from .near_misses import near_misses
from .node_options import Asker
from .partial_match import nearest
from .reason_text import story_text
from .reasons import (
    IN_PLAN,
    NOT_ALLOWED,
    PATTERN,
    WITHOUT_USE,
    LayoutOption,
    NodeOption,
    NodeOptions,
    Reason,
)

# Imported within functions: layouts, for the targets that have any.


@dataclass
class NodeStory:
    """One node: what became of it, what else could, and the rules that matched there or nearly.

    `matches` are reasons of rules that match at it, `refusals` of those that don't or may not be
    applied. Costs are in nanoseconds; `more_ns` is what the cheapest plan would cost more. `steps`
    are those of a plan that was raced, where there is one. `layouts` are those that its values
    could have, where the model can be laid out in blocks at all; `beside` names what the plan
    computes in one with it there, `refusal` says why it can't be there, by the
    `refusing_clause` of layouts.dl, if it is one that says so. `growth` says whether all was found
    that the rules lead to.
    """

    node: str
    operator: str
    cost_ns: float | None
    source: str
    fate: str
    plan_ns: float | None
    own_ns: float | None
    steps: list[Step] = field(default_factory=list)
    ways: list[NodeOption] = field(default_factory=list)
    matches: list[Reason] = field(default_factory=list)
    refusals: list[Reason] = field(default_factory=list)
    layouts: list[LayoutOption] = field(default_factory=list)
    beside: tuple[str, ...] = ()
    refusal: str = ""
    refusing_clause: str = ""
    growth: str = ""

    def text(self) -> str:
        """Lay the story out for a terminal."""
        return story_text(self)

    def _repr_html_(self) -> str:
        return Text(self.text())._repr_html_()

    def to_json(self) -> dict[str, object]:
        """Give the story as plain values."""
        plain_values = {field_.name: getattr(self, field_.name) for field_ in fields(self)}
        del plain_values["matches"]
        return {
            **plain_values,
            "steps": [asdict(step) for step in self.steps],
            "ways": [asdict(way) for way in self.ways],
            "uses": [reason.match_json() for reason in self.matches],
            "refusals": [reason.refusal_json() for reason in self.refusals],
            "layouts": [asdict(option) for option in self.layouts],
        }


@dataclass(frozen=True)
class Question:
    """What an answer depends on beside the model: options, the rules to apply, free sizes."""

    setting: Setting
    rules: tuple[Rule, ...]
    sizes: Mapping[str, int]


def answer(
    graph: Graph,
    name: str,
    question: Question,
    prices: Prices,
    steps: Sequence[Step] = (),
) -> NodeStory:
    """Say what becomes of the node of a name in a graph whose types are known.

    Of the shipped rules that are not among those to apply it is said why they may not. Nothing is
    measured: kernels cost what is stored, or their bounds. Raises OptionError where no node, and
    no value that one gives, has the name.
    """
    setting, sizes = question.setting, question.sizes
    all_rules = (*question.rules, *load_rules())
    number = number_of(graph, name)
    chosen = [
        r for tag in ("always", "explore") for r in setting.select(question.rules, graph, tag)
    ]
    kernel = kernel_of(graph, number, bound_types(graph, sizes))
    cost = None if kernel is None else prices.model.cost(kernel)
    story = NodeStory(
        node=graph.node_name(number),
        operator=graph.nodes[number].operator,
        cost_ns=None if cost is None else cost.ns,
        source="" if cost is None else cost.source,
        fate="",
        plan_ns=None,
        own_ns=None,
        steps=_done_to(graph, number, steps),
        refusals=_refusals(graph, number, setting, chosen, all_rules),
    )
    small = graph.copy()
    cleaned_by = _cleaned(small, number, setting.fold_limit)
    if cleaned_by:
        story.fate = cleaned_by
        return story
    egraph = EGraph(small, sizes, setting.fold_limit)
    grown = [rule for rule in chosen if not pairs_neighbours(rule)]
    rounding = "rounding" in setting.allow
    growth = saturate(egraph, grown, rounding=rounding)
    passes = setting.select(question.rules, graph, "pass")
    if rounding:
        growth.applications += derive(egraph, passes, contributed=setting.contributes)
    costs = Costs(egraph, prices)
    merges = _merges(egraph, growth, costs, chosen, number)
    options = _standing(story, egraph, growth, costs, number, setting, passes)
    story.ways, story.matches = options.ways, [*options.matches, *merges]
    # Graphs ask that interior values have no other user, an e-graph doesn't.
    used = {(match.rule, match.nodes) for match in story.matches}
    story.refusals = [r for r in story.refusals if (r.rule, r.nodes) not in used]
    explained = {reason.rule for reason in (*story.matches, *story.refusals)}
    others = [rule for rule in chosen if rule.name not in explained]
    story.refusals += _lacking(graph, number, [*others, *passes])
    story.plan_ns, story.own_ns = options.plan_ns, options.own_ns
    story.fate = _fate(story, options)
    story.growth = _growth(growth)
    return story


def about(story: NodeStory, rule: Rule) -> NodeStory:
    """Keep of a story what it says of one rule; what it can't say, since it is about others."""
    matches = [match for match in story.matches if match.rule == rule.name]
    refusals = [refusal for refusal in story.refusals if refusal.rule == rule.name]
    steps = [step for step in story.steps if step.rule == rule.name]
    if not (matches or refusals or steps):
        operators = dict.fromkeys(op for node in rule.match for op in node.operators)
        detail = f"it is about {', '.join(operators)}; this is {story.operator}"
        if story.operator in operators:
            detail = f"nothing is left to look at: the node is {story.fate}"
        refusals = [Reason(rule.name, (story.node,), PATTERN, detail)]
    return replace(story, matches=matches, refusals=refusals, steps=steps)


def _merges(
    egraph: EGraph, growth: Growth, costs: Costs, rules: Sequence[Rule], number: int
) -> list[Reason]:
    """Try rules of several outputs on the cheapest plan, as the search does.

    Those that were tried count with what matched otherwise; of the others at the node it is said
    that they weren't.
    """
    (node,) = (e_node for e_node, graph_node in egraph.origin.items() if graph_node == number)
    problem = problem_of(egraph, costs)
    best = extract(problem, original_selection(egraph, problem))
    merged = merge(egraph, rules, costs, best.selection)
    growth.applications += merged.applications
    why = "not tried, since no plan with it promised to be cheaper"
    return [
        Reason(
            match.rule.name,
            tuple(name_of(egraph, other) for other in match.nodes.values()),
            WITHOUT_USE,
            why,
        )
        for match in merged.untried
        if node in match.nodes.values()
    ]


def _lacking(graph: Graph, number: int, rules: Sequence[Rule]) -> list[Reason]:
    """Of rules about a node's operator, how far their patterns go at it; the nearest first."""
    operator = graph.nodes[number].operator
    relevant_rules = [r for r in rules if any(operator in node.operators for node in r.match)]
    parts = [(nearest(rule, graph, number), rule) for rule in relevant_rules]
    return [
        Reason(
            rule.name,
            tuple(map(graph.node_name, part.nodes)),
            PATTERN,
            part.reason or _no_use(rule),
        )
        for part, rule in sorted(parts, key=lambda pair: pair[0].missing)
    ]


def _no_use(rule: Rule) -> str:
    if rule.tag == "pass":
        return "it matches; a pass of its own applies it where it sees that it pays"
    return "it matches, but the search has no use for it"


def _standing(
    story: NodeStory,
    egraph: EGraph,
    growth: Growth,
    costs: Costs,
    number: int,
    setting: Setting,
    passes: Sequence[Rule],
) -> NodeOptions:
    """Ask with layouts where the target has any, else without."""
    from .layout_options import options_in_layouts

    if setting.contributes:
        in_layouts = options_in_layouts(egraph, growth, costs, number, passes)
        if in_layouts is not None:
            story.layouts, story.beside = in_layouts.layout_options, in_layouts.beside
            story.refusal = in_layouts.refusal
            story.refusing_clause = in_layouts.refusing_clause
            return in_layouts
    return Asker(egraph, growth.applications, costs).answer(number)


def _done_to(graph: Graph, number: int, steps: Sequence[Step]) -> list[Step]:
    """The steps that a node took part in, or what stands in its place after the steps before.

    What a rewrite makes has no name of its own, and is called by the value that it gives.
    """
    numbers = {graph.node_name(other): other for other in graph.nodes}
    names = {graph.node_name(number)}
    taken_part = []
    for step in steps:
        if names.isdisjoint(step.nodes):
            continue
        taken_part.append(step)
        if step.accepted:
            others = [numbers[name] for name in step.nodes if name in numbers]
            values = {value for other in others for value in graph.nodes[other].outputs}
            value_names = {graph.value_name(value) for value in values}
            names |= {
                name
                for later in steps
                for name in later.nodes
                if name not in numbers and name.partition("(")[2].removesuffix(")") in value_names
            }
    return taken_part


def number_of(graph: Graph, name: str) -> int:
    """Return the node of a name, or that gives the value of it; OptionError where there is none."""
    names = {graph.node_name(number): number for number in graph.nodes}
    by_output = {
        graph.value_name(value): number
        for number, node in graph.nodes.items()
        for value in node.outputs
    }
    number = names.get(name, by_output.get(name))
    if number is None:
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise OptionError(f"no node is called {name!r}{hint}")
    return number


def _cleaned(graph: Graph, number: int, fold_limit: int) -> str:
    """Fold, share and drop in place; say what became of a node that is gone by that."""
    fold_constants(graph, fold_limit)
    if number not in graph.nodes:
        return "folded, since it depends on constants alone"
    share_constants(graph)
    for removed, kept in share_subexpressions(graph):
        if removed == number:
            return f"shared, since {graph.node_name(kept)} computes the same"
    remove_dead(graph)
    return "" if number in graph.nodes else "dropped, since no output depends on it"


def _fate(story: NodeStory, options: NodeOptions) -> str:
    others = [name for name in story.beside if name != story.node]
    if story.beside:
        company = f", in one with {', '.join(others)}" if others else ""
        return f"computed in blocks in the cheapest plan{company}"
    if any(way.is_chosen and not way.rule for way in options.ways):
        return "kept in the cheapest plan"
    if not options.is_needed:
        if any(way.note.startswith("known") for way in options.ways):
            return "computed before the model runs"
        rules = dict.fromkeys(match.rule for match in options.matches if match.outcome == IN_PLAN)
        by = f": taken over by {', '.join(rules)}" if rules else ""
        return f"not needed in the cheapest plan{by}"
    rules = dict.fromkeys(way.rule for way in options.ways if way.is_chosen)
    return f"replaced in the cheapest plan by {', '.join(rules)}"


def _growth(growth: Growth) -> str:
    if growth.is_saturated:
        return ""
    paused = f"; {', '.join(growth.paused)} had more matches" if growth.paused else ""
    capped = f"; {', '.join(growth.capped)} capped in a round" if growth.capped else ""
    return f"Not all was looked into: {growth.ended}{paused}{capped}."


def _refusals(
    graph: Graph,
    number: int,
    setting: Setting,
    chosen: Sequence[Rule],
    every: Sequence[Rule],
) -> list[Reason]:
    """Rules that nearly match at a node, and those that match but may not be applied."""
    operator, name = graph.nodes[number].operator, graph.node_name(number)

    def concerned(rules: Sequence[Rule]) -> list[Rule]:
        return [rule for rule in rules if any(operator in node.operators for node in rule.match)]

    refusals = [miss for miss in near_misses(concerned(chosen), graph) if name in miss.nodes]
    names = {rule.name for rule in chosen}
    others = {rule.name: rule for rule in reversed(every) if rule.name not in names}
    barred = concerned(list(others.values()))
    for match in Matcher(barred).find(graph):
        if number in match.nodes.values():
            nodes = tuple(graph.node_name(other) for other in match.nodes.values())
            reason = setting.bar(match.rule, graph.opset()) or "it is not proved"
            refusals.append(Reason(match.rule.name, nodes, NOT_ALLOWED, reason))
    unique = {(refusal.rule, refusal.nodes, refusal.detail): refusal for refusal in refusals}
    return list(unique.values())
