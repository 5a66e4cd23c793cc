"""Deploying over several devices, processes of this machine or workers of a cluster: what is best.

In: a model and a description of devices. The plans of division_plans.py, an instance for each
device (data parallelism) and one instance with all cores race in turns; none of their processes may
have more memory than the description gives a device. On a cluster, one instance is that of one
worker. A divided model is chosen only where it is surely better than any that is whole and fits.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from ...catalog import Catalog
from ...catalog.errors import TensologError
from ...profiles.sessions.deployed import model_file
from ..deployment.deployment import BatchAxis, link_files_beside
from ..deployment.settings import LimitError, Measured, Setting, best
from ..devices import Cluster
from ..partitioner import Parted, part
from ..planning import ParallelPlan
from ..runnable_plan import Partition, RemoteWorkers
from ..search.goals import PlanError
from ..serving.instance import Instance, Start
from ..serving.pinning import here_each
from ..serving.process import InstanceError
from ..serving.runner_sources import Runner
from ..serving.worker_group import Group
from ..simulation.placement import whole_on
from ..simulation.simulator import Simulation
from ..simulation.spans import timeline_of
from ..simulation.tasks import Plan, Problem
from ..simulation.times import Times
from ..timeline import Timeline
from ..workload import Workload, read_workload, slots_of
from .batches import drawn_feeds
from .choose import Choice
from .device_crews import Crew, ProcessCrew, check_devices, runtime_bytes
from .division_plans import DivisionPlans, steps_of
from .served_model import ORIGINAL, REWRITTEN, Requirements, ServedModel
from .serving_race import Contender, Feeds, RunTimes, closing, lead, race, timed, warm

Opened = tuple[list[Runner], int]
"""What runs requests, and the bytes of memory that it has."""

# What a plan counts is not all that the runtime takes: where it is too much, plans are made for
# this share of the memory, and for less, so many times.
_MEMORY_SHARE, _TRIES = 0.6, 3
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Division:
    """A plan that was opened: the models of its parts, and what its first instance is.

    `source` is the search that it came from, None where the whole model is on a worker. `remote`
    are the workers of each instance, where they are some of a cluster.
    """

    parted: Parted
    source: ParallelPlan | None
    plan: Plan
    problem: Problem
    remote: RemoteWorkers | None = None

    def timeline(self) -> Timeline:
        """Return what an instance is simulated to do for a request."""
        return timeline_of(Simulation(self.problem, self.plan))


def choose_over_devices(
    asked: Requirements,
    model: Path,
    cluster: Cluster,
    catalog: Catalog | None,
    *,
    instances: Sequence[Setting] = (),
) -> ServedModel:
    """Choose how a model is served on several devices, at the sizes that are asked for.

    `instances` are further settings of the whole model that take part, whatever their batch.

    Raises ModelError for a model whose sizes are not known, ClusterError for devices that are not
    here, PlanError, with the number of devices that would do, where none of them holds the model
    together, LimitError where nothing keeps the limits.
    """
    with contextlib.ExitStack() as stack:
        crew: Crew = ProcessCrew()
        if cluster.scheduler:
            # Imported within functions: what only plans over a cluster need.
            from ..cluster.crew import ClusterCrew

            crew = stack.enter_context(ClusterCrew(cluster))
        else:
            check_devices(cluster)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tensolog-parts-")))
        asked.tell("reading", str(model))
        workload = read_workload(model_file(model), asked.shapes)
        return _DeviceRace(asked, model, workload, cluster, crew, folder, catalog).served(instances)


class _DeviceRace:
    """What is open, and what was found of it."""

    def __init__(
        self,
        asked: Requirements,
        model: Path,
        workload: Workload,
        cluster: Cluster,
        crew: Crew,
        folder: Path,
        catalog: Catalog | None,
    ) -> None:
        self.asked, self.model, self.workload = asked, model, workload
        self.cluster, self.crew, self.folder, self.catalog = cluster, crew, folder, catalog
        self.file = model_file(model)
        self.inputs, self.outputs = slots_of(workload)
        self.feeds: Feeds = drawn_feeds(self.inputs, {}, None)
        rows = next((slot.shape[0] for slot in self.inputs if slot.shape), 1)
        self.rows = rows if isinstance(rows, int) else 1
        self.reasons: list[str] = []
        self.contenders: list[Contender] = []
        self.divisions: dict[Setting, Division] = {}
        self.finder = DivisionPlans(
            self.file, cluster, asked.goal, catalog, asked.tell, folder, self.reasons
        )

    def served(self, instances: Sequence[Setting]) -> ServedModel:
        with closing(self.contenders):
            if self.cluster.scheduler:
                self.open_whole_on_workers()
            else:
                self.open_whole(instances)
            self.calibrate()
            self.open_divided()
            _, complete = race(
                self.contenders,
                self.asked.goal,
                budget_s=self.asked.budget_s,
                tell=lambda text: self.asked.tell("measuring", text),
            )
            chosen, baseline = self.chosen()
        division = self.divisions.get(chosen.setting)
        source = None if division is None else division.source
        if source is not None and source.rewriting is not None:
            self.reasons += source.rewriting.lines()
        return ServedModel(
            self.model,
            REWRITTEN if steps_of(source) else ORIGINAL,
            BatchAxis(False, "what is deployed over devices has the sizes planned for", self.rows),
            self.inputs,
            self.outputs,
            Choice(
                chosen,
                baseline,
                [contender.measured() for contender in self.contenders],
                self.reasons,
                complete,
            ),
            self.cluster,
            division,
        )

    # ---- what races
    def open_whole(self, instances: Sequence[Setting]) -> None:
        """Open one instance with all cores, and, where it has the memory, one for each device."""
        cores = [device.cores for device in self.cluster.devices]
        memory = [device.memory_bytes for device in self.cluster.devices]
        most = [max(memory)]
        single = Setting(1, sum(cores), self.rows)
        fits = self.enter(single, lambda: self.instances([sum(cores)], most))
        if fits and len(set(cores)) == 1:  # instances are alike
            setting = Setting(len(cores), cores[0], self.rows)
            self.enter(setting, lambda: self.instances(cores, memory))
        for also in instances:
            setting = replace(also, batch=self.rows)
            if all(setting != contender.setting for contender in self.contenders):
                thread_counts, limits = [also.threads] * also.instances, most * also.instances
                self.enter(setting, partial(self.instances, thread_counts, limits))

    def instances(self, cores: Sequence[int], memory: Sequence[int]) -> Opened:
        opened: list[Instance] = []
        with _closed_on_error(opened):
            for threads, place, limit in zip(cores, here_each(cores), memory, strict=False):
                start = Start(self.file, threads, place, memory_limit_bytes=limit)
                opened.append(Instance(start))
            for instance in opened:
                instance.ready()
        return list(opened), sum(instance.resident_bytes for instance in opened)

    def calibrate(self) -> None:
        """Time the model and its pieces for the plans.

        On this machine only where each device has the memory for the whole of it.
        """
        devices = self.cluster.devices
        fits = any(contender.setting.instances == len(devices) for contender in self.contenders)
        if len(devices) < 2 or not (fits or self.cluster.scheduler):
            return
        self.asked.tell("measuring", "the model and its pieces on one device")
        problem = Problem(self.workload, self.cluster, Times(self.cluster, self.catalog))
        place = self.folder / "calibration"
        link_files_beside(self.file, place)
        try:
            self.finder.calibration = self.crew.calibration(
                problem, self.file, dict(self.feeds), place
            )
        except TensologError as error:
            self.reasons.append(f"plans are made by rates alone: {error}")

    def open_whole_on_workers(self) -> None:
        """Open the whole model on the fastest worker, and on each where these are alike."""
        problem = Problem(self.workload, self.cluster, Times(self.cluster))
        devices = self.cluster.devices
        order = sorted(range(len(devices)), key=lambda n: -devices[n].flops_per_s)
        plans = [tuple(whole_on(n) for _ in self.workload.operators) for n in order]
        single = Setting(1, devices[order[0]].cores, self.rows)
        fits = self.open_parts(plans[:1], problem, None, single)
        if fits and len(plans) > 1 and len({device.cores for device in devices}) == 1:
            setting = Setting(len(plans), devices[0].cores, self.rows)
            self.open_parts(plans, problem, None, setting)

    def open_divided(self) -> None:
        """Open the plans that divide the model; those for less memory where it is too much."""
        share = 1.0
        for _ in range(_TRIES):
            try:
                plans = self.finder.plans(self.workload, share)
            except PlanError as error:
                if self.contenders:
                    self.reasons.append(f"no plan over several devices: {error}")
                    return
                if share == 1.0:
                    why_as_it_is = self.finder.not_rewritten()
                    raise PlanError("; ".join([str(error), *why_as_it_is])) from error
                raise PlanError(
                    f"{error} (plans that fill them to the brim could not be opened: "
                    f"{self.reasons[-1]})"
                ) from error
            opened = []
            for plan in plans:
                setting = Setting(len(plan.instances), 1, self.rows, plan.name)
                problem = plan.source.problem
                opened.append(self.open_parts(plan.instances, problem, plan.source, setting))
            if any(opened) or self.contenders:
                return
            share *= _MEMORY_SHARE
        raise PlanError(
            f"no process of {self.cluster.name} could run its part within its memory: "
            f"{'; '.join(self.reasons[-2:])}; give each device more memory, or add devices"
        )

    def open_parts(
        self,
        instances: Sequence[Plan],
        problem: Problem,
        source: ParallelPlan | None,
        setting: Setting,
    ) -> bool:
        """Open the parts of the instances of a plan; tell whether they run.

        Not where they are open already, or where a plan leaves the whole model as it is.
        """
        parted = [self.limited(part(problem, plan, setting.plan)) for plan in instances]
        first = parted[0].partition
        is_whole = source is not None and len(first.devices) < 2 and not steps_of(source)
        if is_whole or not all(part.partition.is_like(first) for part in parted):
            return False
        divided_models = [
            division.parted for setting, division in self.divisions.items() if setting.plan
        ]
        if any(first.stages == other.partition.stages for other in divided_models):
            return False
        setting = replace(setting, threads=first.threads[0])
        # Not by the divisions' number: one that could not be opened is made anew under its name.
        place = self.folder / f"plan{len(list(self.folder.iterdir()))}"
        link_files_beside(self.file, place)
        parted[0].write(place)
        partitions = [part.partition for part in parted]
        remote = self.crew.remote(partitions, place, runtime_bytes())
        self.divisions[setting] = Division(parted[0], source, instances[0], problem, remote)
        return self.enter(setting, lambda: self.groups(partitions, place))

    def limited(self, parted: Parted) -> Parted:
        """Give each device the memory that the description says, not what was planned with."""
        partition = parted.partition
        memory = tuple(self.cluster.device(name).memory_bytes for name in partition.devices)
        return replace(parted, partition=replace(partition, memory_bytes=memory))

    def groups(self, partitions: Sequence[Partition], folder: Path) -> Opened:
        opened: list[Group] = []
        with _closed_on_error(opened):
            for start in self.crew.groups(partitions, folder):
                opened.append(start())
            for group in opened:
                group.ready()
        lanes = [lane for group in opened for lane in group.lanes()]
        return list(lanes), sum(group.resident_bytes for group in opened)

    def enter(self, setting: Setting, opens: Callable[[], Opened]) -> bool:
        """Open what a setting has and run it; what can't be opened is left out, with the reason."""
        self.asked.tell("opening", str(setting))

        def note_reopening(error: InstanceError) -> None:
            self.asked.tell("opening again", str(setting))
            self.reasons.append(f"{setting} was opened again: {error}")

        lanes = 1 if self.asked.goal == "latency" else None
        try:
            served = _Served(opens, self.feeds, lanes, note_reopening)
        except TensologError as error:
            self.reasons.append(f"{setting} can't be served: {error}")
            return False
        self.contenders.append(Contender(setting, served.time, served.memory_bytes, served.close))
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
            if all(limit.holds(result) for limit in self.asked.limits)
        ]
        if not kept:
            nearest = min(
                measured.values(),
                key=lambda result: max(limit.excess(result) for limit in self.asked.limits),
            )
            broken = max(self.asked.limits, key=lambda limit: limit.excess(nearest))
            raise LimitError(
                f"nothing over these devices keeps '{broken.text}': nearest is {nearest.setting}"
            )
        whole = best([result for result in kept if not result.setting.plan], self.asked.goal)
        first = best(kept, self.asked.goal)
        assert first is not None
        if whole is not None and first.setting.plan:
            ahead = lead(by_setting[first.setting], by_setting[whole.setting], self.asked.goal)
            if not ahead.is_above_one:
                first = whole
        for setting, contender in by_setting.items():
            if setting != first.setting:
                ahead = lead(contender, by_setting[first.setting], self.asked.goal)
                quantity = "speed" if self.asked.goal == "latency" else "throughput"
                bounds = f"({ahead.low:.2f} to {ahead.high:.2f})"
                self.reasons.append(f"{setting} has {ahead.value:.2f} {bounds} of its {quantity}")
        if first.setting.plan and whole is None:
            self.reasons.append("no process has the memory for the whole model")
        single = (m for s, m in measured.items() if s.instances == 1 and not s.plan)
        return first, next(single, first)


