"""Looking without changing: what rules would do to a model, and what its kernels cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...catalog import Catalog
from ...catalog.errors import ModelError
from ...catalog.interruption import interruptible
from ...catalog.onnx.reader import read_model
from ...catalog.onnx.writer import skeleton_model
from ...catalog.store.staging import Scratch
from ...profiles.kernel import Kernel
from ...profiles.kernels.costs import CostModel
from ...profiles.kernels.profile import profile
from ...profiles.machine import cores, load_machine
from ...rules import Rule, correction, load_rules, promise
from ...rules.gate.ledger.admission import applicable
from ..graph.fold import FOLD_LIMIT
from ..graph.free_sizes import guesses, sizes_from
from ..graph.graph import Graph
from ..graph.infer import bound_types, infer_types
from ..layouts.assignments import MOST, assignments_of
from ..layouts.timed_assignments import BELOW_LAYOUTS, cost_graph, time_assignments
from ..match.matcher import Matcher, with_present_operators
from ..match.rewrite import Step, simplify
from ..phases import Progress
from ..price import Prices, kernels_of_graph
from ..race.candidate_files import CandidateFiles
from ..rewrites.compute_in_float32 import basis_of
from ..setting import CLASSES, OptionError, Setting, allowed
from ..target import AUTO, for_rules
from .explanation import Explanation
from .near_misses import near_misses
from .node_story import NodeStory, Question, about, answer
from .partial_match import nearest

if TYPE_CHECKING:
    from ...profiles.learning.samples.archive import CostGraph
    from ..driver import Source


@interruptible()
def explain_model(
    model: Source,
    *,
    rule: str | None = None,
    target: str = AUTO,
    allow: str | Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[Rule] | None = None,
) -> Explanation:
    """Say which rules fire where in a model, and which nearly do; nothing is measured or stored.

    `rule` restricts the answer to one rule. Arguments are those of `optimize`; it raises the same.
    """
    setting = Setting(target=for_rules(target), allow=allowed(allow))
    base = applicable() if rules is None else tuple(rules)
    if rule is not None:
        _named(base, rule)
    with Scratch() as catalog, CandidateFiles(catalog) as candidate_files:
        model_id = read_model(catalog, model)
        graph = candidate_files.read(skeleton_model(catalog, model_id))
        graph.types = infer_types(graph)
        sizes_from(graph, input_shapes or {})
        in_file = graph.opset()
        graph, given = basis_of(graph, setting, base)
        always = setting.select(base, graph, "always")
        explorative = setting.select(base, graph, "explore")
        fired = given + simplify(graph, Matcher(always), fold_limit=FOLD_LIMIT)
        weighed = [
            Step(
                rule=match.rule.name,
                nodes=tuple(graph.node_name(number) for number in match.nodes.values()),
                removed=len(match.nodes),
                added=len(match.rule.rewrite) + len(match.rule.correct),
                accepted=False,
                reason="cost decides",
                equal=promise(match.rule),
                summary=match.rule.summary,
                correction=correction(match.rule),
            )
            for match in Matcher(explorative).find(graph)
        ]
        near = near_misses((*always, *explorative), graph)
        seen = {step.rule for step in (*fired, *weighed)} | {miss.rule for miss in near}
        barred = {known.name: setting.bar(known, graph.opset()) for known in base}
        idle = [known.name for known in base if not barred[known.name] and known.name not in seen]
        barred = {name: why for name, why in barred.items() if why}
        at_home = {known.name for known in with_present_operators(base, graph)}
        foreign = [name for name in idle if name not in at_home]
        explanation = Explanation(
            _name_of(model),
            fired,
            weighed,
            near,
            idle,
            foreign,
            barred,
            opset_in_file=in_file,
            opset=graph.opset(),
        )
        if rule is None:
            return explanation
        reason = "" if rule not in idle else nearest(_named(base, rule), graph).reason
    return replace(_only(explanation, rule), reason=reason)


def _named(rules: Sequence[Rule], name: str) -> Rule:
    rule_ = next((rule for rule in rules if rule.name == name), None)
    if rule_ is None:
        raise OptionError(f"there is no rule {name!r}: tensolog rules list names them all")
    return rule_


@interruptible()
def explain_node(
    model: Source,
    name: str,
    *,
    rule: str | None = None,
    target: str = AUTO,
    threads: int | None = None,
    allow: str | Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    rules: Sequence[Rule] | None = None,
    catalog: Catalog,
) -> NodeStory:
    """Say what becomes of one node of a model, and why not something else.

    `name` is the node's, or that of a value it gives; `rule` restricts what is said of rules to
    one. Costs are those that `catalog` holds of this
    machine, else bounds; nothing is measured or stored. Other arguments are those of `optimize`;
    it raises the same, and OptionError where there is no such node.
    """
    setting = Setting(
        target=for_rules(target),
        allow=allowed(allow),
        threads=cores() if threads is None else threads,
    )
    with Scratch() as scratch, CandidateFiles(scratch) as candidate_files:
        model_id = read_model(scratch, model)
        graph = candidate_files.read(skeleton_model(scratch, model_id))
        graph.types = infer_types(graph)
        sizes = next(guesses(graph, sizes_from(graph, input_shapes or {})))
        asked = Question(setting, applicable() if rules is None else tuple(rules), sizes)
        graph, _ = basis_of(graph, setting, asked.rules)
        story = answer(graph, name, asked, _stored_prices(catalog, setting))
    return story if rule is None else about(story, _named((*asked.rules, *load_rules()), rule))


def explain_node_of(
    catalog: Catalog, model_id: int, name: str, asked: Question, steps: Sequence[Step]
) -> NodeStory:
    """Say the same of a model that a catalog holds, with the steps of its plan."""
    with CandidateFiles(catalog) as candidate_files:
        graph = candidate_files.read(skeleton_model(catalog, model_id))
        graph.types = infer_types(graph)
        graph, _ = basis_of(graph, asked.setting, asked.rules)
        prices = _stored_prices(catalog, asked.setting)
        return answer(graph, name, asked, prices, steps)


def _stored_prices(catalog: Catalog, setting: Setting) -> Prices:
    model = CostModel(catalog, threads=setting.threads, measure=False)
    return Prices(model, budget_s=0.0)


def _only(explanation: Explanation, rule: str) -> Explanation:
    return replace(
        explanation,
        fired=[step for step in explanation.fired if step.rule == rule],
        weighed=[step for step in explanation.weighed if step.rule == rule],
        near_misses=[miss for miss in explanation.near_misses if miss.rule == rule],
        idle=[name for name in explanation.idle if name == rule],
        foreign=[name for name in explanation.foreign if name == rule],
        barred={name: why for name, why in explanation.barred.items() if name == rule},
    )


def _name_of(model: Source) -> str:
    return str(model) if isinstance(model, (str, Path)) else "model"


@interruptible()
def profile_model(
    model: Source,
    *,
    threads: int | None = None,
    budget: float = 30.0,
    level: str = "all",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    catalog: Catalog,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Measure a model's kernels, dearest first, for `budget` seconds; what is stored is reused.

    `level` is the runtime's optimization level, a key of `profiles.sessions.LEVELS`.
    Returns one row a kernel: kernel (a label), operator, calls, nodes, median_ns, spread_ns, source
    ("measured" or "bound"), failure. The model itself is not stored. Raises as `optimize` does.
    """
    setting = Setting(threads=cores() if threads is None else threads, budget=budget)
    kernels = kernels_of_model(model, input_shapes)
    tell = progress or (lambda phase, done, total, detail: None)
    result = profile(
        catalog,
        kernels,
        threads=setting.threads,
        budget_s=setting.budget,
        configuration=level,
        progress=lambda done, total, label: tell("measuring", done, total, label),
    )
    return [
        {
            "kernel": row.kernel.label(),
            "operator": row.kernel.op_type,
            "calls": row.count,
            "nodes": list(row.nodes),
            "median_ns": row.cost.ns,
            "spread_ns": row.cost.spread_ns,
            "source": row.cost.source,
            "failure": row.failure,
        }
        for row in result.kernels
    ]


