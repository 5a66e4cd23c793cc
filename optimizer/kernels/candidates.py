"""Plans with fused kernels: which kinds of regions gain is measured, alone and in the model.

Regions with one kernel are of one kind: the layers of a model have the same ones. A kind is first
raced against the operators that it replaces, then, where that promises something, end to end: a
kernel can hide a pattern from the runtime's own optimizer, or stand between two convolutions whose
layout the runtime would have kept. In a large model, where each such race takes seconds, only the
latter are. What does no harm goes together into a few plans: all kernels, those without products,
and those that gain most by themselves.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from ...profiles.costs import Cost
from ...profiles.race import Lap, verdict
from ...profiles.session import open_session
from ..codegen.compiler import FLAGS, CompilerError
from ..contest import Contest, Plan
from ..graph import Graph
from ..phases import Phases
from ..realize import Workshop
from ..rewrite import Step
from ..search import bound_types
from .attention import attentions
from .embed import embed, place
from .grow import Found, Grower
from .kinds import Kind, cover, step_of
from .library import Library, build
from .product import products, supply
from .region import Meanings
from .settle import settle
from .steady import steady
from .trial import KERNEL, measured

# How regions are grown: from what the runtime leaves as it is, without products, and from all.
LEFT, OTHERS, EVERYTHING = range(3)
# More kinds share too little time to be told apart; those that promise most are tried, in the model
# as far as there is time for so many rounds of each.
MOST_KINDS, LEAST_ROUNDS = 20, 5
# Of the time, what racing kernels alone may take, and at least for each.
ALONE_SHARE, ALONE_LEAST_S = 0.3, 0.05
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
        plans: dict[frozenset[int], Plan | None] = {}
        for name, chosen in (
            ("kernels", cover(harmless, EVERYTHING)),
            ("kernels without products", cover(without, OTHERS)),
            ("kernels by gain", cover(harmless)),
        ):
            same = frozenset(map(id, chosen))
            if chosen and same not in plans:
                plans[same] = self._plan(name, chosen)
        return [plan for plan in plans.values() if plan is not None]

    # --------------------------------------------------------------------------------- kinds

    def _kinds(self) -> list[Kind]:
        """Find the regions, of all nodes and of those that the runtime doesn't fuse itself."""
        meanings = Meanings(self.graph)
        everything = regions(meanings, self.graph.nodes)
        others = regions(meanings, self.graph.nodes, multiplies=False)
        left = Grower(meanings, steady(meanings, self._left_alone())).regions()
        kinds: dict[tuple[str, tuple[tuple[int, ...], ...]], Kind] = {}
        for sort, grown in ((LEFT, left), (OTHERS, others), (EVERYTHING, everything)):
            of: dict[str, list[Found]] = {}
            for one in grown:
                of.setdefault(one.kernel.name, []).append(one)
            for name, found in of.items():
                key = (name, tuple(one.region.nodes for one in found))
                kinds.setdefault(key, Kind(found)).sorts.add(sort)
        return list(kinds.values())

    def _left_alone(self) -> set[int]:
        """List the nodes that ONNX Runtime's optimizer leaves as they are; all where nobody knows.

        The optimized model holds all weights: of a large one it isn't written.
        """
        if self.contest.size_bytes > MOST_WRITTEN_BYTES:
            return set(self.graph.nodes)
        with tempfile.TemporaryDirectory(prefix="tensolog-optimized-") as folder:
            path = Path(folder) / "optimized.onnx"
            try:
                open_session(
                    self.base.source,
                    threads=self.contest.setting.threads,
                    execution=self.base.execution,
                    optimized_path=path,
                )
                optimized = onnx.load(str(path), load_external_data=False)
            except Exception:  # where it can't be written, nothing is known
                return set(self.graph.nodes)
        made = {name: node for node in optimized.graph.node for name in node.output}
        kept = set()
        for number, node in self.graph.nodes.items():
            same = made.get(self.graph.names[node.outputs[0]])
            if same is not None and (same.op_type, same.domain) == (node.op_type, node.domain):
                kept.add(number)
        return kept

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

    What kernels were measured to cost is added to `costs`, by the names of their operators. Other
    rewrites take operators apart, or name the runtime's own, for the sake of the kernels that
    the runtime has. Raises CompilerError where there is no C compiler.
    """
    sound = [plan for plan in plans if not plan.refusal and plan.execution.is_default]
    base = min(sound, key=_changes, default=contest.original)
    fusing = Fusing(base, contest, workshop, phases)
    fused = fusing.plans(budget_s)
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


def regions(
    meanings: Meanings, allowed: Collection[int], *, multiplies: bool = True
) -> list[Found]:
    """Find regions of all sorts, no two of which have a node in common.

    Attentions come first, then, where `multiplies`, products with constant matrices.
    """
    left = steady(meanings, allowed)
    found = attentions(meanings, left)
    left -= _covered(found)
    if multiplies:
        found += products(meanings, left)
        left -= _covered(found)
    return [*found, *Grower(meanings, left).regions()]


def _covered(found: Sequence[Found]) -> set[int]:
    return {number for one in found for number in one.region.nodes}


def fused_graph(
    graph: Graph,
    *,
    multiplies: bool = True,
    levels: Sequence[str] | None = None,
    flags: Sequence[str] = FLAGS,
) -> tuple[Graph, Library] | None:
    """Fuse all regions of a graph, whatever they gain; None where there are none.

    `multiplies` is that of `regions`, `levels` and `flags` are those of `library.build`.
    """
    fused = graph.copy()
    settle(fused)
    found = regions(Meanings(fused), fused.nodes, multiplies=multiplies)
    placed = [one for one in found if place(fused, one.region.nodes, one.kernel)]
    supply(fused, [one.kernel for one in placed])
    if not placed:
        return None
    library = build([one.kernel for one in placed], levels=levels, flags=flags)
    return embed(fused, library.domain), library
