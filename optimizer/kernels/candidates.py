"""Plans with fused kernels: which kinds of regions gain is measured, alone and in the model.

Regions with one kernel are of one kind: the layers of a model have the same ones. A kind is first
raced against the operators that it replaces, then, where that promises something, end to end: a
kernel can hide a pattern from the runtime's own optimizer, or stand between two convolutions whose
layout the runtime would have kept. In a large model, where each such race takes seconds, only the
latter are. What does no harm goes together into a few plans: all kernels, those without products,
and those that gain most by themselves. What proved good is carried over to one other plan as well,
where rules and kernels together promise more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...profiles.costs import Cost
from ...profiles.race import Lap, verdict
from ..codegen.compiler import CompilerError
from ..contest import Contest, Plan
from ..phases import Phases
from ..realize import Workshop
from ..rewrite import Step
from ..search import bound_types
from .embed import embed, place
from .grow import Grower
from .kinds import Kind, cover, step_of
from .left_alone import left_alone
from .library import Library, build
from .product import supply
from .region import Meanings
from .settle import settle
from .steady import steady
from .trial import KERNEL, measured
from .whole import by_kernel, regions

# How regions are grown: from what the runtime leaves as it is, without products, and from all.
LEFT, OTHERS, EVERYTHING = range(3)
# More kinds share too little time to be told apart; those that promise most are tried, in the model
# as far as there is time for so many rounds of each.
MOST_KINDS, LEAST_ROUNDS = 20, 5
# Of the time, what racing kernels alone may take, and at least for each.
ALONE_SHARE, ALONE_LEAST_S = 0.3, 0.05
# Another plan has to promise to take less than this of the time, for kernels to be carried to it.
LEAST_PROMISE = 0.98
# What the runtime computes in a blocked layout, which is kept from one to the next.
BLOCKED = frozenset({"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
# Models beyond this aren't written as the runtime optimizes them.
MOST_WRITTEN_BYTES = 448 << 20
# Of the time that is left then, what racing kinds in the model may take, and what it always may.
# Where opening each of them takes longer, only some are raced.
SCREENING_SHARE, SCREENING_LEAST_S = 0.5, 1.0


@dataclass
class Fusing:
    """The kernels of one plan of a model, and the plans with them."""

    base: Plan
    contest: Contest
    workshop: Workshop
    phases: Phases
    kinds: list[Kind] = field(default_factory=list)
    chosen: list[Kind] = field(default_factory=list)

    def plans(self, budget_s: float) -> list[Plan]:
        """Return the plans with fused kernels that take part in the race; none where none gain.

        Raises CompilerError where there is no C compiler.
        """
        start_s = time.monotonic()
        self.graph = self.base.graph.copy()
        self.settled = settle(self.graph)
        with self.phases("fusing", self.base.name):
            self.kinds = self._kinds()
            if not self.kinds:
                return []
            self.kinds, self.library = _compiled(self.kinds)
        self._race_alone(budget_s * ALONE_SHARE)
        promising = sorted(self.kinds, key=lambda kind: -kind.gain_ns)
        promising = [kind for kind in promising if kind.is_promising][:MOST_KINDS]
        if not promising:
            return []
        left_s = (budget_s - (time.monotonic() - start_s)) * SCREENING_SHARE
        self._race_in_model(self._screened(promising, left_s), left_s)
        harmless = [k for k in promising if k.whole is None or verdict(k.whole) != "slower"]
        without = [kind for kind in harmless if not kind.multiplies]
        self.chosen = cover(harmless, EVERYTHING)
        plans: dict[frozenset[int], Plan | None] = {}
        for name, chosen in (
            ("kernels", self.chosen),
            ("kernels without products", cover(without, OTHERS)),
            ("kernels by gain", cover(harmless)),
        ):
            same = frozenset(map(id, chosen))
            if chosen and same not in plans:
                plans[same] = self._plan(name, chosen)
        return [plan for plan in plans.values() if plan is not None]

    def carried(self, plans: Sequence[Plan]) -> Plan | None:
        """Fuse what was chosen into another plan; None where none of them promises more by it.

        What a plan promises is what it is expected to take, less what its kernels save.
        """
        promise_ns = self._expected_ns(self.base, self.chosen)
        if promise_ns is None or not self.chosen:
            return None
        best, least_ns = None, promise_ns * LEAST_PROMISE
        for plan in plans:
            if plan is self.base:
                continue
            other = Fusing(plan, self.contest, self.workshop, self.phases)
            other.graph = plan.graph.copy()
            other.settled = settle(other.graph)
            of = by_kernel(regions(Meanings(other.graph), other.graph.nodes))
            other.kinds = [
                replace(kind, found=of[kind.name]) for kind in self.chosen if kind.name in of
            ]
            expected_ns = self._expected_ns(plan, other.kinds)
            if other.kinds and expected_ns is not None and expected_ns < least_ns:
                best, least_ns = other, expected_ns
        return None if best is None else best._plan(f"kernels on {best.base.name}", best.kinds)

    def _expected_ns(self, plan: Plan, kinds: Sequence[Kind]) -> float | None:
        if plan.predicted_ns is None:
            return None
        return plan.predicted_ns - sum(kind.gain_ns for kind in kinds)

    # --------------------------------------------------------------------------------- kinds

    def _kinds(self) -> list[Kind]:
        """Find the regions, of all nodes and of those that the runtime doesn't fuse itself."""
        meanings = Meanings(self.graph)
        everything = regions(meanings, self.graph.nodes)
        others = regions(meanings, self.graph.nodes, multiplies=False)
        left = Grower(meanings, steady(meanings, self._left())).regions()
        kinds: dict[tuple[str, tuple[tuple[int, ...], ...]], Kind] = {}
        for sort, grown in ((LEFT, left), (OTHERS, others), (EVERYTHING, everything)):
            for name, found in by_kernel(grown).items():
                key = (name, tuple(one.region.nodes for one in found))
                kinds.setdefault(key, Kind(found)).sorts.add(sort)
        return list(kinds.values())

    def _left(self) -> set[int]:
        """List the nodes that the runtime doesn't fuse; all of a model too large to be written."""
        if self.contest.size_bytes > MOST_WRITTEN_BYTES:
            return set(self.graph.nodes)
        return left_alone(
            self.graph, self.base.source, self.base.execution, self.contest.setting.threads
        )

    def _race_alone(self, budget_s: float) -> None:
        types = bound_types(self.graph, self.contest.sizes)
        distinct = {kind.name: kind for kind in self.kinds}
        share = max(ALONE_LEAST_S, budget_s / len(distinct))
        laps: dict[str, dict[str, Lap] | None] = {}
        for at, (name, kind) in enumerate(distinct.items()):
            self.phases.tell("measuring kernels", at, len(distinct), name)
            with self.phases("measuring kernels", name):
                one = kind.found[0]
                supply(self.graph, [one.kernel])
                laps[name] = measured(
                    self.graph,
                    one.region,
                    one.kernel,
                    self.library,
                    types,
                    threads=self.contest.setting.threads,
                    budget_s=share,
                    place=self.workshop.place,
                )
        for kind in self.kinds:
            kind.alone = laps[kind.name]

    def _screened(self, kinds: Sequence[Kind], budget_s: float) -> Sequence[Kind]:
        """Choose the kinds that are raced in the model: all where there is time for it."""
        if len(kinds) == 1:
            return []
        if 2 * len(kinds) * self.contest.entry_s <= max(budget_s, SCREENING_LEAST_S):
            return kinds
        return [kind for kind in kinds if self._adjoins(kind, BLOCKED)]

    def _adjoins(self, kind: Kind, operators: Collection[str]) -> bool:
        """Tell whether what a kind computes comes from some operators, or goes to them."""
        graph = self.graph
        read = {value for one in kind.found for value in one.region.inputs}
        made = {value for one in kind.found for value in one.region.outputs}
        beside = {graph.producer[value] for value in read if value in graph.producer}
        beside |= {user for value in made for user in graph.users.get(value, ())}
        return any(graph.nodes[number].op_type in operators for number in beside - kind.nodes)

    def _race_in_model(self, kinds: Sequence[Kind], budget_s: float) -> None:
        if not kinds:
            return
        count = self.contest.affordable(budget_s, LEAST_ROUNDS)
        plans = [self._plan(f"kind {at}", [k], self.library) for at, k in enumerate(kinds[:count])]
        placed = [plan for plan in plans if plan is not None]
        if not placed:
            return
        for plan in placed:
            plan.source = self.workshop.place_plan(plan.name, plan.graph)
        laps = self.contest.time_what_runs(
            [self.base, *placed], max(0.0, budget_s), phase="screening", reference=self.base.name
        )
        for at, kind in enumerate(kinds):
            kind.whole = laps.get(f"kind {at}")

    # --------------------------------------------------------------------------------- plans

    def _plan(
        self, name: str, kinds: Sequence[Kind], library: Library | None = None
    ) -> Plan | None:
        """Return the base with the regions of some kinds fused; None where none can be.

        `library` may have more kernels than these; without one, the plan gets its own.
        """
        supply(self.graph, [one.kernel for kind in kinds for one in kind.found])
        graph = self.graph.copy()
        steps, kernels = [], {}
        for kind in kinds:
            for one in kind.found:
                names = tuple(graph.node_name(number) for number in one.region.nodes)
                if place(graph, one.region.nodes, one.kernel):
                    kernels[one.kernel.name] = one.kernel
                    steps.append(step_of(kind, names))
        if not kernels:
            return None
        if library is None:
            library = build([kernels[key] for key in sorted(kernels)])
        self.workshop.place_file(library.path, library.name)
        opened = replace(self.base.execution, libraries=(Path(library.name),))
        return Plan(
            name,
            embed(graph, library.domain),
            steps=[*self.base.steps, *self.settled, *steps, *self._left_out(kinds)],
            execution=opened,
        )

    def _left_out(self, chosen: Sequence[Kind]) -> list[Step]:
        """Say of the kinds that a plan is without why."""
        found = []
        for kind in self.kinds:
            if kind not in chosen:
                names = tuple(self.graph.node_name(n) for n in kind.found[0].region.nodes)
                step = step_of(kind, names)
                found.append(replace(step, accepted=False, reason=kind.refusal))
        return found


