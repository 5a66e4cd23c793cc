"""Kernels for the operators of one plan: which kinds of regions gain, and the plans with them.

Regions with one kernel are of one kind: the layers of a model have the same ones. A kind is first
raced against the operators that it replaces, then, where that promises something, end to end: a
kernel can hide a pattern from the runtime's own optimizer, or stand between two convolutions whose
layout the runtime would have kept. In a large model, where each such race takes seconds, only the
latter are. Convolutions in blocks have kernels of several forms, which compute the same: of those
the fastest alone is taken, and they go into the model together.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...profiles.races.race import verdict
from ..codegen.unit import native_level
from ..layouts.plans import sources
from ..layouts.runtime import NCHWC
from ..match.rewrite import Step
from ..phases import Phases
from ..race.candidate_files import CandidateFiles
from ..race.contest import Contest, Plan
from ..race.qualifying import is_roomy
from .configured_kinds import reconfigured
from .embed import embed, place
from .find_region_kinds import EVERYTHING, OTHERS, compiled, kinds_of, nodes_of_runtime
from .fuse_graph import by_kernel, prepare, regions, unions
from .kernel import Kernel, RegionKernel, supply
from .library import Library
from .loops.kernel_region import Meanings, Region
from .product.matrix_products import RANKS, formed
from .region_kind_race import Alone
from .region_kinds import CHOSEN, PLAN_LOST, Kind, best_forms, cover, step_of

# More kinds share too little time to be told apart; those that promise most are tried, in the model
# as far as there is time for so many rounds of each. Convolutions are tried together, and so are
# kernels of 8-bit integers.
MOST_KINDS, LEAST_ROUNDS = 20, 5
# What the runtime computes in a blocked layout, which is kept from one to the next.
BLOCKED = frozenset({"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
# What the names of plans end in whose convolutions round less than in another.
MILDER = ", rounding less"
# What racing kinds in the model may always take. Where opening each of them takes longer than there
# is time for, only some are raced.
SCREENING_LEAST_S = 1.0


@dataclass(frozen=True)
class RegionOutcome:
    """A region that a kernel may stand for, and what became of it: in a word, and why.

    `nodes` are the names of the model's own; costs are measured alone, None where they were not.
    """

    region: Region
    kernel: Kernel
    nodes: tuple[str, ...]
    outcome: str
    reason: str
    cost_before_ns: float | None
    cost_after_ns: float | None


@dataclass
class Fusing:
    """The kernels of one plan of a model, and the plans with them; their names end in `suffix`."""

    base: Plan
    contest: Contest
    candidate_files: CandidateFiles
    phases: Phases
    alone: Alone
    suffix: str = ""
    # for this processor alone, with the kernels of all kinds
    library: Library | None = None
    compiling_s: float = 0.0
    kinds: list[Kind] = field(default_factory=list)
    promising: list[Kind] = field(default_factory=list)
    chosen: list[Kind] = field(default_factory=list)
    # what a race alone has left open: plans with it race those without
    undecided: list[Kind] = field(default_factory=list)
    # the kinds in each plan that was made, by its name
    used: dict[str, list[Kind]] = field(default_factory=dict)
    # the same kernels in other plans
    in_others: list[Fusing] = field(default_factory=list)

    def look(self, budget_s: float) -> None:
        """Find the kinds of regions, and race them alone for about `budget_s` seconds.

        Raises CompilerError where there is no C compiler.
        """
        self.graph = self.base.graph.copy()
        self.shape_steps = prepare(self.graph)
        with self.phases("fusing", self.base.name):
            self.kinds = kinds_of(
                self.graph,
                self.base,
                self.contest,
                self.is_in_blocks,
                self.alone.configured,
                budget_s,
            )
            if self.is_in_blocks and not self._gain_in_blocks(self.kinds):
                self.kinds = []
            if not self.kinds:
                return
            start = time.monotonic()
            self.library = compiled(self.kinds, (native_level(),))
            self.compiling_s = time.monotonic() - start
        accepted = [kind for kind in self.kinds if not kind.is_refused]
        self.alone.race(self.graph, accepted, self.library, budget_s)
        by_gain = sorted(self.kinds, key=lambda kind: -kind.gain_ns)
        by_gain = [kind for kind in by_gain if kind.is_promising]
        self.promising = [kind for kind in by_gain if kind.goes_along]
        self.promising += [k for k in best_forms(by_gain) if not k.goes_along][:MOST_KINDS]
        open_kinds = [kind for kind in self.kinds if kind.is_undecided]
        self.undecided = best_forms(sorted(open_kinds, key=lambda kind: -kind.gain_ns))

    def plans(self, budget_s: float) -> list[Plan]:
        """Return the plans with fused kernels that take part in the race; none where none gain.

        What stands beside the convolutions is raced in the model for about `budget_s` seconds.
        """
        others = [kind for kind in self.promising if not kind.goes_along]
        convolving = [kind for kind in self.promising if kind.convolves]
        if not self.promising:
            return []
        self._race_in_model(self._screened(others, budget_s), budget_s)
        harmless = [k for k in self.promising if k.whole is None or verdict(k.whole) != "slower"]
        without = [kind for kind in harmless if not kind.multiplies]
        self.chosen = cover(harmless, EVERYTHING)
        ways = [("kernels", self.chosen), ("kernels without products", cover(without, OTHERS))]
        if convolving:  # most of the gain may be theirs, and the rest is what can do harm beside
            ways.pop()
            if is_roomy(self.contest):
                ways.append(("convolutions", cover(convolving)))
        else:
            ways.append(("kernels by gain", cover(harmless)))
        ways += self._undecided_ways(harmless)[: self._further(len(ways), budget_s)]
        plans: dict[frozenset[int], Plan | None] = {}
        for name, chosen in ways:
            same = frozenset(map(id, chosen))
            if chosen and same not in plans:
                with self.phases("fusing", name):
                    plans[same] = self._plan(self._named(name), chosen)
        return [plan for plan in plans.values() if plan is not None]

    def _undecided_ways(self, harmless: Sequence[Kind]) -> list[tuple[str, list[Kind]]]:
        """Return plans with what is undecided, as if it gained: all of it, or products alone.

        A product takes what is behind it along, which otherwise is another kernel's.
        """
        if not self.undecided:
            return []
        ways = [("kernels, undecided ones too", [*harmless, *self.undecided])]
        products = [kind for kind in self.undecided if kind.multiplies]
        if products and len(products) < len(self.undecided):
            ways.append(("kernels, undecided products too", [*harmless, *products]))
        return [(name, cover(kinds, EVERYTHING)) for name, kinds in ways]

    def _further(self, count: int, budget_s: float) -> int:
        """Return how many plans beside `count` of them there is time for."""
        if not is_roomy(self.contest):
            return 0
        return max(0, self.contest.affordable(budget_s, LEAST_ROUNDS) - count)

    def rebuilt(self, plan: Plan) -> Plan | None:
        """Make a plan of this base once more, without what the compiler has refused since."""
        kinds = list(plan.kernels)
        library = compiled(kinds, (native_level(),))
        anew = self._carried_to(self.base, kinds)
        anew.library = library
        return anew._plan(plan.name, anew.kinds)

    def _carried_to(self, base: Plan, kinds: Sequence[Kind]) -> Fusing:
        """Find the regions of some kinds of kernels in another plan, or anew in the same one.

        What a region reads may be a value that looking for it has put into the graph.
        """
        other = replace(self, base=base, kinds=[], used={}, in_others=[])
        other.graph = base.graph.copy()
        other.shape_steps = prepare(other.graph)
        # what kernels of integers may compute depends on what the runtime makes of the others
        exact = any(kind.regions[0].kernel.is_exact for kind in kinds)
        optimized = nodes_of_runtime(base, self.contest) if exact else None
        meanings = Meanings(other.graph, optimized)
        region_kernels = regions(meanings, other.graph.nodes)
        region_kernels += unions(meanings, region_kernels, other.graph.nodes)
        forms = [form for form in RANKS if form in {kind.form for kind in kinds}]
        others = [
            *formed(meanings, region_kernels, forms),
            *reconfigured(meanings, region_kernels, kinds),
        ]
        of = by_kernel([*region_kernels, *others])
        other.kinds = [replace(kind, regions=of[kind.name]) for kind in kinds if kind.name in of]
        return other

    def _named(self, name: str) -> str:
        return f"{name} in blocks" if self.is_in_blocks else f"{name}{self.suffix}"

    @property
    def is_in_blocks(self) -> bool:
        """Tell whether the plan lays values out in blocks itself."""
        return any(node.domain == NCHWC for node in self.base.graph.nodes.values())

    @property
    def gains(self) -> bool:
        """Tell whether something gains that could not as well in another plan."""
        return not self.is_in_blocks or self._gain_in_blocks(self.promising)

    def _gain_in_blocks(self, kinds: Sequence[Kind]) -> bool:
        """Tell whether there are convolutions among kinds, or what lies between some in blocks."""
        operators = {f"{NCHWC}:{name}" for name in BLOCKED}
        return any(kind.convolves or self._adjoins(kind, operators) for kind in kinds)

    @property
    def convolves(self) -> bool:
        """Tell whether of what was chosen convolutions gain more than all else."""
        gains = [kind.gain_ns * (1 if kind.convolves else -1) for kind in self.chosen]
        return sum(gains) > 0

    def milder(self, plan: Plan) -> Plan | None:
        """Return a plan without the forms of kernels that round most in another plan.

        Their nodes have the next form that gains, or none. None where there is no such plan.
        """
        used = self.used.get(plan.name, ())  # one that was made of another plan has none
        most = max((kind.rank for kind in used), default=0)
        if not most:
            return None
        nodes = {number for kind in used for number in kind.nodes}
        milder_kinds = [
            kind
            for kind in self.kinds
            if kind in used or (kind.form and kind.is_promising and kind.nodes <= nodes)
        ]
        chosen = cover([kind for kind in milder_kinds if kind.rank < most])
        stem, again, _ = plan.name.partition(MILDER)
        return self._plan(f"{stem}{MILDER}{' still' * bool(again)}", chosen) if chosen else None

    def carried(self, plans: Sequence[Plan], least: float) -> Plan | None:
        """Fuse what was chosen into another plan; None where none of them promises more by it.

        What a plan promises is what it is expected to take, less what its kernels save: it has to
        be less than `least` of that of this one.
        """
        promise_ns = self._expected_ns(self.base, self.chosen)
        if promise_ns is None or not self.chosen:
            return None
        best, least_ns = None, promise_ns * least
        for plan in plans:
            if plan is self.base:
                continue
            other = self._carried_to(plan, self.chosen)
            expected_ns = self._expected_ns(plan, other.kinds)
            if other.kinds and expected_ns is not None and expected_ns < least_ns:
                best, least_ns = other, expected_ns
        if best is None:
            return None
        self.in_others.append(best)
        return best._plan(f"kernels on {best.base.name}", best.kinds)

    def leaner(self, plans: Sequence[Plan], least: float) -> Plan | None:
        """Return the plan that takes least without kernels, if it saves much beside this one.

        That is at least a share of what is left here with kernels: what rules leave out, no kernel
        does, and what is beside it then may be others' matter.
        """
        promise_ns, own_ns = self._expected_ns(self.base, self.chosen), self.base.predicted_ns
        predicted = [(plan.predicted_ns, plan) for plan in plans if plan.predicted_ns is not None]
        if promise_ns is None or own_ns is None or not predicted:
            return None
        least_ns, best = min(predicted, key=lambda pair: pair[0])
        return best if own_ns - least_ns > least * max(0.0, promise_ns) else None

    def _expected_ns(self, plan: Plan, kinds: Sequence[Kind]) -> float | None:
        if plan.predicted_ns is None:
            return None
        return plan.predicted_ns - sum(kind.gain_ns for kind in kinds)

    # ------------------------------------------------------------------------------ in the model

    def _screened(self, kinds: Sequence[Kind], budget_s: float) -> Sequence[Kind]:
        """Choose the kinds that are raced in the model: all where there is time for it."""
        if len(self.promising) == 1:
            return []
        if 2 * len(kinds) * self.contest.entry_s <= max(budget_s, SCREENING_LEAST_S):
            return kinds
        return [kind for kind in kinds if self._adjoins(kind, BLOCKED)]

    def _adjoins(self, kind: Kind, operators: Collection[str]) -> bool:
        """Tell whether what a kind computes comes from some operators, or goes to them."""
        graph = self.graph
        read = {value for region in kind.regions for value in region.region.inputs}
        results = {value for region in kind.regions for value in region.region.outputs}
        beside = {graph.producer[value] for value in read if value in graph.producer}
        beside |= {user for value in results for user in graph.users.get(value, ())}
        return any(graph.nodes[number].operator in operators for number in beside - kind.nodes)

    def _race_in_model(self, kinds: Sequence[Kind], budget_s: float) -> None:
        if not kinds:
            return
        count = self.contest.affordable(budget_s, LEAST_ROUNDS)
        plans = [self._plan(f"kind {number}", [k]) for number, k in enumerate(kinds[:count])]
        placed = [plan for plan in plans if plan is not None]
        if not placed:
            return
        for plan in placed:
            self.candidate_files.placed(plan)
        laps = self.contest.time_runnable(
            [self.base, *placed], max(0.0, budget_s), phase="screening", reference=self.base.name
        )
        for number, kind in enumerate(kinds):
            kind.whole = laps.get(f"kind {number}")

    # --------------------------------------------------------------------------------- plans

    def outcomes(self, winner: Plan) -> Iterator[RegionOutcome]:
        """Say of each region that a kernel may stand for what became of it, and why."""
        wins = bool(winner.kernels) and winner.base is self.base
        used = {kind.name for kind in winner.kernels} if wins else set()
        chosen = [kind for kind in self.kinds if kind.name in used] if wins else self.chosen
        for kind in self.kinds:
            if kind.name in used:
                outcome = (CHOSEN, f"{kind.way}, {kind.times}" if kind.way else kind.times)
            elif kind in self.chosen or (kind in self.undecided and self._raced(kind)):
                outcome = (PLAN_LOST, f"{kind.times}, but no plan with it was the fastest")
            else:
                outcome = kind.outcome(chosen)
            for region_kernel in kind.regions:
                step = self._step(kind, region_kernel)
                costs = (step.cost_before_ns, step.cost_after_ns)
                yield RegionOutcome(
                    region_kernel.region, region_kernel.kernel, step.nodes, *outcome, *costs
                )

    def _raced(self, kind: Kind) -> bool:
        """Tell whether a plan with some kind was made."""
        return any(kind in kinds for kinds in self.used.values())

    def _plan(self, name: str, kinds: Sequence[Kind]) -> Plan | None:
        """Return the base with the regions of some kinds fused; None where none can be.

        It opens the library of all kinds, for this processor: see `KernelPlans.delivered`.
        """
        assert self.library is not None
        library, kinds = self.library, [kind for kind in kinds if not kind.is_refused]
        supply(self.graph, [region.kernel for kind in kinds for region in kind.regions])
        graph = self.graph.copy()
        steps = []
        for kind in kinds:
            for region in kind.regions:
                step = self._step(kind, region)
                if place(graph, region.region.nodes, region.kernel):
                    steps.append(step)
        if not steps:
            return None
        self.candidate_files.place_file(library.path, library.name)
        opened = replace(self.base.execution, libraries=(Path(library.name),))
        self.used[name] = list(kinds)
        return Plan(
            name,
            embed(graph, library.domain),
            steps=[*self.base.steps, *self.shape_steps, *steps, *self._left_out(kinds)],
            execution=opened,
            base=self.base,
            gain_ns=sum(kind.gain_ns for kind in kinds),
            kernels=tuple(kinds),
        )

    def _left_out(self, chosen: Sequence[Kind]) -> list[Step]:
        """Say of the kinds that a plan is without why."""
        steps = []
        for kind in self.kinds:
            if kind not in chosen:
                reason = kind.refusal(chosen)
                for region in kind.regions if kind.convolves else kind.regions[:1]:
                    steps.append(replace(self._step(kind, region), accepted=False, reason=reason))
        return steps

    def _step(self, kind: Kind, region: RegionKernel) -> Step:
        """Describe a region fused; a convolution in blocks by the model's own nodes."""
        names = [
            name
            for number in region.region.nodes
            for name in sources(self.graph, number, self.base.steps)
        ]
        return step_of(kind, region, tuple(dict.fromkeys(names)))
