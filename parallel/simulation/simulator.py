"""What a plan takes: time of a request, requests a second, memory of each device.

Tasks run in the order in which they are ready, first in, first out on each device and wire, ties
by their keys; so the same plan gives the same times (FlexFlow: Jia, Zaharia and Aiken, MLSys 2019,
section 5). Where one operator is divided otherwise, all that was ready before the first task that
this touches stays as it was (their delta simulation), and the result is that of a full one. Where
devices run stages, what is run is stages (stages.py), and tasks have their times within them.

Devices of a node slow each other down while they compute at the same time: what that adds depends
on the share of its time in which a device is not the only busy one, by the schedule without it.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .placement import Config, elements
from .stages import Stages, stages_of
from .tasks import (
    ADD,
    COMPUTE,
    Key,
    Plan,
    Problem,
    Task,
    operator_tasks,
    plan_tasks,
    value_tasks,
)

_REQUESTS = 8  # of which the time of the first half, as devices fill, is taken away


@dataclass
class Schedule:
    """When each task was ready, began and ended, in the order in which they were taken; seconds."""

    tasks: dict[Key, Task]
    order: list[Key] = field(default_factory=list)
    ready: dict[Key, float] = field(default_factory=dict)
    begin: dict[Key, float] = field(default_factory=dict)
    end: dict[Key, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Time until all is done."""
        return max(self.end.values(), default=0.0)


def schedule(tasks: dict[Key, Task]) -> Schedule:
    """Run tasks."""
    return _run(Schedule(tasks), {})


def _run(schedule: Schedule, free: dict[int, float]) -> Schedule:
    """Run what is not in the order yet."""
    tasks, ready, begin, end = schedule.tasks, schedule.ready, schedule.begin, schedule.end
    waiting: dict[Key, int] = {}
    then: dict[Key, list[Key]] = {}
    heap: list[tuple[float, Key]] = []
    for key, task in tasks.items():
        if key in end:
            continue
        open_ = 0
        ready_s = 0.0
        for key_before in task.after:
            if key_before in end:
                ready_s = max(ready_s, end[key_before])
            else:
                open_ += 1
                then.setdefault(key_before, []).append(key)
        ready[key] = ready_s
        if open_:
            waiting[key] = open_
        else:
            heap.append((ready_s, key))
    heapq.heapify(heap)
    while heap:
        ready_s, key = heapq.heappop(heap)
        task = tasks[key]
        start = max(ready_s, free.get(task.resource, 0.0))
        done = start + task.seconds
        free[task.resource] = done
        done += task.delay
        begin[key], end[key] = start, done
        schedule.order.append(key)
        for other in then.get(key, ()):
            ready[other] = max(ready[other], done)
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(heap, (ready[other], other))
    return schedule


