"""Deploying over several devices, processes of this machine or workers of a cluster: what is best.

In: a model and a description of devices. The plan that the search finds for it, the one for a
program that rules lead to (rewritten.py compares it with the model), a pipeline over all devices,
an instance for each device (data parallelism) and one instance with all cores race in turns; none
of their processes may have more memory than the description gives a device. On a cluster, one
instance is that of one worker. A divided model is chosen only where it is surely better than any
that is whole and fits.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import onnx
from onnx import TensorProto, helper

from ...catalog import Catalog
from ...catalog.errors import TensologError
from ...optimizer.match.rewrite import Step
from ...profiles.machine import cores as usable_cores
from ...profiles.sessions.deployed import model_file
from ...rules import Rule
from ..calibration import calibrate
from ..deployment.deployment import files_beside
from ..deployment.settings import Goal, Limit, LimitError, Measured, Setting, best
from ..devices import Cluster, ClusterError
from ..partitioner import Parted, part
from ..planning import ParallelPlan
from ..planning import plan as find_plan
from ..rewriting.joint import rules_for
from ..runnable_plan import Partition, RemoteWorkers, Slot
from ..search.goals import PlanError
from ..search.pipelines import staged
from ..serving.instance import Instance, Start
from ..serving.pinning import here_each
from ..serving.source import Runner
from ..serving.worker_group import Group, WorkerGroup, starts_of
from ..simulation.placement import whole_on
from ..simulation.simulator import Simulation
from ..simulation.spans import timeline_of
from ..simulation.tasks import Plan, Problem
from ..simulation.times import Calibration
from ..simulation.times import Times as KernelTimes
from ..timeline import Timeline
from ..workload import Workload, read_workload
from .batches import drawn_feeds
from .contest import Contender, Feeds, Times, closing, lead, race, timed, warm
from .rewritten import difference, why_as_it_is

if TYPE_CHECKING:
    from ..cluster.crew import ClusterCrew

Tell = Callable[[str, str], None]
Opened = tuple[list[Runner], int]
"""What runs requests, and the bytes of memory that it has."""

# What a plan counts is not all that the runtime takes: where it is too much, plans are made for
# this share of the memory, and for less, so many times.
_MEMORY_SHARE, _TRIES = 0.6, 3
_LIMIT_S = 600.0
# How often a program is looked for, each time without the rules of one that computes another thing.
_REWRITES = 3


@dataclass
class Divided:
    """What was chosen: a setting, the parts of a model that is divided, and all that was measured.

    `partition` is none where the whole model is served.
    """

    chosen: Measured
    baseline: Measured
    measured: list[Measured]
    reasons: list[str]
    complete: bool
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    rows: int
    parted: Parted | None
    plan: ParallelPlan | None
    remote: RemoteWorkers | None
    timeline: Timeline | None

    @property
    def is_rewritten(self) -> bool:
        """Tell whether what is divided is a program that rules led to."""
        return self.plan is not None and bool(_steps(self.plan))


@dataclass(frozen=True)
class _Division:
    """A plan that was opened: its parts, the search that it came from, and its first instance."""

    parted: Parted
    found: ParallelPlan | None
    plan: Plan
    problem: Problem
    # The workers of each instance, where they are some of a cluster.
    remote: RemoteWorkers | None = None

    def timeline(self) -> Timeline:
        return timeline_of(Simulation(self.problem, self.plan))


def check_devices(cluster: Cluster) -> None:
    """Raise ClusterError unless this machine can stand for the devices."""
    asked, allowed = sum(device.cores for device in cluster.devices), usable_cores()
    other = next((device.name for device in cluster.devices if device.kind != "cpu"), None)
    if other is not None:
        raise ClusterError(
            f"{other} is no processor of this machine: tensolog.parallel.plan plans for devices of "
            "other kinds, and models are deployed on this one"
        )
    if asked > allowed:
        raise ClusterError(
            f"{cluster.name} has {asked} cores in all, and this process may use {allowed}: "
            "deploy on devices that are here, as tensolog devices measure describes them"
        )


def choose_over_devices(
    model: Path,
    cluster: Cluster,
    goal: Goal,
    limits: Sequence[Limit],
    input_shapes: Mapping[str, Sequence[int]],
    *,
    budget_s: float,
    catalog: Catalog | None,
    tell: Tell,
    instances: Sequence[Setting] = (),
) -> Divided:
    """Choose how a model is served on several devices, at the sizes of `input_shapes`.

    `instances` are further settings of the whole model that take part, whatever their batch.

    Raises ModelError for a model whose sizes are not known, ClusterError for devices that are not
    here, PlanError, with the number of devices that would do, where none of them holds the model
    together, LimitError where nothing keeps the limits.
    """
    with contextlib.ExitStack() as open_for:
        crew: ClusterCrew | None = None
        if cluster.scheduler:
            # Imported within functions: what only plans over a cluster need.
            from ..cluster.crew import ClusterCrew

            crew = open_for.enter_context(ClusterCrew(cluster))
        else:
            check_devices(cluster)
        folder = open_for.enter_context(tempfile.TemporaryDirectory(prefix="tensolog-parts-"))
        question = _Question(
            model,
            cluster,
            goal,
            limits,
            input_shapes,
            budget_s,
            catalog,
            tell,
            Path(folder),
            instances,
            crew,
        )
        return question.answer()


@dataclass
class _Question:
    model: Path
    cluster: Cluster
    goal: Goal
    limits: Sequence[Limit]
    input_shapes: Mapping[str, Sequence[int]]
    budget_s: float
    catalog: Catalog | None
    tell: Tell
    folder: Path
    also: Sequence[Setting] = ()
    crew: ClusterCrew | None = None
    contenders: list[Contender] = field(default_factory=list)
    divisions: dict[Setting, _Division] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    # Rules that were found to change what the model computes.
    refused: set[str] = field(default_factory=set)
    calibration: Calibration | None = None

    def answer(self) -> Divided:
        self.tell("reading", str(self.model))
        workload = read_workload(model_file(self.model), self.input_shapes)
        inputs, outputs = slots_of(workload)
        feeds = drawn_feeds(inputs, {}, None)
        rows = next((slot.shape[0] for slot in inputs if slot.shape), 1)
        rows = rows if isinstance(rows, int) else 1
        with closing(self.contenders):
            if self.crew is None:
                self.open_whole(rows, feeds)
                self.calibrate(workload, feeds)
            else:
                self.open_whole_on_workers(workload, rows, feeds)
            self.open_divided(workload, rows, feeds)
            _, complete = race(
                self.contenders,
                self.goal,
                budget_s=self.budget_s,
                tell=lambda text: self.tell("measuring", text),
            )
            chosen, baseline = self.chosen()
        division = self.divisions.get(chosen.setting)
        if division is not None and division.found is not None and division.found.rewriting:
            self.reasons += division.found.rewriting.lines()
        return Divided(
            chosen,
            baseline,
            [contender.measured() for contender in self.contenders],
            self.reasons,
            complete,
            inputs,
            outputs,
            rows,
            None if division is None else division.parted,
            None if division is None else division.found,
            None if division is None else division.remote,
            None if division is None else division.timeline(),
        )

    # ---- what races
    def open_whole(self, rows: int, feeds: Feeds) -> None:
        """Open one instance with all cores, and, where it has the memory, one for each device."""
        cores = [device.cores for device in self.cluster.devices]
        memory = [device.memory_bytes for device in self.cluster.devices]
        most = [max(memory)]
        fits = self.enter(
            Setting(1, sum(cores), rows), feeds, lambda: self.instances([sum(cores)], most)
        )
        if fits and len(set(cores)) == 1:  # instances are alike
            setting = Setting(len(cores), cores[0], rows)
            self.enter(setting, feeds, lambda: self.instances(cores, memory))
        for also in self.also:
            setting = replace(also, batch=rows)
            if all(setting != contender.setting for contender in self.contenders):
                each, limits = [also.threads] * also.instances, most * also.instances
                self.enter(setting, feeds, partial(self.instances, each, limits))

    def calibrate(self, workload: Workload, feeds: Feeds) -> None:
        """Time the model and its pieces for the plans, where each device has the memory for it."""
        fits = any(
            contender.setting.instances == len(self.cluster.devices)
            for contender in self.contenders
        )
        if len(self.cluster.devices) < 2 or not fits:
            return
        self.tell("measuring", "the model and its pieces on one device")
        problem = Problem(workload, self.cluster, KernelTimes(self.cluster, self.catalog))
        place = self.beside("calibration")
        self.calibration = calibrate(problem, model_file(self.model), dict(feeds), place)

    def open_whole_on_workers(self, workload: Workload, rows: int, feeds: Feeds) -> None:
        """Open the whole model on the fastest worker, and on each where these are alike."""
        problem = Problem(workload, self.cluster, KernelTimes(self.cluster))
        devices = self.cluster.devices
        order = sorted(range(len(devices)), key=lambda n: -devices[n].flops_per_s)
        plans = [tuple(whole_on(n) for _ in workload.operators) for n in order]
        fits = self.open_parts(
            plans[:1], problem, None, Setting(1, devices[order[0]].cores, rows), feeds
        )
        if fits and len(plans) > 1 and len({device.cores for device in devices}) == 1:
            self.open_parts(
                plans, problem, None, Setting(len(plans), devices[0].cores, rows), feeds
            )

    def instances(self, cores: Sequence[int], memory: Sequence[int]) -> Opened:
        opened: list[Instance] = []
        with _closed_on_error(opened):
            for threads, place, limit in zip(cores, here_each(cores), memory, strict=False):
                start = Start(model_file(self.model), threads, place, memory_limit_bytes=limit)
                opened.append(Instance(start))
            for instance in opened:
                instance.ready()
        return list(opened), sum(instance.resident_bytes for instance in opened)

    def open_divided(self, workload: Workload, rows: int, feeds: Feeds) -> None:
        """Open the plan that the search finds, and a pipeline; less memory where it is too much."""
        base = runtime_bytes()
        share = 1.0
        for _ in range(_TRIES):
            cluster = _with_memory(self.cluster, base, share)
            try:
                checked = self.checked(workload, cluster)
            except PlanError as error:
                if self.contenders:
                    self.reasons.append(f"no plan over several devices: {error}")
                    return
                if share == 1.0:
                    raise PlanError("; ".join([str(error), *self.not_rewritten()])) from error
                raise PlanError(
                    f"{error} (plans that fill them to the brim could not be opened: "
                    f"{self.reasons[-1]})"
                ) from error
            opened = []
            for made_plan in self.unlike(checked):
                name = f"{made_plan.name}, rewritten" if _steps(made_plan) else made_plan.name
                plans = [instance.plan for instance in made_plan.instances]
                opened.append(self.open_plan(name, plans, made_plan, rows, feeds))
            for name, plans in self.pipeline(self.as_it_is(checked)).items():
                opened.append(self.open_plan(name, plans, self.as_it_is(checked), rows, feeds))
            if any(opened) or self.contenders:
                return
            share *= _MEMORY_SHARE
        raise PlanError(
            f"no process of {self.cluster.name} could run its part within its memory: "
            f"{'; '.join(self.reasons[-2:])}; give each device more memory, or add devices"
        )

    def plan(
        self, workload: Workload, cluster: Cluster, rules: Sequence[Rule] = ()
    ) -> ParallelPlan:
        return find_plan(
            workload,
            cluster,
            goal=self.goal,
            catalog=self.catalog,
            rewrite=rules or False,
            calibration=self.calibration,
            progress=lambda text: self.tell("planning", text),
        )

    def checked(self, workload: Workload, cluster: Cluster) -> ParallelPlan:
        """Plan for the model or what rules lead to, without those that change what it computes."""
        if why := why_as_it_is(workload):
            self.reasons.append(f"the model was not rewritten: {why}")
            return self.plan(workload, cluster)
        rules = [rule for rule in rules_for(workload) if rule.name not in self.refused]
        inputs, _ = slots_of(workload)
        for _ in range(_REWRITES):
            checked = self.plan(workload, cluster, rules)
            if not (steps := _steps(checked)):
                return checked
            self.tell("comparing with the original", checked.name)
            file = model_file(self.model)
            place = self.beside(f"compared{len(self.refused)}")
            if not (why := difference(file, checked, inputs, place, limit_s=_LIMIT_S)):
                return checked
            used = dict.fromkeys(step.rule for step in steps)
            self.reasons.append(f"the model was not rewritten by {', '.join(used)}: {why}")
            self.refused |= used.keys()
            rules = [rule for rule in rules if rule.name not in used]
        return checked.as_it_is or self.plan(workload, cluster)

    def not_rewritten(self) -> list[str]:
        """Say why rules were not applied that would have been."""
        return [reason for reason in self.reasons if "not rewritten" in reason]

    @staticmethod
    def as_it_is(parallel_plan: ParallelPlan) -> ParallelPlan:
        """Return the plan of the model as it is, where that fits, else of what rules made of it."""
        return parallel_plan.as_it_is or parallel_plan

    def unlike(self, parallel_plan: ParallelPlan) -> list[ParallelPlan]:
        """Return a plan, and beside one of a rewritten model that of the model as it is."""
        first = parallel_plan.as_it_is
        return (
            [parallel_plan, first]
            if _steps(parallel_plan) and first is not None
            else [parallel_plan]
        )

    def beside(self, name: str) -> Path:
        """Make a folder with all that the model has beside it: stages name weights there."""
        place = self.folder / name
        place.mkdir()
        file = model_file(self.model)
        for name_of_file in files_beside(file):
            _link(file.parent / name_of_file, place / name_of_file)
        return place

    def pipeline(self, parallel_plan: ParallelPlan) -> dict[str, list[Plan]]:
        """Return a pipeline over all devices, where they can hold it."""
        problem = parallel_plan.problem
        count = len(problem.cluster.devices)
        if not problem.all_linked(range(count)):
            return {}
        operators = problem.workload.operators
        seconds = [problem.times.operator(operator.kernel, 0) for operator in operators]
        plan = staged([whole_on(0)] * len(operators), seconds, [(n,) for n in range(count)])
        needed_bytes = Simulation(problem, plan).memory_bytes()
        if any(
            needed_bytes.get(n, 0) > device.memory_bytes
            for n, device in enumerate(problem.cluster.devices)
        ):
            return {}
        return {f"pipeline of {count}": [plan]}

    def open_plan(
        self,
        name: str,
        instances: Sequence[Plan],
        parallel_plan: ParallelPlan,
        rows: int,
        feeds: Feeds,
    ) -> bool:
        """Open a plan, unless that is the whole model as it is; tell whether it runs."""
        setting = Setting(len(instances), 1, rows, name)
        return self.open_parts(instances, parallel_plan.problem, parallel_plan, setting, feeds)

    def open_parts(
        self,
        instances: Sequence[Plan],
        problem: Problem,
        parallel_plan: ParallelPlan | None,
        setting: Setting,
        feeds: Feeds,
    ) -> bool:
        """Open the parts of instances of a plan, unless they are open; tell whether they run."""
        parted = [self.limited(part(problem, plan, setting.plan)) for plan in instances]
        first = parted[0].partition
        is_whole = (
            parallel_plan is not None and len(first.devices) < 2 and not _steps(parallel_plan)
        )
        if is_whole or not all(part.partition.is_like(first) for part in parted):
            return False
        known = [
            division.parted for candidate, division in self.divisions.items() if candidate.plan
        ]
        if any(first.stages == other.partition.stages for other in known):
            return False
        setting = replace(setting, threads=first.threads[0])
        # Not by the divisions' number: one that could not be opened is made anew under its name.
        place = self.beside(f"plan{len(list(self.folder.iterdir()))}")
        parted[0].write(place)
        partitions = [part.partition for part in parted]
        remote = None
        if self.crew is not None:
            remote = self.crew.remote(partitions, place, runtime_bytes())
        self.divisions[setting] = _Division(parted[0], parallel_plan, instances[0], problem, remote)
        return self.enter(setting, feeds, lambda: self.groups(partitions, place))

    def limited(self, parted: Parted) -> Parted:
        """Give each device the memory that the description says, not what was planned with."""
        partition = parted.partition
        memory = tuple(self.cluster.device(name).memory_bytes for name in partition.devices)
        return replace(parted, partition=replace(partition, memory_bytes=memory))

    def groups(self, partitions: Sequence[Partition], folder: Path) -> Opened:
        opened: list[Group] = []
        with _closed_on_error(opened):
            for make in self.makers(partitions, folder):
                opened.append(make())
            for group in opened:
                group.ready()
        lanes = [lane for group in opened for lane in group.lanes()]
        return list(lanes), sum(group.resident_bytes for group in opened)

    def makers(
        self, partitions: Sequence[Partition], folder: Path
    ) -> Iterator[Callable[[], Group]]:
        """Yield what starts the group of each instance."""
        if self.crew is not None:
            yield from (partial(self.crew.start, partition, folder) for partition in partitions)
            return
        first, width = partitions[0], len(partitions[0].devices)
        places = here_each(list(first.threads) * len(partitions))
        for number in range(len(partitions)):
            own_places = places[number * width : (number + 1) * width]
            starts = starts_of(first, Start(folder / "model.onnx", 1), own_places)
            yield partial(WorkerGroup, first, starts, first.slots)

    def enter(self, setting: Setting, feeds: Feeds, opens: Callable[[], Opened]) -> bool:
        """Open what a setting has and run it; what can't be opened is left out, with the reason."""
        self.tell("opening", str(setting))
        try:
            runners, memory_bytes = opens()
            with _closed_on_error(runners):
                warm(runners, feeds, _LIMIT_S)
        except TensologError as error:
            self.reasons.append(f"{setting} can't be served: {error}")
            return False
        busy = runners[:1] if self.goal == "latency" else runners

        def time(seconds: float, least_runs: int) -> Times:
            return timed(busy, feeds, seconds, least_runs, _LIMIT_S)

        def close() -> None:
            for runner in runners:
                runner.close()

        self.contenders.append(Contender(setting, time, memory_bytes, close))
        return True

    # ---- what is chosen
    def chosen(self) -> tuple[Measured, Measured]:
        """Return what is served, and one instance with all cores; the former for one that can't be.

        What is divided has to be surely better than all that is whole.
        """
        by_setting = {contender.setting: contender for contender in self.contenders}
        measured = {contender.setting: contender.measured() for contender in self.contenders}
        kept = [
            result
            for result in measured.values()
            if all(limit.holds(result) for limit in self.limits)
        ]
        if not kept:
            nearest = min(
                measured.values(),
                key=lambda result: max(limit.excess(result) for limit in self.limits),
            )
            broken = max(self.limits, key=lambda limit: limit.excess(nearest))
            raise LimitError(
                f"nothing over these devices keeps '{broken.text}': nearest is {nearest.setting}"
            )
        whole = best([result for result in kept if not result.setting.plan], self.goal)
        first = best(kept, self.goal)
        assert first is not None
        if whole is not None and first.setting.plan:
            ahead = lead(by_setting[first.setting], by_setting[whole.setting], self.goal)
            if not ahead.is_sure:
                first = whole
        for setting, contender in by_setting.items():
            if setting != first.setting:
                ahead = lead(contender, by_setting[first.setting], self.goal)
                what = "speed" if self.goal == "latency" else "throughput"
                bounds = f"({ahead.low:.2f} to {ahead.high:.2f})"
                self.reasons.append(f"{setting} has {ahead.factor:.2f} {bounds} of its {what}")
        if first.setting.plan and whole is None:
            self.reasons.append("no process has the memory for the whole model")
        single = (m for s, m in measured.items() if s.instances == 1 and not s.plan)
        return first, next(single, first)