def _compiled(kinds: Sequence[Kind]) -> tuple[list[Kind], Library]:
    """Compile the kernels of kinds together, without any that the compiler refuses."""
    try:
        return list(kinds), build([kind.found[0].kernel for kind in kinds])
    except CompilerError:
        accepted = [kind for kind in kinds if _compiles(kind)]
        if not accepted:
            raise
        return accepted, build([kind.found[0].kernel for kind in accepted])


def _compiles(kind: Kind) -> bool:
    try:
        build([kind.found[0].kernel])
    except CompilerError:
        return False
    return True


def fused_plans(
    contest: Contest,
    workshop: Workshop,
    phases: Phases,
    plans: Sequence[Plan],
    budget_s: float,
    costs: dict[str, Cost],
) -> list[Plan]:
    """Fuse operators of the plan that changed the model least; return what may race, verified.

    What proved good there goes into one other plan as well, if that promises to be faster. What
    kernels were measured to cost is added to `costs`, by the names of their operators. Other
    rewrites take operators apart, or name the runtime's own, for the sake of the kernels that
    the runtime has. Raises CompilerError where there is no C compiler.
    """
    sound = [plan for plan in plans if not plan.refusal and plan.execution.is_default]
    base = min(sound, key=_changes, default=contest.original)
    fusing = Fusing(base, contest, workshop, phases)
    fused = fusing.plans(budget_s)
    if fused and (further := fusing.carried(sound)) is not None:
        fused.append(further)
    for kind in fusing.kinds:
        if kind.alone is not None:
            lap = kind.alone[KERNEL]
            costs[kind.name] = Cost(lap.median_ns, lap.spread_ns, "measured")
    for plan in fused:
        with phases("verifying", plan.name):
            plan.source = workshop.place_plan(plan.name, plan.graph)
            contest.verify(plan)
    return fused


def _changes(plan: Plan) -> int:
    return sum(step.accepted for step in plan.steps)
