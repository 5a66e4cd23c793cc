"""Plans against the original, on generated inputs: outputs compared, and timed end to end."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...profiles.kernel import Kernel
from ...profiles.kernels.runtime_kernels import runtime_kernels
from ...profiles.machine import memory_bytes
from ...profiles.races.opening_time import race_openings
from ...profiles.races.race import Lap, RaceError, race, verdict
from ...profiles.sessions.feeds import DISTRIBUTIONS, NONFINITE, random_feeds
from ...profiles.sessions.operators_run import operators_run
from ...profiles.sessions.session import (
    DEFAULTS,
    Execution,
    release_memory,
    resident_bytes,
    trim_memory,
)
from ..graph.convert import tensor_type
from ..graph.free_sizes import guesses, other_sizes
from ..graph.graph import Graph, TensorType
from ..graph.infer import bound_types
from ..match.rewrite import Step
from ..phases import BEST, Phases
from ..setting import Setting
from .index_range import index_limit
from .isolated_run import is_risky, run_isolated
from .unlocked_sums import unlocked_sums
from .verify import (
    LEAST_RUN_S,
    Deviation,
    EndlessError,
    Feeds,
    NoTimeError,
    NotOpenedError,
    Verifier,
    Wide,
    failures,
)

if TYPE_CHECKING:
    from ..native.region_kinds import Kind

ORIGINAL = "original"
# How many tensors a sequence has that a model is given.
SEQUENCE = 3
NO_RANK = "it declares no rank; declare its shape in the model, free sizes by their names"
# Runs of a plan in the shortest race: to learn shapes, to warm up, to choose the length of a lap.
LEAST_RUNS = 8
# Of these, the ones that come before the first lap.
WARMING_RUNS = 4
# Openings from which on a comparison tells anything, of a plan and the original together.
LEAST_OPENINGS = 10
# What sessions alive at once may hold, and what the whole process may. A session takes about the
# model's size, since weights lie in a file that is mapped and packed once, and its activations.
RACE_MODELS, RACE_BYTES = 2.5, 250 << 20
PROMISED_MODELS, PROMISED_BYTES = 3, 500_000_000
SESSION_BYTES = 16 << 20


@dataclass
class Plan:
    """One way to compute the model: its graph, the steps to it, and what was found out about it.

    `execution` is how its session is opened; `naive` the same plan opened as the runtime does by
    itself, where that is another one. `run` are the kernels that the runtime runs for it,
    `same_kernels_as` names another plan with the same ones. `base` is the plan that `kernels` were
    put into, and `gain_ns` what these save, each timed beside the operators that it replaces. `gap`
    is the share of its cost by which the search that chose it can't rule out a cheaper plan.
    `nodes_in_file` is set of the original, whose file isn't written from the graph. What
    `is_verified` was found to compute what the original does. `lacks_s` are the seconds that
    verifying it or racing it would have taken, where it is refused since there was no time for
    that. `behind` names the plan that was faster in the heats, where that one alone raced again.
    """

    name: str
    graph: Graph
    steps: list[Step] = field(default_factory=list)
    source: Path | bytes = b""
    execution: Execution = DEFAULTS
    naive: Plan | None = None
    deviations: list[Deviation] = field(default_factory=list)
    refusal: str = ""
    lap: Lap | None = None
    run: Counter[Kernel] | None = None
    same_kernels_as: str = ""
    predicted_ns: float | None = None
    base: Plan | None = None
    gain_ns: float = 0.0
    kernels: tuple[Kind, ...] = ()
    gap: float = 0.0
    nodes_in_file: int | None = None
    is_verified: bool = False
    lacks_s: float = 0.0
    behind: str = ""

    @property
    def nodes(self) -> int:
        """Count the nodes that its file has: in the graph, those named Constant are values."""
        return len(self.graph.nodes) if self.nodes_in_file is None else self.nodes_in_file


class Contest:
    """The original, run on generated inputs, and what challenges it."""

    def __init__(
        self,
        original: Plan,
        setting: Setting,
        phases: Phases,
        *,
        fixed_sizes: Mapping[str, int],
        size_bytes: int,
        widened: Wide | None,
        end: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Run the original on likely sizes of its free dimensions, `fixed_sizes` kept.

        `end`, a time of the clock, bounds its runs; `clock` is for tests. Raises what ONNX Runtime
        raises where the model runs on none of the sizes, and what a Verifier raises.
        """
        self.original = original
        self.setting = setting
        self.phases = phases
        self.clock = clock
        self.size_bytes = size_bytes
        self._end = end
        self.sizes: dict[str, int] = dict(fixed_sizes)
        # The best plan so far: verified, and faster than the original when they raced last.
        self.incumbent: Plan | None = None
        self._verifier = self._first_that_runs(fixed_sizes, widened)
        self._others: Verifier | None = None
        other = other_sizes(self.sizes)
        if other is not None:
            try:
                feeds = {"other sizes": self.feeds("normal", other)}
                self._others = self._verifier_of(feeds, other, widened)
            except Exception:  # the model fixes a size that it declares as free
                self._others = None

    def close(self) -> None:
        """Remove what was stored."""
        for verifier in (self._verifier, self._others):
            if verifier is not None:
                verifier.close()

    def feeds(self, distribution: str, sizes: Mapping[str, int] | None = None) -> Feeds:
        """Generate inputs; those with a default of the model's own keep it.

        Integers that are indices range over what they index; others are 0 and 1, as masks are.
        """
        graph = self.original.graph
        bound = self.sizes if sizes is None else sizes
        defaults = {tensor.name for tensor in graph.base.graph.initializer}
        seed = self.setting.seed + (*DISTRIBUTIONS, *NONFINITE).index(distribution)
        feeds: dict[str, Any] = {}
        for value in graph.graph_inputs:
            name, type_ = graph.names[value], graph.types.get(value)
            if name in defaults:
                continue
            element = _element_type(graph, name) if type_ is None else None
            drawn = type_ or element
            if drawn is None or drawn.shape is None:
                lacks = "it is no tensor, and no sequence of them" if drawn is None else NO_RANK
                raise RaceError(f"no inputs can be generated for {name!r}: {lacks}")
            shape = tuple(
                bound.get(size, 1) if isinstance(size, str) else size for size in drawn.shape
            )
            if math.prod(shape) > (memory_bytes() or math.inf):  # of a byte each, at least
                size = " x ".join(map(str, shape))
                raise RaceError(f"no inputs can be generated for {name!r}: {size} is too large")
            limit = index_limit(graph, value, bound)
            names = [name] if element is None else [f"{name}.{i}" for i in range(SEQUENCE)]
            arrays = random_feeds(
                dict.fromkeys(names, (drawn.dtype, shape)), distribution, seed, high=limit
            )
            feeds[name] = arrays[name] if element is None else list(arrays.values())
        return feeds

    def verify(self, plan: Plan) -> None:
        """Compare a plan's outputs with the original's; a plan that deviates is refused.

        So is one that, opened as the runtime does by itself, does.
        """
        try:
            plan.deviations = self._verifier.deviations(plan.name, plan.source, plan.execution)
            if self._others is not None:
                plan.deviations += self._others.deviations(plan.name, plan.source, plan.execution)
        except Exception as error:  # whatever the runtime raises, the plan can't be used
            plan.refusal = f"does not run: {' '.join(str(error).split())[:300]}"
            return
        plan.refusal = next(failures(plan.deviations), "")
        if plan.naive is not None and plan.naive.refusal:
            plan.refusal = f"opened without its options: {plan.naive.refusal}"
        plan.is_verified = not plan.refusal

    def keeps_nonfinite(self, plan: Plan) -> bool:
        """Tell whether a plan gives NaN and infinities where the original does, on drawn inputs."""
        try:
            deviations = self._verifier.deviations(plan.name, plan.source, among=NONFINITE)
        except Exception:  # what does not run loses nothing: `verify` says why it is refused
            return True
        return all(deviation.within for deviation in deviations)

    def time(
        self,
        plans: Sequence[Plan],
        budget_s: float,
        *,
        phase: str,
        reference: str = ORIGINAL,
        finalists: int | None = None,
        least_rounds: int = 1,
        seed: int = 0,
    ) -> dict[str, Lap]:
        """Time plans end to end, interleaved, against the one named `reference`.

        Large models race in groups, each against the reference. With `finalists` the slower ones
        drop out until so many are left; laps come in the order of placing, the reference's first.
        """
        with self.phases(phase):
            release_memory()  # what others have left free counts as taken
            laps = race(
                {plan.name: plan.source for plan in plans},
                dict(self.feeds("normal")),
                threads=self.setting.threads,
                budget_s=budget_s,
                reference=reference,
                executions={plan.name: plan.execution for plan in plans},
                spins=reference == ORIGINAL,
                progress=lambda share, label: self.phases.tell(
                    phase, round(100 * share), 100, label
                ),
                seats=max(1, self._room),
                finalists=finalists,
                least_rounds=least_rounds,
                seed=self.setting.seed + seed,
            )
        if reference == ORIGINAL:
            self._note_best(plans, laps)
        return laps

    def _note_best(self, plans: Sequence[Plan], laps: Mapping[str, Lap]) -> None:
        """Remember the best plan that may be written as it is, as a race has shown it."""
        best = self.incumbent
        for plan in plans:
            if plan.name not in laps or not plan.is_verified or plan.naive is not None:
                continue
            lap = laps[plan.name]
            if verdict(lap) != "faster":
                best = None if plan is best else best
            elif best is None or best.lap is None or plan is best or lap.ratio < best.lap.ratio:
                best, plan.lap = plan, lap
                self.original.lap = laps[ORIGINAL]
        previous, self.incumbent = self.incumbent, best
        if best is not None and best.lap is not None:
            self.phases.tell(BEST, 0, 0, f"{1 / best.lap.ratio:.2f}x, plan {best.name!r}")
        elif previous is not None:
            self.phases.tell(BEST, 0, 0, "")

    def time_runnable(
        self,
        plans: Sequence[Plan],
        budget_s: float,
        *,
        phase: str,
        reference: str,
        finalists: int | None = None,
    ) -> dict[str, Lap]:
        """Time plans as `time` does; those that the runtime refuses have no lap."""
        end, remaining = self.clock() + budget_s, list(plans)
        while True:
            try:
                share = max(0.0, end - self.clock())
                return self.time(
                    remaining, share, phase=phase, reference=reference, finalists=finalists
                )
            except RaceError as error:  # one that is refused must not hide the others
                if error.model in ("", reference):
                    return {}
                remaining = [plan for plan in remaining if plan.name != error.model]

    def opening(self, plan: Plan, budget_s: float) -> Lap | None:
        """Time how long a plan takes to be opened, and the original; None without the time."""
        if LEAST_OPENINGS * self._verifier.session.opening_s > budget_s:
            return None
        with self.phases("opening sessions"):
            return race_openings(
                {timed_plan.name: timed_plan.source for timed_plan in (self.original, plan)},
                threads=self.setting.threads,
                budget_s=budget_s,
                reference=ORIGINAL,
                executions={
                    timed_plan.name: timed_plan.execution for timed_plan in (self.original, plan)
                },
            )[plan.name]

    def operators_run(self, plan: Plan) -> Counter[str]:
        """Count the operators that the runtime runs for a plan; raises what it raises."""
        if plan.run is not None:
            return Counter(kernel.op_type for kernel in plan.run.elements())
        return operators_run(
            plan.source,
            self.feeds("normal"),
            threads=self.setting.threads,
            execution=plan.execution,
        )

    def kernels_run(self, plan: Plan) -> Counter[Kernel] | None:
        """Count the kernels that the runtime runs for a plan; None where not all can be known."""
        try:
            run = runtime_kernels(
                plan.source,
                self.feeds("normal"),
                threads=self.setting.threads,
                execution=plan.execution,
            )
        except Exception:  # what doesn't run under the runtime's profiler isn't predicted
            return None
        finally:
            trim_memory()
        return None if run.unknown_operators else run.counts

    @property
    def asking_s(self) -> float:
        """Seconds that it takes at least to learn what runs for a plan."""
        return self._verifier.session.opening_s + self._verifier.session.run_s

    @property
    def verifying_s(self) -> float:
        """Seconds that verifying a plan takes at least."""
        verifiers = [
            verifier for verifier in (self._verifier, self._others) if verifier is not None
        ]
        return sum(verifier.verifying_s for verifier in verifiers)

    @property
    def seats(self) -> int:
        """How many plans may race the reference at once without breaking the memory promise."""
        return max(1, self._room - 1)

    @property
    def entry_s(self) -> float:
        """Seconds that a plan takes at least in a race: its session opened, and a few runs."""
        return self._verifier.session.opening_s + LEAST_RUNS * self._verifier.session.run_s

    def rounds_s(self, rounds: int) -> float:
        """Seconds of so many rounds of a plan and the reference, their sessions opened."""
        return self._entering_s + self._challenging_s(rounds)

    def affordable(self, budget_s: float, rounds: int) -> int:
        """Count the plans that can race the same reference for so many rounds."""
        return max(0, int((budget_s - self._entering_s) / max(1e-6, self._challenging_s(rounds))))

    @property
    def round_s(self) -> float:
        """Seconds that a round of a plan and the reference takes."""
        return 2 * self._verifier.session.run_s

    @property
    def _entering_s(self) -> float:
        cost = self._verifier.session
        return cost.opening_s + WARMING_RUNS * cost.run_s

    def _challenging_s(self, rounds: int) -> float:
        """Seconds that a plan takes, and the reference beside it."""
        return self._entering_s + 2 * rounds * self._verifier.session.run_s

    @property
    def _room(self) -> int:
        """How many sessions may be alive at once without breaking the memory promise."""
        cost = self._verifier.session
        session = max(self.size_bytes + SESSION_BYTES, cost.size_bytes)
        promised = PROMISED_MODELS * self.size_bytes + PROMISED_BYTES - resident_bytes()
        promised -= max(session // 2, cost.opening_bytes - session)  # for the one that is opened
        return int(min(RACE_MODELS * self.size_bytes + RACE_BYTES, promised) / session)

    def _first_that_runs(self, fixed_sizes: Mapping[str, int], widened: Wide | None) -> Verifier:
        failure: Exception | None = None
        for sizes in guesses(self.original.graph, fixed_sizes):
            self.sizes = sizes
            feeds = {name: self.feeds(name) for name in self._distributions()}
            try:
                return self._verifier_of(feeds, sizes, widened)
            except (EndlessError, NotOpenedError, NoTimeError):
                raise
            except Exception as error:  # another guess may suit the model
                failure = failure or error
        assert failure is not None
        raise failure

    def _distributions(self) -> tuple[str, ...]:
        """Choose distributions; where no input is a float they differ in the seed alone."""
        graph = self.original.graph
        dtypes = {type_.dtype for v in graph.graph_inputs if (type_ := graph.types.get(v))}
        if not any("float" in dtype for dtype in dtypes):
            return DISTRIBUTIONS[:2]
        return DISTRIBUTIONS if self.setting.finite_math else (*DISTRIBUTIONS, *NONFINITE)

    def _verifier_of(
        self, feeds: Mapping[str, Feeds], sizes: Mapping[str, int], widened: Wide | None
    ) -> Verifier:
        graph = self.original.graph
        types = bound_types(graph, sizes)
        _check_memory(graph, types)
        if is_risky(graph, types):
            limit_s = max(LEAST_RUN_S, self._end - time.monotonic())
            run_isolated(self.original.source, list(feeds.values()), self.setting.threads, limit_s)
        return Verifier(
            self.original.source,
            feeds,
            threads=self.setting.threads,
            reference_threads=1 if unlocked_sums(graph) else self.setting.threads,
            wide=widened,
            end=self._end,
        )


def _element_type(graph: Graph, name: str) -> TensorType | None:
    """Return the type of the tensors in a sequence that a model takes; None of anything else."""
    declared = next(entry.type for entry in graph.base.graph.input if entry.name == name)
    if not declared.HasField("sequence_type"):
        return None
    return tensor_type(declared.sequence_type.elem_type, name)


def _check_memory(graph: Graph, types: Mapping[int, TensorType]) -> None:
    """Raise RaceError for a value that the machine's memory can't hold.

    A system that promises more memory than there is ends the process, or another one, by the time
    the runtime writes it.
    """
    memory = memory_bytes() or math.inf
    for value, type_ in types.items():
        if (size_bytes := type_.size_bytes) is not None and size_bytes > memory:
            shape = " x ".join(map(str, type_.shape or ()))
            raise RaceError(
                f"value {graph.names[value]!r} of {shape} ({type_.dtype}) is larger than the "
                f"memory of {memory / (1 << 30):.0f} GiB"
            )
