"""The state of one optimization: what passes read, and what they add to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from ..catalog import Catalog
from ..catalog.onnx.reader import read_model
from ..catalog.onnx.writer import skeleton_model
from ..profiles.kernel import Kernel
from ..profiles.kernels.costs import CostModel, Predictions
from ..profiles.machine import load_machine
from ..profiles.sessions.execution import AS_WRITTEN, DEFAULTS
from ..rules import Rule
from ..rules.gate.ledger.proof_tables import store_ledger
from .graph.free_sizes import sizes_from
from .graph.infer import bound_types, infer_types
from .graph.signature import signature
from .match.rewrite import Step
from .native.configured_kinds import ConfiguredKinds
from .native.kernel_plans import KernelPlans
from .native.kernel_selection import Fusing
from .phases import Phases
from .planner import Planner
from .price import Prices, kernels_of_graph
from .race.candidate_files import CandidateFiles
from .race.contest import ORIGINAL, Contest, Plan
from .race.prediction import Prediction
from .race.screening import Screening
from .race.shortlist import LEAST_ROUNDS
from .rewrites.compute_in_float32 import basis_of
from .schedule import Schedule
from .setting import Setting

if TYPE_CHECKING:
    from .driver import Source


# Imported within functions: what predicts costs, which loads a model.

# The part of all time that is reserved at most for compiling kernels for other processors.
DELIVERING_SHARE = 0.15


@dataclass(frozen=True)
class Cut:
    """A pass that was ended before it was done, and the seconds that it ran."""

    name: str
    seconds: float


@dataclass
class State:
    """The model, the plans derived from it, what was found out about them, and the winner so far.

    `plans` may be the winner; others are means to derive plans: `start`, with the rules that
    screening chose, `explored`, of single rewrites, `laid_out`, with blocked values. `rivals` are
    plans that may be faster than the original, `finalists` those that race to the end. `losing` are
    steps of rules that lose NaN or infinities, and are in no plan. `problem` says why there is no
    contest, if there is none. `only_processors` names those that the winner's kernels run on,
    unless they run on all. `libraries` are files that go with the winner, `search_file` is a file
    that the search is written to.
    """

    catalog: Catalog
    setting: Setting
    phases: Phases
    candidate_files: CandidateFiles
    search_file: Path | None
    model_id: int
    skeleton: onnx.ModelProto
    original: Plan
    sizes: dict[str, int]
    prices: Prices
    run_prices: Prices
    forecast: Predictions | None
    planner: Planner
    schedule: Schedule
    plans: list[Plan] = field(default_factory=list)
    laid_out: list[Plan] = field(default_factory=list)
    losing: list[Step] = field(default_factory=list)
    start: Plan | None = None
    explored: Plan | None = None
    screening: Screening = field(default_factory=lambda: Screening({}))
    rivals: list[Plan] = field(default_factory=list)
    finalists: list[Plan] = field(default_factory=list)
    cut: list[Cut] = field(default_factory=list)
    libraries: dict[str, bytes] = field(default_factory=dict)
    problem: str = ""
    only_processors: str = ""
    is_interrupted: bool = False

    def __post_init__(self) -> None:
        self.winner = self.original
        self._contest: Contest | None = None
        self._prediction: Prediction | None = None
        self._kernel_plans: KernelPlans | None = None
        self._plan_keys = {
            (signature(graph), self.original.execution)
            for graph in (
                self.original.graph,
                *([] if self.planner.steps_before else [self.planner.original]),
            )
        }

    @property
    def contest(self) -> Contest:
        """The original and what challenges it; set by the pass that runs the original."""
        assert self._contest is not None
        return self._contest

    @contest.setter
    def contest(self, contest: Contest) -> None:
        self._contest, self.sizes = contest, contest.sizes

    @property
    def prediction(self) -> Prediction:
        """The kernels that the runtime runs for plans, and their costs."""
        if self._prediction is None:
            self._prediction = Prediction(self.contest, self.run_prices, self.phases)
        return self._prediction

    @property
    def round_s(self) -> float:
        """Seconds that a round of a plan and the original takes; 0 where nothing was run."""
        return 0.0 if self._contest is None else self._contest.round_s

    @property
    def kernel_plans(self) -> KernelPlans:
        """Plans with generated kernels, and the measured times of these."""
        if self._kernel_plans is None:
            self._kernel_plans = KernelPlans(
                self.contest,
                self.candidate_files,
                self.phases,
                self.prices.fused,
                ConfiguredKinds(self.catalog, self.setting.threads),
            )
        return self._kernel_plans

    @property
    def fused(self) -> Sequence[Fusing]:
        """The plans that kernels were looked for in."""
        return () if self._kernel_plans is None else self._kernel_plans.fused

    @property
    def delivering_s(self) -> float:
        """Seconds to reserve for compiling kernels for all processors; 0 if there are none.

        Limited to a part of all time: on processors like this one the result is as fast without.
        """
        if self._kernel_plans is None or not self._kernel_plans.delivering_s:
            return 0.0
        expected_s = self._kernel_plans.delivering_s + self.contest.verifying_s
        return min(expected_s, DELIVERING_SHARE * self.setting.most_s)

    @property
    def measuring_s(self) -> float:
        """Seconds that were spent on measuring kernels so far."""
        return self.prices.spent_s + self.run_prices.spent_s

    @property
    def is_over(self) -> bool:
        """Whether nothing can be verified or measured, so that no pass has anything to do."""
        return bool(self.problem)

    @property
    def first(self) -> Plan:
        """The first plan without generated kernels; else the model as rules are applied to it."""
        first = next((plan for plan in self.plans if plan.base is None), None)
        if first is not None:
            return first
        basis = self.planner.original
        if basis.opset() == self.original.graph.opset() and not self.planner.steps_before:
            return self.original
        return Plan(self.original.name, basis.copy(), steps=list(self.planner.steps_before))

    def propose(self, plan: Plan) -> None:
        """Add a plan, unless an equal graph opened in the same way is there."""
        key = (signature(plan.graph), plan.execution)
        if key not in self._plan_keys:
            self._plan_keys.add(key)
            self.plans.append(plan)

    def kernels(self, plan: Plan) -> dict[int, Kernel]:
        """Return a plan's kernels, by node, under the sizes it is measured with."""
        return kernels_of_graph(plan.graph, bound_types(plan.graph, self.sizes))

    def expected_cost(self, plan: Plan) -> tuple[bool, float]:
        """Return a plan's expected cost in nanoseconds, and before it whether that is a guess.

        The sum of its operators' costs, less what generated kernels save, which was measured beside
        the operators that the runtime runs. It is a guess where some operators are counted with
        their bounds alone. Of a plan that was raced, the time in the race counts.
        """
        if plan.lap is not None and plan.lap.samples >= LEAST_ROUNDS and plan is not self.original:
            return False, self.expected_cost(self.original)[1] * plan.lap.ratio
        if plan.base is not None:
            return False, self.expected_cost(plan.base)[1] - plan.gain_ns
        cost = self.prices.total(list(self.kernels(plan).values()))
        return cost.source != "measured", cost.ns

    def predicted_ns(self, plan: Plan) -> float:
        """Return the sum of a plan's kernels: measured costs, else predicted ones, else bounds."""
        total_ns = 0.0
        for kernel in self.kernels(plan).values():
            cost = self.prices.cost(kernel)
            if cost.source == "bound" and self.forecast is not None:
                cost = self.forecast.cost(kernel) or cost
            total_ns += cost.ns
        return total_ns

    def size_bytes(self) -> int:
        """Return the size of the model's file and weights."""
        ((size,),) = self.catalog.connection.execute(
            "SELECT size_bytes FROM model WHERE model_id = ?", [self.model_id]
        ).fetchall()
        return int(size)

    def end_early(self) -> None:
        """Take the best plan that was verified and raced so far, after an interrupt."""
        self.phases.mute()
        self.is_interrupted = True
        self.take_incumbent()

    def take_incumbent(self) -> None:
        """Take the best plan that was verified and raced so far, else the original."""
        best = None if self._contest is None else self._contest.incumbent
        self.winner = best or self.original

    def close(self) -> None:
        """Remove what was stored for the contest."""
        if self._contest is not None:
            self._contest.close()


