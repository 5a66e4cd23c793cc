"""The whole way: a model in, candidates derived, verified and raced, the best one out."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from ..catalog import Catalog
from ..catalog.onnx_reader import read_model, store_model
from ..catalog.onnx_writer import skeleton_model
from ..profiles.costs import CostModel
from ..profiles.execution import embed
from ..profiles.kernel import Kernel
from ..profiles.machine import cores
from ..rules import Rule, store_rules
from ..rules.gate.admit import applicable
from .contest import ORIGINAL, Contest, Plan
from .explain import near_misses
from .fold import FOLD_LIMIT
from .infer import infer_types
from .keep import keep_plans
from .kernels.candidates import fused_plans
from .kernels.library import require_compiler
from .node_story import Question
from .openings import alternatives
from .phases import Phases, Progress
from .planner import Planner
from .price import Prices, kernels_of_graph
from .qualifying import is_roomy, qualify
from .realize import Workshop
from .record import record_plan
from .result import Optimization
from .rewrite import Step
from .screening import screen, select
from .search import bound_types, order_by_bound
from .setting import CLASSES, SEARCHES, TARGETS, Setting
from .signature import signature
from .sizes import sizes_from
from .view import drawn_graph, operator_costs, predicted_ns
from .words import candidate_of, details, verdict_of, version_of

if TYPE_CHECKING:
    from .report.schema import DrawnGraph, Headline

Source = str | Path | bytes | onnx.ModelProto

# Of the budget, what measuring kernels may take; racing has the rest.
MEASURING_SHARE = 0.3
# Of the races, what finding out which rules help and harm may take.
SCREENING_SHARE = 0.5
# How many plans of the e-graph may race.
BEST_PLANS = 4
# Of what that leaves, what choosing among many plans may take.
QUALIFYING_SHARE = 0.25
# Of what that leaves, what finding out how plans are best opened may take.
OPENING_SHARE = 0.3
# Of what that leaves, what finding out which operators are worth a kernel may take.
KERNELS_SHARE = 0.5


def optimize(
    model: Source,
    *,
    target: str = TARGETS[0],
    threads: int | None = None,
    budget: float = 30.0,
    allow: Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    catalog: Catalog | str | Path | None = None,
    progress: Progress | None = None,
    rules: Sequence[Rule] | None = None,
    fold_limit: int = FOLD_LIMIT,
    seed: int = 0,
    search: str = SEARCHES[0],
    keep: str | Path | None = None,
) -> Optimization:
    """Find a model that computes the same and runs faster on this machine, or keep the original.

    `model` is a path, serialized bytes, or a ModelProto. `target` is "onnxruntime-cpu" or "onnx"
    (standard operators only); `threads` defaults to the machine's cores; `budget` is in seconds,
    for measuring; `allow` names the classes of substitution that may be applied. `input_shapes`
    binds free dimensions for measuring, by input name: the model itself stays dynamic. `catalog`
    is an open Catalog, a path, or None for the user's own. `progress` is called with
    (phase, done, total, detail). `rules` replaces the shipped rules that are
    proved, and is taken as it is. `fold_limit`, in bytes, bounds a folded constant that is larger
    than what it was computed from. `search` is "egraph" for the best plans of an e-graph beside
    single rewrites that gain, or "gains" for those alone. `keep` is a DuckDB file that the plans
    are written to, and the e-graph if there is one.

    Raises ModelError for a model that can't be read, CatalogError for a catalog that can't be used,
    OptionError for an option with an impossible value.
    """
    setting = Setting(
        target=target,
        threads=cores() if threads is None else threads,
        budget=budget,
        allow=tuple(allow),
        input_shapes={name: tuple(shape) for name, shape in (input_shapes or {}).items()},
        fold_limit=fold_limit,
        seed=seed,
        search=search,
    )
    if setting.fuses:
        require_compiler()
    kept = None if keep is None else Path(keep)
    phases = Phases(progress)
    base = applicable() if rules is None else tuple(rules)
    if isinstance(catalog, Catalog):
        return _run(catalog, setting, phases, base, model, kept)
    opened = Catalog(catalog)
    try:
        result = _run(opened, setting, phases, base, model, kept)
    except BaseException:
        opened.close()
        raise
    if opened.path != ":memory:":
        # The result opens the file again when asked for the model; till then others may write.
        opened.close()
        result.catalog = None
    return result


def _run(
    catalog: Catalog,
    setting: Setting,
    phases: Phases,
    rules: Sequence[Rule],
    source: Source,
    kept: Path | None,
) -> Optimization:
    with Workshop(catalog) as workshop:
        run = _Run(catalog, setting, phases, rules, workshop, source, kept)
        run.propose(run.planner.simplify("simplified"))
        contest = run.open_contest()
        if contest is not None:
            try:
                run.compete(contest)
            finally:
                contest.close()
        return run.finish()


class _Run:
    """One optimization: the original, the plans derived from it, and the winner so far."""

    def __init__(
        self,
        catalog: Catalog,
        setting: Setting,
        phases: Phases,
        rules: Sequence[Rule],
        workshop: Workshop,
        source: Source,
        kept: Path | None,
    ) -> None:
        """Read the model."""
        self.kept = kept
        self.catalog, self.setting, self.phases, self.workshop = catalog, setting, phases, workshop
        with phases("reading", str(source) if isinstance(source, (str, Path)) else ""):
            store_rules(catalog, rules)
            self.model_id = read_model(catalog, source)
            self.skeleton = skeleton_model(catalog, self.model_id)
            graph = workshop.read(self.skeleton)
            graph.types = infer_types(graph)
            # Like the plans, so that the same weights are mapped and nothing else tells them apart.
            self.original = Plan(ORIGINAL, graph, source=workshop.place(ORIGINAL, self.skeleton))
            self.sizes: dict[str, int] = sizes_from(graph, setting.input_shapes)
            self.prices = Prices(
                CostModel(catalog, threads=setting.threads),
                budget_s=setting.budget * MEASURING_SHARE,
            )
        self.planner = Planner(setting, phases, rules, graph, self.prices)
        self.plans: list[Plan] = []
        self.known = {signature(graph)}
        self.winner = self.original
        self.problem = ""

    def propose(self, plan: Plan) -> None:
        """Let a plan take part if it changes anything that another one does not."""
        own = signature(plan.graph)
        if own not in self.known:
            self.known.add(own)
            self.plans.append(plan)

    def open_contest(self) -> Contest | None:
        """Run the original on generated inputs; None, and the problem, where it can't be run."""
        size_bytes = self._size_bytes()
        with self.phases("running the original"):
            widened = self.workshop.place_widened(self.skeleton, size_bytes)
            try:
                contest = Contest(
                    self.original,
                    self.setting,
                    self.phases,
                    given=self.sizes,
                    size_bytes=size_bytes,
                    widened=widened,
                )
            except Exception as error:  # whatever the runtime raises is its reason to refuse
                self.problem = " ".join(str(error).split())[:300]
                return None
        self.sizes = contest.sizes
        return contest

    def compete(self, contest: Contest) -> None:
        """Search by cost, try rules one by one, verify, and race what came of it."""
        start = self.plans[0] if self.plans else self.original
        explored = self.planner.explore("explored", start, self.sizes)
        self.propose(explored)
        if self.setting.search == "egraph":
            # From the model as it is: what is always applied is a choice there too.
            bare = self.planner.simplify("no rules", rules=())
            count = BEST_PLANS if is_roomy(contest) else 1
            for plan in self.planner.grow("e-graph", bare, self.sizes, count, self.kept):
                if self.predicted(plan) < self.predicted(self.original):
                    self.propose(plan)
        racing = self.setting.budget * (1 - MEASURING_SHARE) + max(0.0, self.prices.left_s)
        start_s = time.monotonic()
        screening = screen(self.planner, contest, self.workshop, racing * SCREENING_SHARE)
        if screening.laps:
            self.propose(select(self.planner, contest, screening))
        if "rounding" in self.setting.allow:
            self.propose(self.planner.attend("by blocks", (*self.plans[::-1], self.original)))
        racing -= min(racing * SCREENING_SHARE, time.monotonic() - start_s)
        for plan in self.plans:
            with self.phases("verifying", plan.name):
                plan.source = self.workshop.place_plan(plan.name, plan.graph)
                contest.verify(plan)
        self._price()
        finalists = qualify(contest, self.plans, racing * QUALIFYING_SHARE)
        racing *= 1 - QUALIFYING_SHARE if len(finalists) < len(self.plans) else 1
        if self.setting.for_runtime:
            sound = sorted((self.original, *finalists), key=lambda plan: plan.predicted_ns or 0.0)
            start_s, share_s = time.monotonic(), racing * OPENING_SHARE
            opened = alternatives(contest, sound, share_s)
            self.plans += opened
            finalists += opened
            racing -= min(share_s, time.monotonic() - start_s)
        if self.setting.fuses:
            start_s, share_s = time.monotonic(), racing * KERNELS_SHARE
            fused = fused_plans(
                contest, self.workshop, self.phases, finalists, share_s, self.prices.fused
            )
            for plan in fused:
                plan.predicted_ns = self.predicted(plan)
            self.plans += fused
            finalists += fused
            racing -= min(share_s, time.monotonic() - start_s)
        self.winner = contest.race(finalists, racing)

    def _price(self) -> None:
        """Measure what the budget still allows of all plans' kernels, dearest first."""
        with self.phases("measuring"):
            kernels = [
                kernel
                for plan in (self.original, *self.plans)
                for kernel in self.kernels(plan).values()
            ]
            self.prices.measure(
                order_by_bound(kernels, self.prices),
                lambda done, total, what: self.phases.tell("measuring", done, total, what),
            )
        for plan in (self.original, *self.plans):
            plan.predicted_ns = self.predicted(plan)

    def finish(self) -> Optimization:
        """Explain, record, and hand over."""
        winner, original = self.winner, self.original
        with self.phases("explaining"):
            rules = (*self.planner.always, *self.planner.explorative)
            closest = self._closest() if winner is original else winner
            near = near_misses(rules, closest.graph)
            steps = closest.steps
            if winner is original:
                steps = [lost(step, closest) for step in steps]
        candidates = [
            candidate_of(plan, winner=plan is winner, raced=not self.problem)
            for plan in (original, *self.plans)
        ]
        deviations = [item for plan in self.plans for item in plan.deviations]
        if self.kept is not None:
            keep_plans((original, *self.plans), candidates, self.kept)
        with self.phases("recording"), self.catalog.transaction():
            result_id = self.model_id
            if winner is not original:
                skeleton = self.workshop.skeleton(winner.graph)
                embed(skeleton, winner.execution)
                result_id = store_model(self.catalog, skeleton, parent_model_id=self.model_id)
            plan_id = record_plan(
                self.catalog,
                self.setting,
                self.model_id,
                result_id,
                winner.name,
                steps,
                candidates,
                deviations,
            )
        nodes = len(original.graph.nodes)
        headline: Headline = {
            "tensolog": version_of("tensolog"),
            "chosen": winner.name,
            "verdict": verdict_of(winner, self.plans, self.problem),
            "nodes_before": nodes,
            "nodes_after": nodes if winner is original else len(winner.graph.nodes),
        }
        return Optimization(
            plan_id=plan_id,
            model_id=self.model_id,
            result_model_id=result_id,
            plan=steps,
            candidates=candidates,
            deviations=deviations,
            details=details(
                headline,
                self.catalog,
                self.setting,
                self.phases,
                self.model_id,
                self.skeleton,
                self.sizes,
            ),
            near_misses=near,
            execution=winner.execution,
            libraries={
                path.name: self.workshop.file(path.name) for path in winner.execution.libraries
            },
            operators=operator_costs(
                (original.graph, self.kernels(original)),
                (winner.graph, self.kernels(winner)),
                self.prices,
            ),
            graphs=(self._drawn(original, steps), self._drawn(winner, ())),
            question=Question(self.setting, self.planner.base, dict(self.sizes)),
            catalog=self.catalog,
            catalog_path=self.catalog.path,
        )

    def _closest(self) -> Plan:
        """The plan that came closest to winning, the last one derived where none was raced."""
        raced = [(plan.lap.ratio, place) for place, plan in enumerate(self.plans) if plan.lap]
        if raced:
            return self.plans[min(raced)[1]]
        return self.plans[-1] if self.plans else self.original

    def kernels(self, plan: Plan) -> dict[int, Kernel]:
        """Give a plan's kernels under the sizes it is measured with."""
        return kernels_of_graph(plan.graph, bound_types(plan.graph, self.sizes))

    def predicted(self, plan: Plan) -> float:
        """Add up what a plan is expected to take, in nanoseconds."""
        return predicted_ns(self.kernels(plan), self.prices)

    def _drawn(self, plan: Plan, steps: Sequence[Step]) -> DrawnGraph:
        graph = plan.graph
        rules = {name: step.rule for step in steps if step.accepted for name in step.nodes}
        return drawn_graph(
            graph,
            bound_types(graph, self.sizes),
            self.kernels(plan),
            self.prices,
            {number: rules.get(graph.node_name(number), "") for number in graph.nodes},
        )

    def _size_bytes(self) -> int:
        ((size,),) = self.catalog.connection.execute(
            "SELECT size_bytes FROM model WHERE model_id = ?", [self.model_id]
        ).fetchall()
        return int(size)


def lost(step: Step, plan: Plan) -> Step:
    """Mark a step of a plan that lost: it was tried, and is in no model."""
    if not step.accepted:
        return step
    reason = plan.refusal or "not faster end to end"
    return replace(step, accepted=False, reason=f"tried in the {plan.name} plan: {reason}")
