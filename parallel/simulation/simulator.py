"""What a plan takes: time of a request, requests a second, memory of each device.

Tasks run in the order in which they are ready, first in, first out on each device and wire, ties
by their keys; so the same plan gives the same times (FlexFlow: Jia, Zaharia and Aiken, MLSys 2019,
section 5). Where one operator is divided otherwise, all that was ready before the first task that
this touches stays as it was (their delta simulation), and the result is that of a full one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from .placement import elements
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

    def busy(self) -> dict[int, float]:
        """Return how long each resource works for a request where others follow it closely.

        What a message takes beside its bytes counts: one request waits for several at a time, but
        of many requests each message has to be handled, one after the other.
        """
        found: dict[int, float] = {}
        for task in self.tasks.values():
            found[task.resource] = found.get(task.resource, 0.0) + task.seconds + task.delay
        return found


def schedule(tasks: dict[Key, Task]) -> Schedule:
    """Run tasks."""
    return _run(Schedule(tasks), {})


def _run(found: Schedule, free: dict[int, float]) -> Schedule:
    """Run what is not in the order yet."""
    tasks, ready, begin, end = found.tasks, found.ready, found.begin, found.end
    waiting: dict[Key, int] = {}
    then: dict[Key, list[Key]] = {}
    heap: list[tuple[float, Key]] = []
    for key, task in tasks.items():
        if key in end:
            continue
        open_ = 0
        at = 0.0
        for one in task.after:
            if one in end:
                at = max(at, end[one])
            else:
                open_ += 1
                then.setdefault(one, []).append(key)
        ready[key] = at
        if open_:
            waiting[key] = open_
        else:
            heap.append((at, key))
    heapq.heapify(heap)
    while heap:
        at, key = heapq.heappop(heap)
        task = tasks[key]
        start = max(at, free.get(task.resource, 0.0))
        done = start + task.seconds
        free[task.resource] = done
        done += task.delay
        begin[key], end[key] = start, done
        found.order.append(key)
        for other in then.get(key, ()):
            ready[other] = max(ready[other], done)
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(heap, (ready[other], other))
    return found


class Simulation:
    """A plan with its schedule, which follows changes of the plan."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.schedule = schedule(plan_tasks(problem, plan))

    def changed(self, plan: Plan) -> Simulation:
        """Return the simulation of another plan; what both have in common is kept."""
        problem = self.problem
        touched = [n for n, (a, b) in enumerate(zip(self.plan, plan, strict=True)) if a != b]
        tasks = dict(self.schedule.tasks)
        removed: list[Key] = []
        added: list[Task] = []
        for old, new in self._groups(plan, touched):
            before, after = {t.key: t for t in old}, {t.key: t for t in new}
            for key, task in before.items():
                if after.get(key) != task:
                    removed.append(key)
            added += [task for key, task in after.items() if before.get(key) != task]
        for key in removed:
            del tasks[key]
        for task in added:
            tasks[task.key] = task
        fresh = {task.key for task in added}
        end, ready = self.schedule.end, self.schedule.ready
        moment = min((ready[key] for key in removed), default=float("inf"))
        for task in added:
            if not any(one in fresh for one in task.after):
                moment = min(moment, max((end[one] for one in task.after), default=0.0))
        other = Simulation.__new__(Simulation)
        other.problem, other.plan = problem, plan
        found = Schedule(tasks)
        free: dict[int, float] = {}
        for key in self.schedule.order:
            if ready[key] >= moment:
                break
            found.order.append(key)
            found.ready[key], found.begin[key] = ready[key], self.schedule.begin[key]
            found.end[key] = end[key]
            free[tasks[key].resource] = found.begin[key] + tasks[key].seconds
        other.schedule = _run(found, free)
        return other

    def _groups(
        self, plan: Plan, touched: Iterable[int]
    ) -> Iterable[tuple[list[Task], list[Task]]]:
        """Yield the tasks before and after of each group that depends on what was changed."""
        problem = self.problem
        operators = problem.workload.operators
        own, values = set(touched), set()
        for number in touched:
            operator = operators[number]
            values |= {v for v in (*operator.inputs, *operator.captures) if v is not None}
            values |= {v for v in operator.outputs if v is not None}
        for value in values:
            # Who reads a value waits for tasks that are named by how it is divided.
            own |= {number for number, _ in problem.consumers.get(value, ())}
        for number in sorted(own):
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
        return self.schedule.seconds

    @property
    def bottleneck_s(self) -> float:
        """Time for which the busiest device or wire works for one request."""
        return max(self.schedule.busy().values(), default=0.0)

    def requests_per_s(self, requests: int = _REQUESTS) -> float:
        """Requests a second in the steady state, as they come as fast as the bottleneck allows."""
        pace = self.bottleneck_s
        tasks: dict[Key, Task] = {}
        for number in range(requests):
            arrival = (-1, number)
            tasks[arrival] = Task(arrival, -1 - number, number * pace, ())
            for one in self.schedule.tasks.values():
                after = tuple((number, *other) for other in one.after) or (arrival,)
                key = (number, *one.key)
                tasks[key] = one._replace(key=key, after=after)
        ends = [0.0] * requests
        for key, end in schedule(tasks).end.items():
            if key[0] >= 0:
                ends[key[0]] = max(ends[key[0]], end)
        half = requests // 2
        spent = max(ends) - max(ends[:half])
        # Queues that fill at first may empty later: never faster than the busiest.
        return min((requests - half) / spent, 1 / pace) if spent > 0 else float("inf")

    def memory_bytes(self) -> dict[int, int]:
        """Return the most that each device holds: its slices of weights, and what is alive."""
        return memory(self.problem, self.plan, self.schedule)


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
    found: dict[int, int] = {}
    for (device, value), own in boxes.items():
        one = problem.workload.values[value]
        size = min(sum(map(elements, own)) * one.item_bytes, one.size_bytes)
        found[device] = found.get(device, 0) + size
    return found


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
        for one in task.after:
            device = target[one] if one in target else times.tasks[one].resource
            if (one, device) in last:
                last[one, device] = max(last[one, device], times.end[key])
    for value in problem.workload.outputs:
        made = problem.producer.get(value)
        if made is not None:
            for one, device in list(last):
                if one[0] == made[0] and one[1] in (COMPUTE, ADD):
                    last[one, device] = max(last[one, device], times.seconds)
    events: dict[int, list[tuple[float, int]]] = {}
    for held, bytes_ in size.items():
        events.setdefault(held[1], []).extend([(first[held], bytes_), (last[held], -bytes_)])
    most = weight_bytes(problem, plan)
    for device, own in events.items():
        level = peak = 0
        for _, change in sorted(own):  # what ends makes room for what begins then
            level += change
            peak = max(peak, level)
        most[device] = most.get(device, 0) + peak
    return most
