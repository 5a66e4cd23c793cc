"""Plans with kernels: of the plan that changed least, and of one that lays values out in blocks.

Other rewrites take operators apart, or name the runtime's own, for the sake of the kernels that the
runtime has; so kernels go into the plan with the fewest of them, and what proved good there into
one other plan as well, where rules and kernels together promise more. Where rules alone save much
of what kernels leave, kernels are chosen anew there: what is multiplied before it is gathered, say,
has other neighbours then. Convolutions have kernels in blocks alone: for these the layout is part
of the plan, whether it is the runtime's own or not. That plan has all other kernels too; where
convolutions gain more than these, no other plan needs any.

The first plan gets kernels before anything is searched: they win most often, and a search may take
all the time that there is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...profiles.kernels.costs import Cost
from ..codegen.compiler import CompilerError
from ..codegen.unit import native_level
from ..graph.graph import Graph
from ..layouts.runtime import NCHWC
from ..phases import Phases
from ..race.candidate_files import CandidateFiles
from ..race.contest import Contest, Plan
from .configured_kinds import ConfiguredKinds
from .embed import embed
from .find_region_kinds import compiled
from .kernel_selection import Fusing
from .kernel_trial import KERNEL
from .library import SUFFIX
from .loops.tables import PLAIN
from .region_kind_race import Alone

# Of the time, what racing kernels alone may take, and of what is left racing them in the model.
ALONE_SHARE, SCREENING_SHARE = 0.3, 0.5
# Another plan has to promise to take less than this of the time, for kernels to be carried to it.
LEAST_PROMISE = 0.98
# What rules save elsewhere, of what is left with kernels, for kernels to be chosen there anew.
LEAST_SAVED = 0.15
# Kernels are chosen anew for another plan where there are so many times the seconds that it took.
ANEW = 2.0
# How often a plan that rounds too much is made anew with smaller tiles.
MOST_MILDER = 2
# Kernels for all processors take so many times as long to compile as those of all kinds for this
# one, of which the winner has some.
ALL_LEVELS = 2.0


class KernelPlans:
    """Derives plans with kernels; what was measured for one of them counts for the next.

    What kernels were measured to cost is added to `costs`, by the names of their operators. `fused`
    are the plans that kernels were looked for in.
    """

    def __init__(
        self,
        contest: Contest,
        candidate_files: CandidateFiles,
        phases: Phases,
        costs: dict[str, Cost],
        configured: ConfiguredKinds | None = None,
    ) -> None:
        self.contest, self.candidate_files, self.phases = contest, candidate_files, phases
        self._costs = costs
        self._alone = Alone(contest, candidate_files, phases, configured)
        self.fused: list[Fusing] = []
        self._first: Fusing | None = None
        self._first_s = 0.0
        self._compiling_s = 0.0

    @property
    def delivering_s(self) -> float:
        """Seconds that compiling a winner's kernels for all processors will take about."""
        return ALL_LEVELS * self._compiling_s

    def first_plans(self, base: Plan, budget_s: float) -> Iterator[Plan]:
        """Yield plans with kernels of a first plan, verified, within about `budget_s` seconds.

        Raises CompilerError where there is no C compiler, as does `plans`.
        """
        start = time.monotonic()
        fusing = self._fused(base, budget_s)
        for plan in fusing.plans(_until(start + budget_s) * SCREENING_SHARE):
            yield from _verified(fusing, plan)
        self._first, self._first_s = fusing, time.monotonic() - start

    def plans(self, plans: Sequence[Plan], laid: Sequence[Plan], budget_s: float) -> Iterator[Plan]:
        """Yield the plans with kernels that may race, verified, of `plans` and of one in `laid`.

        `laid` are plans with blocked values, whether they take part themselves or not. Of a plan
        whose kernels `first_plans` has chosen already, there are none again; and where there is
        hardly the time to choose some anew, those are carried to another plan at the most.
        """
        end = time.monotonic() + budget_s
        fused_plans: list[Plan] = []
        sound = [plan for plan in plans if not plan.refusal and plan.execution.is_default]
        in_laid = {plan.name for plan in laid}
        outside = [plan for plan in sound if plan.name not in in_laid]
        in_blocks = _best(laid)
        if in_blocks is not None:
            fusing = self._fused(in_blocks, budget_s * 0.5)
            if fusing.gains:
                for fused_plan in fusing.plans(_until(end) * 0.5 * SCREENING_SHARE):
                    for plan in _verified(fusing, fused_plan):
                        fused_plans.append(plan)
                        yield plan
                if fusing.convolves and any(not plan.refusal for plan in fused_plans):
                    return
        first = self._first
        base = min(outside, key=_changes, default=self.contest.original)
        is_known = first is not None and any(plan is first.base for plan in (base, *outside))
        if first is not None and (is_known or _until(end) < ANEW * self._first_s):
            fusing = first
        else:
            fusing = self._fused(base, _until(end), "" if first is None else f" on {base.name}")
            for fused_plan in fusing.plans(_until(end) * SCREENING_SHARE):
                yield from _verified(fusing, fused_plan)
        leaner = fusing.leaner(outside, LEAST_SAVED)
        if fusing is first and leaner is not None and _until(end) > self._first_s:
            fusing = self._fused(leaner, _until(end), f" on {leaner.name}")
            for fused_plan in fusing.plans(_until(end) * SCREENING_SHARE):
                yield from _verified(fusing, fused_plan)
            return
        further = fusing.carried(outside if fused_plans else sound, LEAST_PROMISE)
        if further is not None:
            yield from _verified(fusing, further)

    def _fused(self, base: Plan, budget_s: float, suffix: str = "") -> Fusing:
        """Find the kinds of regions of a plan, and race them alone."""
        placed = self.candidate_files.placed(base)
        fusing = Fusing(
            placed, self.contest, self.candidate_files, self.phases, self._alone, suffix
        )
        fusing.look(budget_s * ALONE_SHARE)
        self.fused.append(fusing)
        self._compiling_s = max(self._compiling_s, fusing.compiling_s)
        for kind in fusing.kinds:
            if kind.alone is not None:
                lap = kind.alone[KERNEL]
                self._costs[kind.name] = Cost(lap.median_ns, lap.spread_ns, "measured")
        return fusing

    def delivered(self, plan: Plan) -> Plan:
        """Give a plan that has won a library of its own kernels, for every processor it may run on.

        That takes several times as long to compile as what races, which is for this processor
        alone. A plan in blocks runs where these are as wide as here: on processors of this level,
        or on those that lack something of it. Another plan is returned, one that nobody has
        verified or raced, where the compiler refuses some of the kernels; CompilerError where it
        refuses all.
        """
        in_blocks = any(node.domain == NCHWC for node in plan.graph.nodes.values())
        levels = tuple(dict.fromkeys((native_level(), PLAIN))) if in_blocks else None
        library = compiled(plan.kernels, levels)
        if any(kind.is_refused for kind in plan.kernels):
            plan = self._without_refused(plan)
        (raced,) = plan.execution.libraries
        plan.graph = embed(plan.graph, library.domain, raced.name.removesuffix(SUFFIX))
        plan.execution = replace(plan.execution, libraries=(Path(library.name),))
        plan.source = b""
        self.candidate_files.place_file(library.path, library.name)
        return self.candidate_files.placed(plan)

    def _without_refused(self, plan: Plan) -> Plan:
        assert plan.base is not None
        fusing = Fusing(plan.base, self.contest, self.candidate_files, self.phases, self._alone)
        rebuilt = fusing.rebuilt(plan)
        if rebuilt is None:
            raise CompilerError("the compiler refuses its kernels for other processors")
        rebuilt.execution = replace(rebuilt.execution, threads=plan.execution.threads)
        return rebuilt


