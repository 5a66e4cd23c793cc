"""Plans for several devices: `plan(model, cluster, goal=…)`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalog import Catalog
from ..catalog.store.staging import Scratch
from ..profiles.kernel import Kernel
from .cuts.cut_rules import admit, rule_of
from .cuts.operator_cuts import Cut, cuts_of
from .devices import Cluster, Link, links_of_each_pair, read_cluster
from .rewriting.joint import Rewriting, family, rules_for
from .search.beam import beam
from .search.branch_and_bound import best_of_all
from .search.config_space import Space, Use
from .search.goals import Goal, PlanError, Score, check_goal, score
from .search.local_search import anneal, descend
from .search.plan_candidates import Candidate, candidates, fastest_first
from .simulation.placement import Config
from .simulation.simulator import Simulation
from .simulation.tasks import Plan, Problem
from .simulation.times import Calibration, Times
from .workload import Operator, Workload, read_workload

if TYPE_CHECKING:
    import onnx

    from ..rules import Rule

# Tasks that random changes may simulate in all, and the most changes.
_TASKS, _CHANGES = 60_000, 400
# Graphs of so few combinations are looked through.
_FEW = 10_000_000.0
_MOST_DEVICES = 512


@dataclass(frozen=True)
class Instance:
    """A copy of the model, and how its operators are divided."""

    plan: Plan
    latency_s: float
    bottleneck_s: float


@dataclass(frozen=True)
class ParallelPlan:
    """Where each part of a model is computed, and what that is simulated to take.

    Requests go to `instances` in turns, to each as often as it can take. `memory_bytes` is by
    device. `exact` says that no other plan of the space is better. `compared` has the usual plans
    and what the goal is with them, where they fit. `rules` are the proved cuts that it rests on, by
    operator. `name` says what kind of plan it is. `rewriting` says how the program was chosen that
    is divided, where that was asked for: `problem` is of that program, `as_it_is` the best plan of
    the model as it is, where that fits.
    """

    problem: Problem
    goal: Goal
    name: str
    instances: tuple[Instance, ...]
    score: Score
    memory_bytes: Mapping[int, int]
    exact: bool
    compared: Mapping[str, float]
    rules: tuple[tuple[Rule, ...], ...] = ()
    rewriting: Rewriting | None = None
    as_it_is: ParallelPlan | None = None

    @property
    def latency_s(self) -> float:
        """Time of a request in the first instance."""
        return self.instances[0].latency_s

    @property
    def requests_per_s(self) -> float:
        """Requests a second of all instances, each at the pace of its busiest device or link."""
        return sum(
            1 / instance.bottleneck_s for instance in self.instances if instance.bottleneck_s > 0
        )

    def text(self) -> str:
        """Say what is where, a line for each run of operators that are divided alike."""
        devices = [device.name for device in self.problem.cluster.devices]
        lines = [
            f"{self.name}: {self.latency_s * 1e3:.3f} ms a request, "
            f"{self.requests_per_s:.1f} requests/s, "
            f"{max(self.memory_bytes.values(), default=0) / 2**20:.1f} MiB on the fullest device"
        ]
        if self.rewriting is not None:
            lines += [f"  {line}" for line in self.rewriting.lines()]
        operators = self.problem.workload.operators
        for number, instance in enumerate(self.instances):
            if len(self.instances) > 1:
                lines.append(f"instance {number + 1}:")
            pairs = zip(operators, instance.plan, strict=True)
            for config, group in itertools.groupby(pairs, key=lambda pair: _said(pair[1], devices)):
                names = [operator.name for operator, _ in group]
                operator_range = (
                    names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)})"
                )
                lines.append(f"  {config}: {operator_range}")
        return "\n".join(lines)


def _said(config: Config, devices: Sequence[str]) -> str:
    where = ", ".join(devices[n] for n in dict.fromkeys(config.devices))
    how = " and ".join(
        f"{cut.kind} in {degree}" + (f" (axis {cut.axes[0]})" if cut.axes else "")
        for cut, degree in config.cuts
    )
    if not how:
        return where if len(config.devices) == 1 else f"whole on each of {where}"
    return f"{how} on {where}"


def plan(
    model: str | Path | bytes | onnx.ModelProto | Workload,
    cluster: Cluster | str | Path,
    *,
    goal: str = "latency",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    catalog: Catalog | None = None,
    entry: str | None = None,
    seed: int = 0,
    prove: bool = True,
    rewrite: bool | Sequence[Rule] = False,
    calibration: Calibration | None = None,
    progress: Callable[[str], None] | None = None,
) -> ParallelPlan:
    """Choose how to divide a model among the devices of a cluster.

    `goal` is "latency" (of one request), "throughput" (requests a second) or "memory" (bytes on the
    fullest device). `catalog` has measured kernels and proofs of cuts; proofs that it lacks are
    made and stored there. `entry` names the device that inputs come from and outputs go to; without
    one, inputs are everywhere and outputs stay. With `prove=False`, cuts count that were derived
    and not proved: for experiments, never to be run. With `rewrite` the program to divide is chosen
    together with the cuts, of all that the proved rules of the ledger lead to, or rules that are
    given and taken as they are: some hold for finite numbers only (`finite_math`). `calibration` is
    what the model was measured to take on one device (calibration.py).

    Raises ModelError for a model that can't be planned, ClusterError for a cluster that can't be
    read, PlanError for an unknown goal, and where the devices can't hold the model: then it says
    how many of them would.
    """
    wanted = check_goal(goal)
    workload = model if isinstance(model, Workload) else read_workload(model, input_shapes)
    devices_given = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    if not workload.operators:
        raise PlanError("the model has no operators: there is nothing to divide")
    names = [device.name for device in devices_given.devices]
    start = names.index(devices_given.device(entry).name) if entry is not None else None
    times = Times(devices_given, catalog, calibration)
    of_average = () if calibration is None else calibration.of_average
    problem = Problem(workload, devices_given, times, start, of_average)
    planner = _Planner(problem, wanted, catalog, seed, prove, progress)
    if rewrite is False:
        return planner.run()
    return planner.rewritten(rules_for(workload) if rewrite is True else rewrite)


@dataclass
class _Planner:
    problem: Problem
    goal: Goal
    catalog: Catalog | None
    seed: int
    prove: bool
    progress: Callable[[str], None] | None
    refused: set[Use] = field(default_factory=set)

    def run(self) -> ParallelPlan:
        """Search, proving cuts as plans have them. Raises PlanError where nothing fits."""
        result = self.search()
        if result.score.excess_bytes:
            raise PlanError(self.refusal(result.score, [self]))
        return result

    def rewritten(self, rules: Sequence[Rule]) -> ParallelPlan:
        """Search for each program of a family, and return the best plan of all."""
        programs = family(self.problem, rules, self.space, self.say)
        planners = [self] + [
            replace(self, problem=problem) for problem in programs.problems(self.problem)
        ]
        results = [
            planner.search(program.starts)
            for planner, program in zip(planners, programs.programs, strict=True)
        ]
        # Of equally good plans the one of fewer rewrites.
        best = min(
            range(len(results)),
            key=lambda n: (results[n].score.key[:2], len(programs.programs[n].steps)),
        )
        if results[best].score.excess_bytes:
            raise PlanError(self.refusal(results[best].score, planners))
        rewriting = programs.rewriting(best, [result.score for result in results])
        exact = programs.is_whole and all(result.exact for result in results)
        first = None if results[0].score.excess_bytes else results[0]
        return replace(results[best], exact=exact, rewriting=rewriting, as_it_is=first)

    def space(self, problem: Problem) -> Space:
        """Return the divisions of a problem's operators, as far as they are not refused yet."""
        cuts = [self.usable(operator.kernel) for operator in problem.workload.operators]
        return Space(problem, cuts, self.unproved if self.prove else None)

    @property
    def operators(self) -> tuple[Operator, ...]:
        return self.problem.workload.operators

    def usable(self, kernel: Kernel) -> tuple[Cut, ...]:
        if kernel.is_constant:
            return ()
        return tuple(cut for cut in cuts_of(kernel) if (kernel, cut) not in self.refused)

    def rules(self, parallel_plan: ParallelPlan) -> tuple[tuple[Rule, ...], ...]:
        """Return the rules of the first instance, by operator."""
        pairs = zip(self.operators, parallel_plan.instances[0].plan, strict=True)
        return tuple(
            tuple(
                rule
                for cut, _ in config.cuts
                if (rule := rule_of(operator.kernel, cut)) is not None
            )
            for operator, config in pairs
        )

    def unproved(self, used: Set[Use]) -> Set[Use]:
        """Return those of some cuts that are not proved, now that that was tried."""
        if not used:
            return set()
        self.say(f"proving {len(used)} cuts")
        if self.catalog is not None:
            admitted = admit(used, self.catalog)
        else:
            with Scratch() as memory:
                admitted = admit(used, memory)
        refused = {use for use in used if not admitted.holds(*use)}
        self.refused |= refused
        return refused

    def say(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)

    # ---- the search
    def search(self, starts: Sequence[Candidate] = ()) -> ParallelPlan:
        """Return the best plan, of which the memory may be too much; `starts` are plans to try."""
        problem, goal = self.problem, self.goal
        space = self.space(problem)
        simulated_starts = [(start, Simulation(problem, start.plan)) for start in starts]
        compared: dict[str, float] = {}
        best: tuple[Score, Candidate, Simulation] | None = None

        def is_best(candidate: Candidate, simulation: Simulation) -> bool:
            return best is None or self.rank(candidate, simulation) < best[0]

        for tight in (goal == "memory", True):
            if best is not None and (tight == (goal == "memory") or not best[0].excess_bytes):
                break
            generated = candidates(space, goal, is_best, tight=tight)
            for candidate_, simulation in itertools.chain(generated, simulated_starts):
                self.say(candidate_.name)
                if (
                    candidate_ in starts
                    and is_best(candidate_, simulation)
                    and not space.holds(candidate_.plan)
                ):
                    continue
                rank = self.rank(candidate_, simulation)
                if rank.excess_bytes == 0:
                    compared[candidate_.name] = min(
                        rank.goal, compared.get(candidate_.name, math.inf)
                    )
                if best is None or rank < best[0]:
                    best = (rank, candidate_, simulation)
        assert best is not None
        rank, candidate, simulation = best
        exact = False
        if self.copies(candidate.devices) == 1 or goal != "throughput":
            simulation, rank, exact, candidate = self.refined(space, candidate, simulation, rank)
        instances = [self.instance(simulation)]
        if goal == "throughput":
            instances += self.others(candidate, simulation)
        first_bytes = simulation.memory_bytes()
        bytes_ = dict(first_bytes)
        for instance in instances[1:]:
            bytes_ |= self.bytes_by_device(instance, instances[0], first_bytes)
        name = candidate.name if len(instances) == 1 else f"{len(instances)} times {candidate.name}"
        result = ParallelPlan(problem, goal, name, tuple(instances), rank, bytes_, exact, compared)
        return replace(result, rules=self.rules(result))

    def refined(
        self, space: Space, candidate: Candidate, simulation: Simulation, rank: Score
    ) -> tuple[Simulation, Score, bool, Candidate]:
        """Change a plan where that is better, until all cuts of what comes out are proved."""
        if not self.problem.all_linked(range(len(self.problem.cluster.devices))):
            return simulation, rank, False, candidate
        while True:
            result = self.changed(space, candidate, simulation, rank)
            if space.holds(result[0].plan):
                return result

    def changed(
        self, space: Space, candidate: Candidate, simulation: Simulation, rank: Score
    ) -> tuple[Simulation, Score, bool, Candidate]:
        if len(self.problem.cluster.devices) > 4:
            configs = space.block_configs(candidate.devices)
        else:
            configs = [space.all_configs(number) for number in range(len(self.operators))]
        name = candidate.name
        searched = beam(self.problem, configs, self.goal)
        if searched is not None and searched[1] < rank:
            simulation, rank, name = *searched, "operators placed one by one"
        steps = _TASKS // max(len(simulation.schedule.tasks), 1)
        if sum(map(len, configs)) <= steps:
            simulation, rank = descend(simulation, configs, self.goal, steps=steps)
        steps = min(_CHANGES, steps)
        better, better_rank = anneal(simulation, configs, self.goal, steps=steps, seed=self.seed)
        if better_rank < rank:
            simulation, rank, name = better, better_rank, f"{name}, changed"
        combinations = math.prod(float(len(config)) for config in configs)
        if combinations > _FEW or len(self.problem.cluster.devices) > 4:
            return simulation, rank, False, replace(candidate, name=name)
        exact_ = best_of_all(self.problem, configs, self.goal, simulation)
        if exact_.score < rank:
            simulation, rank, name = exact_.simulation, exact_.score, "searched"
        return simulation, rank, exact_.exact, replace(candidate, name=name)

    # ---- instances
    def copies(self, devices: tuple[int, ...]) -> int:
        """Return how many instances of a plan for so many devices there is room for."""
        return len(self.problem.cluster.devices) // len(devices)

    def rank(self, candidate: Candidate, simulation: Simulation) -> Score:
        rank = score(simulation, self.goal)
        if self.goal != "throughput":
            return rank
        paces = [1 / rank.goal] if rank.goal > 0 else [math.inf]
        for other in self.others(candidate, simulation):
            if other.bottleneck_s > 0:
                paces.append(1 / other.bottleneck_s)
        return replace(rank, goal=1 / sum(paces))

    def others(self, candidate: Candidate, simulation: Simulation) -> list[Instance]:
        """Return the instances beside the first: the plan on the other devices, block by block."""
        first = self.instance(simulation)
        fits = score(simulation, self.goal).excess_bytes == 0
        order = fastest_first(self.problem)
        width = len(candidate.devices)
        instances = []
        for begin in range(width, len(order) - width + 1, width):
            block = order[begin : begin + width]
            if not self.problem.all_linked(block):
                continue
            place = dict(zip(candidate.devices, block, strict=True))
            plan = tuple(
                config.moved(tuple(place[device] for device in config.devices))
                for config in simulation.plan
            )
            if self.problem.alike(candidate.devices, block):
                if fits:
                    instances.append(replace(first, plan=plan))
                continue
            other = Simulation(self.problem, plan)
            if score(other, self.goal).excess_bytes == 0:
                instances.append(self.instance(other))
        return instances

    @staticmethod
    def instance(simulation: Simulation) -> Instance:
        return Instance(simulation.plan, simulation.latency_s, simulation.bottleneck_s)

    def bytes_by_device(
        self, instance: Instance, first: Instance, first_bytes: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Return what devices hold for an instance; `first_bytes` is that of the first one."""
        pairs = {
            (a, b)
            for left, right in zip(first.plan, instance.plan, strict=True)
            for a, b in zip(left.devices, right.devices, strict=True)
        }
        here, there = zip(*sorted(pairs), strict=True)
        if self.problem.alike(here, there):
            return {b: first_bytes.get(a, 0) for a, b in pairs}
        return Simulation(self.problem, instance.plan).memory_bytes()

    # ---- what does not fit
    def refusal(self, rank: Score, planners: Sequence[_Planner]) -> str:
        """Say how many devices like these would hold one of the programs."""
        devices = self.problem.cluster.devices
        text = (
            f"the model does not fit on the {len(devices)} devices of {self.problem.cluster.name}: "
            f"{rank.excess_bytes / 2**20:.1f} MiB are too much"
        )
        count = _smallest(planners)
        if count is None:
            return f"{text}; no number of such devices holds its largest operator: take larger ones"
        text = f"{text}; {count} devices like {devices[0].name} would do"
        names = [device.name for device in devices]
        for a, b in itertools.permutations(names, 2):
            if not self.problem.cluster.linked(a, b):
                return f"{text} if all were linked: no link leads from {a} to {b}"
        return text

    def fits_on(self, count: int) -> bool:
        """Tell whether the search finds a plan for so many devices like the first that fits."""
        cluster = alike(self.problem.cluster, count)
        space = self.space(Problem(self.problem.workload, cluster, Times(cluster)))
        return any(
            score(simulation, "memory").excess_bytes == 0
            for _, simulation in candidates(space, "memory", lambda *_: False, tight=True)
        )


def _smallest(planners: Sequence[_Planner]) -> int | None:
    """Return the smallest number of devices like the first for which one of the programs fits."""
    memory = planners[0].problem.cluster.devices[0].memory_bytes
    bounds = [-(-planner.problem.workload.constant_bytes // memory) for planner in planners]
    most = max(len(planner.operators) for planner in planners)
    for count in range(max(min(bounds), 1), _MOST_DEVICES + 1):
        for planner, least in zip(planners, bounds, strict=True):
            if count >= least and planner.fits_on(count):
                return count
        if count >= most and count >= 2 * max(bounds) + 8:
            return None
    return None


def alike(cluster: Cluster, count: int) -> Cluster:
    """Return a cluster of so many devices like the first, linked as the first two are."""
    first = cluster.devices[0]
    link = cluster.links[0] if cluster.links else Link("", "", 0.0, 1e9)
    devices = tuple(replace(first, name=f"{first.name}, copy {n}") for n in range(count))
    links = links_of_each_pair(devices, link.latency_s, link.bytes_per_s)
    return replace(cluster, devices=devices, links=links)