def _steps(plan: ParallelPlan) -> tuple[Step, ...]:
    return () if plan.rewriting is None else plan.rewriting.steps


@cache
def runtime_bytes() -> int:
    """Return the bytes of its own that a process has which runs hardly anything; 0 if unknown."""
    node = helper.make_node("Identity", ["x"], ["y"])
    slots = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1,)) for name in "xy"]
    graph = helper.make_graph([node], "least", slots[:1], slots[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with tempfile.TemporaryDirectory(prefix="tensolog-least-") as folder:
        file = Path(folder) / "least.onnx"
        onnx.save(model, file)
        instance = Instance(Start(file, 1))
        try:
            instance.ready()
            status = Path(f"/proc/{instance.pids[0]}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        finally:
            instance.close()
    match = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) << 10 if match else 0


def _with_memory(cluster: Cluster, runtime: int, share: float) -> Cluster:
    """Return devices with that share of the memory that the runtime leaves of theirs."""
    for device in cluster.devices:
        if device.memory_bytes <= runtime:
            raise ClusterError(
                f"{device.name} has {device.memory_bytes / 1e6:.0f} MB, and the runtime alone "
                f"takes {runtime / 1e6:.0f}: give it more"
            )
    return replace(
        cluster,
        devices=tuple(
            replace(device, memory_bytes=max(1, round((device.memory_bytes - runtime) * share)))
            for device in cluster.devices
        ),
    )


def slots_of(workload: Workload) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """Return what the model takes and gives, at the sizes that are planned for."""
    graph = workload.graph
    defaults = {tensor.name for tensor in graph.base.graph.initializer}
    sides = []
    for values in (graph.graph_inputs, graph.graph_outputs):
        slots = []
        for value in values:
            if graph.names[value] not in defaults or values is graph.graph_outputs:
                type_ = graph.types[value]
                slots.append(Slot(graph.names[value], type_.dtype, type_.shape or ()))
        sides.append(tuple(slots))
    return sides[0], sides[1]


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copyfile(source, target)


class _Closable(Protocol):
    def close(self) -> None: ...


@contextlib.contextmanager
def _closed_on_error(opened: Sequence[_Closable]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for session in opened:
            with contextlib.suppress(TensologError, OSError):
                session.close()
        raise