class Simulation:
    """A plan with its schedule, which follows changes of the plan."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self._tasks = plan_tasks(problem, plan)
        self._stages = stages_of(problem, self._tasks) if problem.has_stages else None
        self._executed = schedule(self._units)

    @property
    def _units(self) -> dict[Key, Task]:
        """What is run: stages and transfers, or tasks."""
        return self._tasks if self._stages is None else self._stages.units

    @cached_property
    def schedule(self) -> Schedule:
        """When each task is ready, begins and ends; those of a stage one after the other."""
        if self._stages is None:
            return self._executed
        return _within(self._tasks, self._stages, self._executed)

    def changed(self, plan: Plan) -> Simulation:
        """Return the simulation of another plan; what both have in common is kept."""
        problem = self.problem
        touched = [n for n, (a, b) in enumerate(zip(self.plan, plan, strict=True)) if a != b]
        tasks = dict(self._tasks)
        removed: list[Key] = []
        added: list[Task] = []
        for old, new in self._groups(plan, touched):
            gone, come = _differences({t.key: t for t in old}, {t.key: t for t in new})
            removed += gone
            added += come
        for key in removed:
            del tasks[key]
        for task in added:
            tasks[task.key] = task
        other = Simulation.__new__(Simulation)
        other.problem, other.plan, other._tasks = problem, plan, tasks
        other._stages = stages_of(problem, tasks) if problem.has_stages else None
        if other._stages is not None:
            removed, added = _differences(self._units, other._units)
        units, run = other._units, self._executed
        fresh = {task.key for task in added}
        moment = min((run.ready[key] for key in removed), default=float("inf"))
        for task in added:
            if not any(key_before in fresh for key_before in task.after):
                moment = min(
                    moment, max((run.end[key_before] for key_before in task.after), default=0.0)
                )
        schedule = Schedule(units)
        free: dict[int, float] = {}
        for key in run.order:
            if run.ready[key] >= moment:
                break
            schedule.order.append(key)
            schedule.ready[key], schedule.begin[key] = run.ready[key], run.begin[key]
            schedule.end[key] = run.end[key]
            free[units[key].resource] = schedule.begin[key] + units[key].seconds
        other._executed = _run(schedule, free)
        return other

    def with_config(self, number: int, config: Config) -> Simulation:
        """Return the simulation of the plan with one operator divided otherwise."""
        return self.changed((*self.plan[:number], config, *self.plan[number + 1 :]))

    def _groups(
        self, plan: Plan, touched: Iterable[int]
    ) -> Iterable[tuple[list[Task], list[Task]]]:
        """Yield the tasks before and after of each group that depends on what was changed."""
        problem = self.problem
        operators = problem.workload.operators
        numbers, values = set(touched), set()
        for number in touched:
            values |= {value for _, value in operators[number].reads}
            values |= {value for value in operators[number].outputs if value is not None}
        for value in values:
            # Who reads a value waits for tasks that are named by how it is divided.
            numbers |= {number for number, _ in problem.consumers.get(value, ())}
        for number in sorted(numbers):
            yield (
                list(operator_tasks(problem, self.plan, number)),
                list(operator_tasks(problem, plan, number)),
            )
        for value in sorted(values & problem.sent):
            yield (
                list(value_tasks(problem, self.plan, value)),
                list(value_tasks(problem, plan, value)),
            )

    # ---- what it says
    @property
    def latency_s(self) -> float:
        """Time of one request that finds all devices idle."""
        return self._executed.seconds * self._slowdown

    @cached_property
    def _slowdown(self) -> float:
        """By which factor devices that compute at the same time make a request take longer."""
        busy, contended = self._work
        if not any(contended.values()):
            return 1.0
        overlap = self._overlap()
        more = math.fsum(seconds * overlap[device] for device, seconds in contended.items())
        return 1.0 + more / math.fsum(busy[device] for device in contended)

    @cached_property
    def _work(self) -> tuple[dict[int, float], dict[int, float]]:
        """For how long each resource works for a request, and devices longer beside others."""
        devices = len(self.problem.cluster.devices)
        # Of one request latencies overlap; of many that follow each other closely each message has
        # to be handled. Where devices run stages, that is in what a stage takes.
        delays = 0.0 if self.problem.has_stages else 1.0
        busy: dict[int, list[float]] = {}
        contended: dict[int, list[float]] = {}
        for task in self._units.values():
            busy.setdefault(task.resource, []).append(task.seconds + delays * task.delay)
            if task.resource < devices:
                contended.setdefault(task.resource, []).append(task.contended)
        # Exact sums: a change of a plan leaves tasks in another order than a plan from scratch has.
        both = (
            {key: math.fsum(amounts) for key, amounts in by_device.items()}
            for by_device in (busy, contended)
        )
        return next(both), next(both)

    def _overlap(self) -> dict[int, float]:
        """For which share of its time each device is not the only one of its node that computes."""
        devices = self.problem.cluster.devices
        events: dict[str, list[tuple[float, int, int]]] = {}
        for key, task in self._units.items():
            if task.resource < len(devices) and task.seconds > 0:
                begin, changes_of_device = (
                    self._executed.begin[key],
                    events.setdefault(devices[task.resource].node, []),
                )
                changes_of_device += [
                    (begin, 1, task.resource),
                    (begin + task.seconds, -1, task.resource),
                ]
        computes, beside = [0.0] * len(devices), [0.0] * len(devices)
        for changes_of_device in events.values():
            changes_of_device.sort()
            running: set[int] = set()
            for (moment, change, device), (then, *_) in itertools.pairwise(changes_of_device):
                (running.add if change > 0 else running.discard)(device)
                for device_ in running:
                    computes[device_] += then - moment
                    beside[device_] += (then - moment) * (len(running) > 1)
        return {
            n: share / whole if whole else 0.0
            for n, (share, whole) in enumerate(zip(beside, computes, strict=True))
        }

    def busy(self) -> dict[int, float]:
        """Return how long each resource works for a request where others follow it closely.

        Others of its node are then busy for the share of a device's time that they work longest.
        """
        busy, contended = self._work
        devices = self.problem.cluster.devices
        seconds = dict(busy)
        for device, more in contended.items():
            if more and busy[device]:
                others = (
                    seconds
                    for other, seconds in busy.items()
                    if other != device
                    and other < len(devices)
                    and devices[other].node == devices[device].node
                )
                seconds[device] += more * min(1.0, max(others, default=0.0) / busy[device])
        return seconds

    @property
    def bottleneck_s(self) -> float:
        """Time for which the busiest device or wire works for one request."""
        return max(self.busy().values(), default=0.0)

    def requests_per_s(self, requests: int = _REQUESTS) -> float:
        """Requests a second in the steady state.

        They come as fast as the bottleneck allows. Where devices run stages, as many are under way
        as the engine lets, and the next one comes as one is done.
        """
        pace = self.bottleneck_s
        units, devices = self._units, len(self.problem.cluster.devices)
        slots = 2 * len({t.resource for t in units.values() if t.resource < devices}) or 1
        last = tuple(
            units.keys() - {key_before for task in units.values() for key_before in task.after}
        )
        tasks: dict[Key, Task] = {}
        for number in range(requests):
            arrival = (-1, number)
            if not self.problem.has_stages:
                tasks[arrival] = Task(arrival, -1 - number, number * pace, ())
            elif number < slots:
                tasks[arrival] = Task(arrival, -1 - number, 0.0, ())
            else:
                done = tuple((number - slots, *key_) for key_ in last)
                tasks[arrival] = Task(arrival, -1 - number, 0.0, done)
            for task in units.values():
                after = tuple((number, *other) for other in task.after) or (arrival,)
                key = (number, *task.key)
                tasks[key] = task._replace(key=key, after=after)
        ends = [0.0] * requests
        for key, end in schedule(tasks).end.items():
            if key[0] >= 0:
                ends[key[0]] = max(ends[key[0]], end)
        half = requests // 2
        spent = max(ends) - max(ends[:half])
        alone = max(self._work[0].values(), default=0.0)
        spent *= pace / alone if alone else 1.0
        # Queues that fill at first may empty later: never faster than the busiest.
        return min((requests - half) / spent, 1 / pace) if spent > 0 else float("inf")

    def memory_bytes(self) -> dict[int, int]:
        """Return the most that each device holds: its slices of weights, and what is alive."""
        return memory(self.problem, self.plan, self.schedule)


def _differences(
    before: Mapping[Key, Task], after: Mapping[Key, Task]
) -> tuple[list[Key], list[Task]]:
    """Return the tasks that are no more, or are others now, and those that are new, or others."""
    removed = [key for key, task in before.items() if after.get(key) != task]
    added = [task for key, task in after.items() if before.get(key) != task]
    return removed, added


def _within(tasks: dict[Key, Task], stages: Stages, run: Schedule) -> Schedule:
    """Return the times of tasks whose stages were run."""
    schedule = Schedule(tasks)
    for unit in run.order:
        members = stages.members.get(unit, [unit])
        # What a stage takes beside its tasks comes first.
        whole = stages.units[unit].seconds
        begin = run.begin[unit] + whole - sum(tasks[key].seconds for key in members)
        for key in members:
            schedule.ready[key], schedule.begin[key] = run.ready[unit], begin
            begin += tasks[key].seconds
            schedule.end[key] = begin + tasks[key].delay
        schedule.order += members
    return schedule


def weight_bytes(problem: Problem, plan: Plan) -> dict[int, int]:
    """Return the bytes of constants that each device holds; of overlapping slices both."""
    boxes: dict[tuple[int, int], set[tuple[tuple[int, int], ...]]] = {}
    for number, operator in enumerate(problem.workload.operators):
        config = plan[number]
        parts = problem.parts(number, config)
        for position, value in enumerate(operator.inputs):
            if value is None or value in problem.sent:
                continue
            for place, part in enumerate(parts):
                box = part.reads[position]
                if box is not None:
                    for device in config.holders(place):
                        boxes.setdefault((device, value), set()).add(box)
    weights: dict[int, int] = {}
    for (device, value), boxes_here in boxes.items():
        value_ = problem.workload.values[value]
        size = min(sum(map(elements, boxes_here)) * value_.item_bytes, value_.size_bytes)
        weights[device] = weights.get(device, 0) + size
    return weights


def memory(problem: Problem, plan: Plan, times: Schedule) -> dict[int, int]:
    """Return the most bytes that each device holds at a time."""
    first: dict[tuple[Key, int], float] = {}
    last: dict[tuple[Key, int], float] = {}
    size: dict[tuple[Key, int], int] = {}
    devices = len(problem.cluster.devices)

    def hold(key: Key, device: int, bytes_: int) -> None:
        size[key, device] = bytes_
        # Room is taken when the task begins that fills it.
        first[key, device] = times.begin[key]
        last[key, device] = max(last.get((key, device), 0.0), times.end[key])

    values = problem.workload.values
    for number, operator in enumerate(problem.workload.operators):
        config = plan[number]
        if problem.workload.operators[number].kernel.is_constant:
            continue
        for place, part in enumerate(problem.parts(number, config)):
            bytes_ = sum(
                elements(part.gives[o]) * values[v].item_bytes
                for o, v in enumerate(operator.outputs)
                if v is not None
            )
            for device in config.holders(place):
                hold((number, COMPUTE, place, device), device, bytes_)
        if config.reduction is not None:
            for output, value in enumerate(operator.outputs):
                if value is not None:
                    for place, cell in enumerate(problem.cells(number, config, output)):
                        for device in cell.holders:
                            bytes_ = elements(cell.box) * values[value].item_bytes
                            hold((number, ADD, output, place, device), device, bytes_)
    target: dict[Key, int] = {}
    for key, task in times.tasks.items():
        if task.resource >= devices:
            target[key] = key[5] if key[1] == 1 else key[4]
            hold(key, target[key], task.size_bytes)
    for key, task in times.tasks.items():
        for key_before in task.after:
            device = (
                target[key_before] if key_before in target else times.tasks[key_before].resource
            )
            if (key_before, device) in last:
                last[key_before, device] = max(last[key_before, device], times.end[key])
    for value in problem.workload.outputs:
        producer = problem.producer.get(value)
        if producer is not None:
            for key_, device in list(last):
                if key_[0] == producer[0] and key_[1] in (COMPUTE, ADD):
                    last[key_, device] = max(last[key_, device], times.seconds)
    events: dict[int, list[tuple[float, int]]] = {}
    for place_held, bytes_ in size.items():
        events.setdefault(place_held[1], []).extend(
            [(first[place_held], bytes_), (last[place_held], -bytes_)]
        )
    most = weight_bytes(problem, plan)
    for device, changes in events.items():
        level = peak = 0
        for _, change in sorted(changes):  # what ends makes room for what begins then
            level += change
            peak = max(peak, level)
        most[device] = most.get(device, 0) + peak
    return most
