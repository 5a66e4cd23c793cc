"""One optimization under way: plans are derived, verified, priced, and raced; the best one wins."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalog import Catalog
from ..catalog.errors import ModelError
from ..catalog.onnx.reader import read_model
from ..catalog.onnx.writer import skeleton_model
from ..profiles.kernel import Kernel
from ..profiles.kernels.costs import CostModel
from ..profiles.sessions.deployed import DOMAIN
from ..profiles.sessions.execution import AS_WRITTEN
from ..profiles.sessions.session import reason_of
from ..rules import Rule
from ..rules.gate.ledger.catalog_rows import store_ledger
from .deadline import OutOfTimeError, cut_at
from .graph.free_sizes import not_given, sizes_from
from .graph.infer import infer_types
from .graph.raise_opset import raised_for
from .graph.signature import signature
from .layouts.blocking import BLOCKED
from .layouts.plans import LEAST_MOVES, is_news, moves
from .layouts.runtime import NCHWC
from .match.rewrite import Step
from .native.candidates import fused_plans
from .phases import Phases
from .planner import Planner
from .price import Prices, kernels_of_graph
from .purse import Purse
from .race.contest import ORIGINAL, Contest, Plan
from .race.final import ENOUGH_ROUNDS, run_final
from .race.nonfinite import leave_out_losing
from .race.openings import alternatives, promising
from .race.prediction import Prediction
from .race.qualifying import is_roomy, qualify
from .race.realize import Workshop
from .race.screening import Screening, screen, select
from .race.shortlist import NO_TIME
from .race.verify import EndlessError, NoTimeError
from .search import bound_types
from .setting import Setting

if TYPE_CHECKING:
    from .driver import Source

# Of the budget, what measuring kernels may take; racing has the rest.
MEASURING_SHARE = 0.3
# Of the time for races: what finding out takes which rules help and harm, what choosing among many
# plans does, how plans are best opened, and which operators are worth a kernel. What is left of
# these goes to the final, which has no less than its own share.
SCREENING_SHARE, QUALIFYING_SHARE, OPENING_SHARE, KERNELS_SHARE = 0.25, 0.15, 0.3, 0.5
FINAL_SHARE = 0.4
# Of the time for races, what asking the runtime what it runs may take: for plans, and for the ways
# to open them.
ASKING_SHARE, ASKING_WAYS_SHARE = 0.08, 0.04
# What races take at the most where no budget was asked for: as long as a model's final needs.
STRETCHED_S = 90.0
# Of the time, what the search may take at most.
SEARCH_SHARE = 0.65
# Of the budget, what a race of the newest plan may take while others are still to come, and the
# rounds without which it tells nothing.
EARLY_SHARE, EARLY_ROUNDS = 0.1, 5
# Of the budget, what measuring kernels on blocked values may take, in models that have such, and
# what measuring the kernels that run may: as much again if the search has left it.
LAYING_SHARE, RUNNING_SHARE = 0.08, 0.08
# How many plans of the e-graph may race.
BEST_PLANS = 4


def stretch_s(setting: Setting, contest: Contest, seconds: float) -> float:
    """Return how much more than so many seconds races may take, for a final of enough rounds."""
    if not setting.stretches:
        return 0.0
    needed_s = contest.rounds_s(ENOUGH_ROUNDS) / FINAL_SHARE
    return max(0.0, min(needed_s, STRETCHED_S) - seconds)


class Campaign:
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
        # When all has to be over, and the final race has to begin.
        self._end = self._final_at = phases.start + setting.most_s
        # What was left out because its time was over.
        self.cut: list[str] = []
        self.is_interrupted = False
        self.kept = kept
        self.catalog, self.setting, self.phases, self.workshop = catalog, setting, phases, workshop
        with phases("reading", str(source) if isinstance(source, (str, Path)) else ""):
            store_ledger(catalog, rules)
            self.model_id = read_model(catalog, source)
            self.skeleton = skeleton_model(catalog, self.model_id)
            graph = workshop.read(self.skeleton)
            graph.types = infer_types(graph)
            # Like the plans, so that the same weights are mapped and nothing else tells them apart.
            self.original = Plan(
                ORIGINAL,
                graph,
                source=workshop.place(ORIGINAL, self.skeleton),
                nodes_in_file=len(self.skeleton.graph.node),
            )
            self.sizes: dict[str, int] = sizes_from(graph, setting.input_shapes)
            running_s = setting.budget * RUNNING_SHARE
            self.prices = Prices(
                CostModel(catalog, threads=setting.threads),
                budget_s=setting.budget * MEASURING_SHARE - running_s,
            )
            # What runs, runs as it is written.
            self.run_prices = Prices(
                CostModel(catalog, threads=setting.threads, configuration=AS_WRITTEN.level),
                budget_s=running_s,
                fused=self.prices.fused,
            )
        basis = raised_for(graph, setting, rules)
        self.planner = Planner(setting, phases, rules, basis, self.prices)
        self.plans: list[Plan] = []
        # Plans with blocked values, those too that the runtime lays out the same by itself.
        self.laid: list[Plan] = []
        self.known = {signature(graph), signature(basis)}
        # Steps of rules that lose NaN or infinities, and are in no plan.
        self.losing: list[Step] = []
        self.winner = self.original
        # Why there is no contest, where there is none.
        self.problem = ""
        self._contest: Contest | None = None

    def propose(self, plan: Plan) -> None:
        """Let a plan take part if it changes anything that another one does not."""
        own = signature(plan.graph)
        if own not in self.known:
            self.known.add(own)
            self.plans.append(plan)

    def open_contest(self) -> Contest | None:
        """Run the original on generated inputs; ModelError where it can't be run.

        Nothing could be verified or measured then: whoever asked for a faster model gets none.
        None, and the problem, where there is no time for that. EndlessError where it never ends.
        """
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
                    end=self._end,
                )
            except EndlessError:
                raise
            except NoTimeError as error:
                self.problem = str(error)
                return None
            except Exception as error:  # whatever the runtime raises is its reason to refuse
                raise ModelError(self._not_run(error)) from error
        self._contest, self.sizes = contest, contest.sizes
        return contest

    def _not_run(self, error: Exception) -> str:
        if any(entry.domain.startswith(DOMAIN) for entry in self.skeleton.opset_import):
            return "the model is a result of tensolog with native code: optimize its original"
        reason = reason_of(error)
        if not_given(self.original.graph, self.sizes):
            reason += "; if its sizes were guessed wrong, give them with --input-shape"
        return (
            "ONNX Runtime can't run the model here, so that nothing can be verified or measured, "
            f"and nothing is written: {reason}"
        )

    def simplify(self) -> None:
        """Derive the first plan: what is always an improvement."""
        with self._share_of_rest("rewriting"):
            self.propose(self.planner.simplify("simplified"))

    def compete(self, contest: Contest) -> None:
        """Search by cost, try rules one by one, verify, and race what came of it."""
        laying_s = self.setting.budget * LAYING_SHARE if self._may_lay_out() else 0.0
        self.prices.left_s -= laying_s
        if not self.setting.finite_math:
            self._leave_out_losing(contest)
        simplified = explored = self._first()
        with self._share_of_rest("a first race"):
            self._race_early(contest, self.plans[-1:])
        with self._share_of_rest("the search", SEARCH_SHARE):
            explored = self._search(contest)
        with self._share_of_rest("a first race"):
            self._race_early(contest, self.plans[-1:])
        left_s = max(0.0, self.prices.left_s)
        further_s = min(left_s, self.setting.budget * RUNNING_SHARE)
        self.run_prices.left_s += further_s
        seconds = self.setting.budget * (1 - MEASURING_SHARE) + left_s - further_s
        seconds += stretch_s(self.setting, contest, seconds)
        purse = Purse(seconds, reserve=FINAL_SHARE, end=self._end)
        self._final_at = purse.end
        start, screening = self._first(), Screening({})
        with self._share_of_rest("trying rules alone"), purse.share(SCREENING_SHARE) as share_s:
            screening = screen(self.planner, contest, self.workshop, share_s)
        with self._share_of_rest("choosing rules and layouts"):
            if screening.laps:
                start = select(self.planner, contest, screening)
                self.propose(start)
            if laying_s:
                self.prices.left_s = laying_s
                self._lay_out(contest, start, screening.harmful())
        if "rounding" in self.setting.allow:
            with self._share_of_rest("rewriting"):
                self.propose(self.planner.attend("by blocks", (*self.plans[::-1], self.original)))
                self.propose(self.planner.gather("one table", explored))
                self.propose(self.planner.join_rows("one product a matrix", simplified, self.sizes))
        prediction = Prediction(contest, self.run_prices, self.phases)
        rivals = self.plans
        with self._share_of_rest("predicting"):
            for plan in self.plans:
                self._place(plan)
            with purse.share(ASKING_SHARE) as share_s:
                prediction.ask([self.original, *self.plans], share_s)
            rivals = prediction.rivals(self.plans)
        for plan in self.plans:
            if not (plan.refusal or plan.is_verified):
                self._verify(contest, plan)
        finalists = [plan for plan in rivals if not plan.refusal]
        with self._share_of_rest("qualifying"), purse.share(QUALIFYING_SHARE) as share_s:
            finalists = qualify(contest, rivals, share_s)
        # Plans that run the same may differ where they are opened another way, or get kernels.
        like = [plan for plan in self.plans if plan.like and not plan.refusal]
        if self.setting.for_runtime:
            with self._share_of_rest("opening plans in other ways"):
                with purse.share(ASKING_WAYS_SHARE) as share_s:
                    sound = promising(prediction, (contest.original, *finalists), like, share_s)
                with purse.share(OPENING_SHARE) as share_s:
                    opened = alternatives(contest, sound, share_s)
                self.plans += opened
                finalists += opened
        fused: list[Plan] = []
        if self.setting.fuses:
            with self._share_of_rest("kernels", 1.0), purse.share(KERNELS_SHARE) as share_s:
                bases = (*finalists, *like)
                fused = fused_plans(
                    contest,
                    self.workshop,
                    self.phases,
                    bases,
                    self.laid,
                    share_s,
                    self.prices.fused,
                )
                self.plans += fused
                finalists += fused
            with self._share_of_rest("a first race", 1.0):
                self._race_early(contest, fused)
        if self._end - time.monotonic() < contest.rounds_s(1):
            self.cut.append("the final race")
            self.winner = contest.incumbent or self.original
            return
        self.winner = run_final(contest, finalists, purse.left, self._promise)
        with self._share_of_rest("predicting", 1.0, self._end):
            prediction.ask([self.winner], ASKING_WAYS_SHARE * seconds)
            prediction.measure([self.winner])

    def end_early(self) -> None:
        """Take the best plan that was verified and raced so far, after an interrupt."""
        self.phases.mute()
        self.is_interrupted = True
        best = None if self._contest is None else self._contest.incumbent
        self.winner = best or self.original

    @contextlib.contextmanager
    def _share_of_rest(
        self, what: str, share: float = 0.5, end: float | None = None
    ) -> Iterator[None]:
        """Cut the block after a share of the time until the final race; note that it was cut."""
        now, end = time.monotonic(), self._final_at if end is None else end
        try:
            with cut_at(now + share * (end - now)):
                yield
        except OutOfTimeError:
            self.cut.append(what)

    def _place(self, plan: Plan) -> None:
        if not plan.source:
            plan.source = self.workshop.place_plan(plan.name, plan.graph)

    def _verify(self, contest: Contest, plan: Plan, phase: str = "verifying") -> None:
        """Verify a plan where that leaves time for the final."""
        self._place(plan)
        if time.monotonic() + contest.verifying_s > self._final_at:
            plan.refusal = f"{NO_TIME}: give a larger budget"
            return
        with self.phases(phase, plan.name):
            contest.verify(plan)

    def _race_early(self, contest: Contest, plans: Sequence[Plan]) -> None:
        """Race the first sound one of new plans shortly, if there is time, for an early answer."""
        short_s = contest.rounds_s(EARLY_ROUNDS)
        plan = next((plan for plan in plans if not plan.refusal), None)
        if plan is None or plan.lap is not None or short_s > EARLY_SHARE * self.setting.budget:
            return
        if not plan.is_verified:
            self._verify(contest, plan, "first race")
        if plan.is_verified:
            raced = [contest.original, plan]
            contest.time_what_runs(raced, short_s, phase="first race", reference=ORIGINAL)

    def _leave_out_losing(self, contest: Contest) -> None:
        """Derive the first plan again without the rules that lose NaN or infinities."""
        first = self._first()
        self.losing = leave_out_losing(self.planner, contest, self.workshop, first)
        if self.losing:
            self.plans.remove(first)
            self.propose(self.planner.simplify(first.name))

    def _first(self) -> Plan:
        """Return the first plan; where there is none, the model as the rules read it."""
        if self.plans:
            return self.plans[0]
        basis = self.planner.original
        if basis.opset() == self.original.graph.opset():
            return self.original
        return Plan(self.original.name, basis.copy())

    def _search(self, contest: Contest) -> Plan:
        """Derive plans by what kernels cost; return the one of single rewrites that gain."""
        start = self._first()
        explored = self.planner.explore("explored", start, self.sizes)
        self.propose(explored)
        if self.setting.search == "egraph":
            # From the model as it is: what is always applied is a choice there too.
            bare = self.planner.simplify("no rules", rules=())
            count = BEST_PLANS if is_roomy(contest) else 1
            given = ("e-graph", bare, self.sizes, count, self.kept)
            for plan in self.planner.grow(*given, hold=self._may_lay_out()):
                self.propose(plan)
        return explored

    def _lay_out(self, contest: Contest, start: Plan, harmful: Collection[str]) -> None:
        """Choose the layout of each value, where the runtime's own choice leaves blocks often.

        Of the plan that screening left, and of all that the e-graph holds together. Either may
        measure for half of the time that is left for it. Kernels for convolutions need a plan in
        blocks even where it is the runtime's own.
        """
        try:
            run = contest.operators_run(self.original)
        except Exception:  # what doesn't run under the runtime's profiler stays as it is
            run = Counter()
        often = moves(run) > LEAST_MOVES
        if not often:
            self.planner.held = None
            if not self.setting.fuses:
                return
        half_s = self.prices.left_s / 2
        self.prices.left_s = half_s
        laid, *self.laid = self.planner.lay_out("laid out", start, self.sizes)
        self.prices.left_s += half_s
        joint = self.planner.lay_out_jointly("laid out with rules", harmful, self.kept)
        for plan in (laid, joint):
            if plan is None:
                continue
            if often and is_news(plan.graph, run):
                self.propose(plan)
            if any(node.domain == NCHWC for node in plan.graph.nodes.values()):
                self.laid.append(plan)

    def _may_lay_out(self) -> bool:
        """Whether the model has operators that the runtime can do on blocked values."""
        if not self.setting.for_runtime or "rounding" not in self.setting.allow:
            return False
        return any(node.op_type in BLOCKED for node in self.original.graph.nodes.values())

    def _promise(self, plan: Plan) -> tuple[bool, float]:
        """Add up what a plan's operators cost, less what kernels save: see `shortlist.Promise`.

        What kernels save was measured beside what the runtime runs; a sum that some operators are
        in with no more than their bounds promises anything.
        """
        if plan.base is not None:
            return False, self._promise(plan.base)[1] - plan.gain_ns
        cost = self.prices.total(list(self.kernels(plan).values()))
        return cost.source == "bound", cost.ns

    def kernels(self, plan: Plan) -> dict[int, Kernel]:
        """Give a plan's kernels under the sizes it is measured with."""
        return kernels_of_graph(plan.graph, bound_types(plan.graph, self.sizes))

    def _size_bytes(self) -> int:
        ((size,),) = self.catalog.connection.execute(
            "SELECT size_bytes FROM model WHERE model_id = ?", [self.model_id]
        ).fetchall()
        return int(size)