def kernels_of_model(
    model: Source, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> list[tuple[str, Kernel]]:
    """Return (node name, kernel) for each node of a model whose tensors are all known.

    Raises ModelError for a model that can't be read, or where no shape is known.
    """
    with Scratch() as scratch, CandidateFiles(scratch) as candidate_files:
        model_id = read_model(scratch, model)
        graph = candidate_files.read(skeleton_model(scratch, model_id))
        graph.types = infer_types(graph)
        return _kernels(graph, sizes_from(graph, input_shapes or {}))


def layouts_of_model(
    model: Source,
    name: str,
    *,
    threads: int | None,
    budget: float,
    catalog: Catalog,
    progress: Progress | None,
) -> CostGraph | None:
    """Run a model under assignments of layouts to its operators, in turns, for `budget` seconds.

    All assignments where there are at most 64, else so many drawn ones. Half of the time goes to
    the kernels that they are made of, which `catalog` keeps. Returns them with their times in ns,
    as a graph of TpuGraphs' layout collection; None where no operator may lie in blocks.
    Raises ModelError for a model that can't be read, or whose inputs have free sizes.
    """
    used = cores() if threads is None else threads
    tell = progress or (lambda phase, done, total, detail: None)
    with Scratch() as scratch, CandidateFiles(scratch) as candidate_files:
        graph = candidate_files.read(skeleton_model(scratch, read_model(scratch, model)))
        graph.types = infer_types(graph)
        for value in graph.graph_inputs:
            shape = graph.shape(value)
            if shape is None or not all(isinstance(size, int) for size in shape):
                raise ModelError(
                    f"input {graph.names[value]!r} has a free size: layouts are timed of models "
                    "whose inputs all have fixed ones"
                )
        costs = CostModel(catalog, threads=used, configuration=BELOW_LAYOUTS)
        assignments = assignments_of(graph, Prices(costs, budget_s=budget / 2))
        if assignments is None:
            return None
        tell("measuring", 0, 2, f"kernels in both layouts of {name}")
        assignments.measure()
        chosen = assignments.drawn(MOST, seed=0)
        tell("measuring", 1, 2, f"{len(chosen)} assignments of layouts of {name}")
        timed = time_assignments(assignments, chosen, threads=used, budget_s=budget / 2)
        machine = load_machine(catalog)
        return cost_graph(name, assignments, chosen, timed.times_ns, machine, used)


def _kernels(graph: Graph, given: Mapping[str, int]) -> list[tuple[str, Kernel]]:
    sizes = next(guesses(graph, given))
    kernels = kernels_of_graph(graph, bound_types(graph, sizes))
    if not kernels and graph.nodes:
        raise ModelError(
            "no shape in the model is known: give the shapes of its inputs with --input-shape"
        )
    return [(graph.node_name(number), kernel) for number, kernel in kernels.items()]