def _forecast(catalog: Catalog, setting: Setting) -> Predictions | None:
    """The shipped model of kernel costs for this processor, unless `costs` excludes it."""
    if setting.costs == "measured":
        return None
    from ..profiles.learning.kernel_costs import shipped_forecast

    return shipped_forecast(load_machine(catalog), setting.threads, DEFAULTS.level)


def read(
    source: Source,
    *,
    catalog: Catalog,
    setting: Setting,
    phases: Phases,
    rules: Sequence[Rule],
    candidate_files: CandidateFiles,
    search_file: Path | None,
) -> State:
    """Read a model into the state that the first pass begins with."""
    with phases("reading", str(source) if isinstance(source, (str, Path)) else ""):
        store_ledger(catalog, rules)
        model_id = read_model(catalog, source)
        skeleton = skeleton_model(catalog, model_id)
        graph = candidate_files.read(skeleton)
        graph.types = infer_types(graph)
        original = Plan(ORIGINAL, graph, nodes_in_file=len(skeleton.graph.node))
        # Written like the plans: the same weights are mapped, and nothing else tells files apart.
        original.source = candidate_files.place(ORIGINAL, skeleton)
        forecast = _forecast(catalog, setting)
        deciding = forecast if setting.costs == "predicted" else None
        model = CostModel(catalog, threads=setting.threads, predictions=deciding)
        prices = Prices(model, budget_s=0.0)
        # Models of what the runtime runs are not optimized by it once more.
        as_written = CostModel(catalog, threads=setting.threads, configuration=AS_WRITTEN.level)
        run_prices = Prices(as_written, budget_s=0.0, fused=prices.fused)
    basis, steps_before = basis_of(graph, setting, rules)
    return State(
        catalog=catalog,
        setting=setting,
        phases=phases,
        candidate_files=candidate_files,
        search_file=search_file,
        model_id=model_id,
        skeleton=skeleton,
        original=original,
        sizes=sizes_from(graph, setting.input_shapes),
        prices=prices,
        run_prices=run_prices,
        forecast=forecast,
        planner=Planner(setting, phases, rules, basis, prices, steps_before),
        schedule=Schedule(setting.budget, end=phases.start + setting.most_s),
    )