class _Served:
    """What runs the requests of a setting: opened again where it is lost, once for each round.

    Of its runners the first `lanes` are timed, all if that is None.
    """

    def __init__(
        self,
        opens: Callable[[], Opened],
        feeds: Feeds,
        lanes: int | None,
        note_reopening: Callable[[InstanceError], None],
    ) -> None:
        """Open it and run it; `note_reopening` is told why it has to be opened once more."""
        self._opens, self._feeds, self._lanes = opens, feeds, lanes
        self._note_reopening = note_reopening
        self._runners: list[Runner] = []
        self.memory_bytes = 0
        try:
            self._open()
        except InstanceError as error:
            self._reopen(error)

    def _open(self) -> None:
        self.close()
        runners, self.memory_bytes = self._opens()
        with _closed_on_error(runners):
            warm(runners, self._feeds, _LIMIT_S)
        self._runners = runners

    def _reopen(self, error: InstanceError) -> None:
        self._note_reopening(error)
        self._open()

    def time(self, seconds: float, least_runs: int) -> RunTimes:
        """Return the nanoseconds of each run; InstanceError where it is lost a second time."""
        try:
            return self._timed(seconds, least_runs)
        except InstanceError as error:
            self._reopen(error)
            return self._timed(seconds, least_runs)

    def _timed(self, seconds: float, least_runs: int) -> RunTimes:
        return timed(self._runners[: self._lanes], self._feeds, seconds, least_runs, _LIMIT_S)

    def close(self) -> None:
        """End it."""
        for runner in self._runners:
            runner.close()
        self._runners = []


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