def _until(end: float) -> float:
    return max(0.0, end - time.monotonic())


def _best(laid: Sequence[Plan]) -> Plan | None:
    """Choose among plans with blocked values.

    The one with the fewest convolutions outside of blocks or dilated, where no kernel computes
    them, and of several such the one that did best so far, if that is known.
    """
    unknown = float("inf")

    def order(plan: Plan) -> tuple[float, ...]:
        graph = plan.graph
        outside = sum(
            node.operator == "Conv" or _is_dilated(graph, number)
            for number, node in graph.nodes.items()
        )
        lap = unknown if plan.lap is None else plan.lap.ratio
        return outside, lap, plan.predicted_ns or unknown

    return min((plan for plan in laid if not plan.refusal), key=order, default=None)


def _is_dilated(graph: Graph, number: int) -> bool:
    """Whether a node is a convolution in blocks that reads at steps, of one group."""
    if graph.nodes[number].operator != f"{NCHWC}:Conv":
        return False
    attributes = graph.attributes(number)
    dilations: Sequence[int] = attributes.get("dilations") or ()  # type: ignore[assignment]
    return attributes.get("group", 1) == 1 and any(step != 1 for step in dilations)


def _verified(fusing: Fusing, plan: Plan) -> Iterator[Plan]:
    """Verify a plan; where convolutions round too much, with one that does less after it."""
    for _ in range(1 + MOST_MILDER):
        with fusing.phases("verifying", plan.name):
            fusing.contest.verify(fusing.candidate_files.placed(plan))
        yield plan
        milder = fusing.milder(plan) if plan.refusal else None
        if milder is None:
            return
        plan = milder


def _changes(plan: Plan) -> int:
    return sum(step.accepted for step in plan.steps)
