"""Tasks gathered into stages: what a device runs in one go, as the engine does.

A stage is what a device computes without hearing from the others: all of its tasks that wait for
equally many messages and are followed by equally many (partitioner.py writes one model of them). It
begins once all is there that any of its tasks waits for, takes what its device takes for a stage
beside its tasks, and hands over at its end what others wait for. Images that a stage with
convolutions is sent, and gives, are turned into blocks and back: kernels were measured in blocks.
Each stage has its own copy of the weights that it reads: where all copies of a node are more than
its caches hold, each byte takes longer (calibration.py).
Stages are a function of tasks, so that a change of a plan gives the stages that a plan made from
scratch has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...profiles.kernels.blocked_convolution import may_be_blocked
from .placement import elements
from .tasks import COMPUTE, Key, Problem, Task

_IMAGE_RANK = 4


@dataclass(frozen=True)
class Stages:
    """What is run: stages and transfers, by key; `members` are the tasks of a stage, in order.

    A stage has the key of its first task.
    """

    units: dict[Key, Task]
    members: dict[Key, list[Key]]


def stages_of(problem: Problem, tasks: Mapping[Key, Task]) -> Stages:
    """Gather tasks into stages."""
    devices, operators = problem.cluster.devices, problem.workload.operators
    # Operators and kinds of tasks are numbered so that a task's key is larger than those before it.
    order = sorted(tasks)
    depth: dict[Key, int] = {}
    height: dict[Key, int] = dict.fromkeys(order, 0)
    for key in order:
        task = tasks[key]
        before = max((depth[key_before] for key_before in task.after), default=0)
        depth[key] = before + (task.resource >= len(devices) and bool(task.after))
    for key in reversed(order):
        task = tasks[key]
        above = height[key] + (task.resource >= len(devices))
        for key_before in task.after:
            height[key_before] = max(height[key_before], above)
    first: dict[tuple[int, int, int], Key] = {}
    stage: dict[Key, Key] = {}
    members: dict[Key, list[Key]] = {}
    for key in order:
        task = tasks[key]
        if task.resource >= len(devices):
            stage[key] = key
            continue
        place = (task.resource, depth[key], -height[key])
        stage[key] = first.setdefault(place, key)
        members.setdefault(stage[key], []).append(key)
    blocked = {
        stage[key]
        for key in order
        if key[1] == COMPUTE and may_be_blocked(operators[key[0]].kernel.op_type, "all")
    }
    turned: dict[Key, set[tuple[Key, int]]] = {}
    for key in order:
        task = tasks[key]
        for before_key in task.after:
            # Each that the stage is sent; of what it gives, each slice that is sent.
            if tasks[before_key].resource >= len(devices) and stage[key] in blocked:
                turned.setdefault(stage[key], set()).add((before_key, tasks[before_key].size_bytes))
            elif task.resource >= len(devices) and stage[before_key] in blocked:
                turned.setdefault(stage[before_key], set()).add((before_key, task.size_bytes))
    sizes = _weight_bytes(problem, tasks, members)
    node_bytes: dict[str, int] = {}
    for key, size in sizes.items():
        node = devices[tasks[key].resource].node
        node_bytes[node] = node_bytes.get(node, 0) + size
    units: dict[Key, Task] = {}
    for key in order:
        if stage[key] != key:
            continue
        task = tasks[key]
        stage_members = members.get(key, [key])
        after = dict.fromkeys(
            stage[key_before] for member in stage_members for key_before in tasks[member].after
        )
        after.pop(key, None)
        seconds = sum(tasks[member].seconds for member in stage_members)
        if key in members and seconds > 0:  # else it is of constants alone, and done beforehand
            device = devices[task.resource]
            seconds += device.stage_s
            if sizes:
                seconds += sizes[key] * problem.times.copied(node_bytes[device.node])
            images = [size for weight, size in turned.get(key, ()) if _is_image(problem, weight)]
            if images:
                seconds += problem.times.moved_bytes(2 * sum(images), task.resource)
        contended = sum(tasks[member].contended for member in stage_members)
        units[key] = task._replace(seconds=seconds, after=tuple(after), contended=contended)
    return Stages(units, members)


def _weight_bytes(
    problem: Problem, tasks: Mapping[Key, Task], members: Mapping[Key, list[Key]]
) -> dict[Key, int]:
    """Return the bytes of weights that each stage has; nothing where that does not matter."""
    if not problem.counts_copies:
        return {}
    values = problem.workload.values
    return {
        key: sum(
            elements(box) * values[value].item_bytes
            for value, box in {weight for member in members_ for weight in tasks[member].weights}
        )
        for key, members_ in members.items()
    }


def _is_image(problem: Problem, key: Key) -> bool:
    """Tell whether what a task gives, or sends, has as many axes as images have."""
    number, kind = key[:2]
    values = problem.workload.values
    if number < 0:
        return len(values[key[2]].shape) == _IMAGE_RANK
    output = 0 if kind == COMPUTE else key[2]
    value = problem.workload.operators[number].outputs[output]
    return value is not None and len(values[value].shape) == _IMAGE_RANK
