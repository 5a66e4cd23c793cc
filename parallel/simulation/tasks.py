"""A plan as tasks: parts of operators on devices, and transfers on wires.

Tasks come in groups, one for each operator and one for each value, that depend on the division of
few operators: where one is divided otherwise, the other groups stay (simulator.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...profiles.kernel import Kernel
from ..devices import Cluster
from ..workload import Workload
from .placement import (
    Box,
    Cell,
    Config,
    Part,
    Shapes,
    cells_of,
    elements,
    full_box,
    meet,
    parts_of,
)
from .times import Times

Numbers = npt.NDArray[np.float64]
Key = tuple[int, ...]
"""Names a task: the operator, the kind, and numbers; in the order in which ties are decided."""

COMPUTE, PARTIAL, ADD, MOVE, JOIN = range(5)
_MANY_CELLS = 8  # from so many on, arrays are faster


class Task(NamedTuple):
    """What occupies a resource for some seconds once the tasks `after` which it runs are done.

    Resources are numbers: devices, then wires. `size_bytes` is what a transfer carries. It has
    arrived `delay` seconds after the wire is free for the next: latencies overlap, bytes do not.
    While all devices of its node compute, a task takes `contended` seconds more. `weights` are the
    constants that it reads, and which box of each, where stages are charged for copies of them.
    """

    key: Key
    resource: int
    seconds: float
    after: tuple[Key, ...]
    size_bytes: int = 0
    delay: float = 0.0
    contended: float = 0.0
    weights: tuple[tuple[int, Box], ...] = ()


@dataclass(frozen=True)
class Problem:
    """What is planned: a workload, a cluster, the times of operators.

    Inputs are on every device as a request begins, and outputs stay where they are, unless `entry`
    names the device that they come from and go to. `of_average` says, by operator, by which factor
    it takes longer in this model than the times say, which are right on average; empty: no factor.
    """

    workload: Workload
    cluster: Cluster
    times: Times
    entry: int | None = None
    of_average: tuple[float, ...] = ()
    _parts: dict[tuple[object, ...], tuple[Part, ...]] = field(default_factory=dict, repr=False)
    _cells: dict[tuple[object, ...], tuple[Cell, ...]] = field(default_factory=dict, repr=False)
    _shares: dict[tuple[object, ...], tuple[tuple[int, Box], ...]] = field(
        default_factory=dict, repr=False
    )
    _nearest: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict, repr=False)

    @cached_property
    def shapes(self) -> tuple[Shapes, ...]:
        """Shapes of the outputs, by operator."""
        values = self.workload.values
        return tuple(
            tuple(values[v].shape if v is not None else () for v in operator.outputs)
            for operator in self.workload.operators
        )

    @cached_property
    def has_stages(self) -> bool:
        """Tell whether devices run stages (stages.py), and not operators one by one."""
        return any(device.stage_s > 0 for device in self.cluster.devices)

    @cached_property
    def counts_copies(self) -> bool:
        """Tell whether stages are charged for the copies of weights that they have."""
        return self.has_stages and self.times.count_copies

    def seconds(self, number: int, kernel: Kernel, device: int) -> float:
        """Return the seconds of an operator, or a part of it, with its kernel on a device."""
        factor = self.of_average[number] if self.of_average else 1.0
        return self.times.operator(kernel, device) * factor

    @cached_property
    def wires(self) -> dict[str, int]:
        """Numbers of wires, behind those of the devices."""
        names = sorted({link.wire or link.source for link in self.cluster.links})
        return {name: len(self.cluster.devices) + n for n, name in enumerate(names)}

    @cached_property
    def _links(self) -> dict[tuple[int, int], tuple[int, float, float]]:
        numbers = {device.name: number for number, device in enumerate(self.cluster.devices)}
        return {
            (numbers[link.source], numbers[link.target]): (
                self.wires[link.wire or link.source],
                link.latency_s,
                link.bytes_per_s,
            )
            for link in self.cluster.links
        }

    @cached_property
    def link_tables(self) -> tuple[Numbers, Numbers, npt.NDArray[np.intp]]:
        """Latency, bytes a second and wire, from device to device; without a link, for ever."""
        count = len(self.cluster.devices)
        latency, bandwidth = np.full((count, count), np.inf), np.ones((count, count))
        wires = np.zeros((count, count), dtype=np.intp)
        for pair, (wire, seconds, speed) in self._links.items():
            latency[pair], bandwidth[pair], wires[pair] = seconds, speed, wire
        return latency, bandwidth, wires

    def linked(self, source: int, target: int) -> bool:
        """Tell whether tensors get from a device to another."""
        return source == target or (source, target) in self._links

    def all_linked(self, devices: Sequence[int]) -> bool:
        """Tell whether tensors get from each of some devices to each other."""
        return all(itertools.starmap(self.linked, itertools.permutations(devices, 2)))

    def transfer(self, source: int, target: int, size_bytes: int) -> tuple[int, float, float]:
        """Return the wire, the seconds on it, and those on the way until all has arrived.

        Raises ClusterError where there is no link.
        """
        link = self._links.get((source, target))
        if link is None:
            devices = self.cluster.devices
            self.cluster.link(devices[source].name, devices[target].name)
            raise AssertionError
        wire, latency, bandwidth = link
        return wire, size_bytes / bandwidth, latency

    def alike(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Tell whether devices, and the links among them, are as others are, one by one."""
        devices = self.cluster.devices
        if any(devices[a].model != devices[b].model for a, b in zip(left, right, strict=True)):
            return False
        names: dict[int, int] = {}
        for i, j in itertools.permutations(range(len(left)), 2):
            first, other = (self._links.get((side[i], side[j])) for side in (left, right))
            if first is None or other is None:
                if first is not other:
                    return False
            elif first[1:] != other[1:] or names.setdefault(first[0], other[0]) != other[0]:
                return False
        # Wires that several of the ones share, several of the others do.
        return len(set(names.values())) == len(names)

    def nearest(self, holders: tuple[int, ...], target: int) -> int:
        """Choose who sends to a device: the fastest link, and of equal ones another for each."""
        if len(holders) == 1:
            return holders[0]
        sender = self._nearest.get((holders, target))
        if sender is None:
            sender = self._nearest[holders, target] = self._find_nearest(holders, target)
        return sender

    def _find_nearest(self, holders: tuple[int, ...], target: int) -> int:
        if target in holders:
            return target
        count = len(holders)

        def cost(place: int) -> tuple[float, int]:
            _, latency, bandwidth = self._links.get((holders[place], target), (0, 1e30, 1.0))
            return latency + (1 << 20) / bandwidth, (place - target) % count

        return holders[min(range(count), key=cost)]

    @cached_property
    def consumers(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """Give, by value, the operators that read it and at which input (-1: in a subgraph)."""
        consumers: dict[int, list[tuple[int, int]]] = {}
        for number, operator in enumerate(self.workload.operators):
            for position, value in operator.reads:
                consumers.setdefault(value, []).append((number, position))
        return {value: tuple(users) for value, users in consumers.items()}

    @cached_property
    def producer(self) -> dict[int, tuple[int, int]]:
        """Give, by value, the operator and the output that it is."""
        return self.workload.producer

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """Give the values that may have to be sent: those that are no constants."""
        values = self.workload.values
        return tuple(v for v in sorted(values) if not values[v].constant and not self._fixed(v))

    @cached_property
    def sent(self) -> frozenset[int]:
        """The same as a set."""
        return frozenset(self.moving)

    def _fixed(self, value: int) -> bool:
        producer = self.producer.get(value)
        return producer is not None and self.workload.operators[producer[0]].kernel.is_constant

    @cached_property
    def most_bytes(self) -> int:
        """More than any plan ever holds on one device: all weights, partial and sent results."""
        values, copies = self.workload.values, 2 + 2 * len(self.cluster.devices)
        return sum(
            value.size_bytes * (1 if value.constant else copies) for value in values.values()
        )

    # ---- divisions
    def parts(self, number: int, config: Config) -> tuple[Part, ...]:
        """Return the parts of an operator; those of equal operators are made once."""
        kernel = self.workload.operators[number].kernel
        key = (kernel.hash, config.cuts, self.shapes[number])
        if key not in self._parts:
            self._parts[key] = tuple(parts_of(kernel, config.cuts, self.shapes[number]))
        return self._parts[key]

    def cells(self, number: int, config: Config, output: int) -> tuple[Cell, ...]:
        """Return the cells of an operator's output."""
        key = (self.workload.operators[number].kernel.hash, config, output, self.shapes[number])
        if key not in self._cells:
            self._cells[key] = cells_of(self.parts(number, config), config, output)
        return self._cells[key]

    def shares(
        self, number: int, config: Config, output: int, box: Box
    ) -> tuple[tuple[int, Box], ...]:
        """Return the cells of an output that a box meets, by number, and what they share."""
        hash_ = self.workload.operators[number].kernel.hash
        key = (hash_, config.cuts, output, box, self.shapes[number])
        if key not in self._shares:
            cells = self.cells(number, config, output)
            if len(cells) > _MANY_CELLS:
                bounds = np.array([cell.box for cell in cells])
                want = np.array(box)
                low = np.maximum(bounds[..., 0], want[:, 0])
                high = np.minimum(bounds[..., 1], want[:, 1])
                places = np.nonzero((low < high).all(axis=-1))[0].tolist()
            else:
                places = list(range(len(cells)))
            pairs = ((place, meet(cells[place].box, box)) for place in places)
            self._shares[key] = tuple((place, share) for place, share in pairs if share is not None)
        return self._shares[key]

    def need(self, part: Part, position: int, value: int) -> Box | None:
        """Return the box of a value that a part reads."""
        if position < 0:
            return full_box(self.workload.values[value].shape)
        return part.reads[position]


Plan = tuple[Config, ...]
"""A division for each operator of a workload."""


def cell_key(
    number: int, config: Config, output: int, cell: int, cells: tuple[Cell, ...], device: int
) -> Key:
    """Return the task that a cell comes from on a device that holds it."""
    if config.reduction is None:
        return (number, COMPUTE, cells[cell].parts[0], device)
    return (number, ADD, output, cell, device)


def operator_tasks(problem: Problem, plan: Sequence[Config], number: int) -> Iterator[Task]:
    """Yield the parts of an operator, and what adds up the parts of a sum."""
    operator, config = problem.workload.operators[number], plan[number]
    parts = problem.parts(number, config)
    summed = problem.has_stages and config.reduction is not None
    constants = [
        (p, v) for p, v in operator.reads if problem.counts_copies and v not in problem.sent
    ]
    for place, part in enumerate(parts):
        for device in config.holders(place):
            after: list[Key] = []
            for position, value in operator.reads:
                box = problem.need(part, position, value)
                if box is not None:
                    giver = problem.producer.get(value)
                    divided = None if giver is None else plan[giver[0]]
                    after += [key for key, _ in sources(problem, divided, value, box, device)]
            seconds = problem.seconds(number, part.kernel, device)
            contended = problem.times.contended(part.kernel, device)
            if summed:  # it is sliced, for each of those that add the parts up
                for cell, output_value in zip(part.gives, operator.outputs, strict=True):
                    if output_value is not None:
                        size = elements(cell) * problem.workload.values[output_value].item_bytes
                        seconds += problem.times.moved_bytes(2 * size, device)
            boxes = ((value, problem.need(part, position, value)) for position, value in constants)
            yield Task(
                (number, COMPUTE, place, device),
                device,
                seconds,
                tuple(dict.fromkeys(after)),
                contended=contended,
                weights=tuple((value, box) for value, box in boxes if box is not None),
            )
    if config.reduction is not None:
        for output, output_value in enumerate(operator.outputs):
            if output_value is not None:
                yield from _sums(problem, config, number, output, output_value)


def _sums(problem: Problem, config: Config, number: int, output: int, value: int) -> Iterator[Task]:
    item = problem.workload.values[value].item_bytes
    for place, cell in enumerate(problem.cells(number, config, output)):
        size = elements(cell.box) * item
        for replica, device in enumerate(cell.holders):
            after: list[Key] = []
            for part in cell.parts:
                source = config.holders(part)[replica]
                summed: Key = (number, COMPUTE, part, source)
                if source != device:
                    wire, seconds, delay = problem.transfer(source, device, size)
                    key = (number, PARTIAL, output, place, part, device)
                    yield Task(key, wire, seconds, (summed,), size, delay)
                    summed = key
                after.append(summed)
            seconds = problem.times.moved_bytes(size * (len(cell.parts) + 1), device)
            yield Task((number, ADD, output, place, device), device, seconds, tuple(after))


def sources(
    problem: Problem, config: Config | None, value: int, box: Box, device: int
) -> list[tuple[Key, Task | None]]:
    """Return the tasks after which a device has a box of a value, with those that make it so.

    `config` is the division of the operator that gives the value; None for an input of the model.
    """
    producer = problem.producer.get(value)
    if value not in problem.sent:
        return []
    item = problem.workload.values[value].item_bytes
    if producer is None:
        if problem.entry is None or problem.entry == device:
            return []
        size = elements(box) * item
        wire, seconds, delay = problem.transfer(problem.entry, device, size)
        key = (-1, MOVE, value, 0, device, *(end for pair in box for end in pair))
        return [(key, Task(key, wire, seconds, (), size, delay))]
    number, output = producer
    assert config is not None
    cells = problem.cells(number, config, output)
    sources: list[tuple[Key, Task | None]] = []
    for place, shared in problem.shares(number, config, output, box):
        cell = cells[place]
        if device in cell.holders:
            sources.append((cell_key(number, config, output, place, cells, device), None))
            continue
        source = problem.nearest(cell.holders, device)
        size = elements(shared) * item
        wire, seconds, delay = problem.transfer(source, device, size)
        key = (number, MOVE, output, place, device, *(end for pair in shared for end in pair))
        after = (cell_key(number, config, output, place, cells, source),)
        sources.append((key, Task(key, wire, seconds, after, size, delay)))
    if len(sources) > 1 or (sources and sources[0][1] is None and cells[place].box != box):
        # Pieces are joined, and slices are taken, by a copy.
        key = (number, JOIN, output, 0, device, *(end for pair in box for end in pair))
        seconds = problem.times.moved_bytes(2 * elements(box) * item, device)
        sources.append((key, Task(key, device, seconds, tuple(key for key, _ in sources))))
    return sources


def value_tasks(
    problem: Problem, plan: Plan, value: int, decided: int | None = None
) -> Iterator[Task]:
    """Yield the transfers of a value to all that read it, and what joins them there, each once.

    With `decided`, to those of the first so many operators, if a plan says no more.
    """
    wanted: list[tuple[Box, int]] = []
    for number, position in problem.consumers.get(value, ()):
        if decided is None or number < decided:
            wanted += _wanted(problem, plan[number], number, position, value)
    if problem.entry is not None and decided is None and value in problem.workload.outputs:
        wanted.append((full_box(problem.workload.values[value].shape), problem.entry))
    yield from _brought(problem, plan, value, wanted, set())


def input_tasks(problem: Problem, plan: Sequence[Config], number: int) -> Iterator[Task]:
    """Yield the transfers of what an operator reads, and what joins it, each once.

    Others may read the same: these tasks then are theirs as well. `plan` has to have the division
    of the operator, and of those that give what it reads.
    """
    seen: set[Key] = set()
    for position, value in problem.workload.operators[number].reads:
        wanted = _wanted(problem, plan[number], number, position, value)
        yield from _brought(problem, plan, value, wanted, seen)


def _wanted(
    problem: Problem, config: Config, number: int, position: int, value: int
) -> Iterator[tuple[Box, int]]:
    """Yield the boxes of a value that the parts of an operator read, and the devices that do."""
    for place, part in enumerate(problem.parts(number, config)):
        box = problem.need(part, position, value)
        if box is not None:
            for device in config.holders(place):
                yield box, device


def _brought(
    problem: Problem,
    plan: Sequence[Config],
    value: int,
    wanted: Iterable[tuple[Box, int]],
    seen: set[Key],
) -> Iterator[Task]:
    """Yield the tasks that bring boxes of a value to devices, but for those that were seen."""
    producer = problem.producer.get(value)
    divided = None if producer is None else plan[producer[0]]
    for box, device in dict.fromkeys(wanted):
        for key, task in sources(problem, divided, value, box, device):
            if task is not None and key not in seen:
                seen.add(key)
                yield task


def plan_tasks(problem: Problem, plan: Plan) -> dict[Key, Task]:
    """Return all tasks of a plan by their keys."""
    tasks: dict[Key, Task] = {}
    for number in range(len(plan)):
        for task in operator_tasks(problem, plan, number):
            tasks[task.key] = task
    for value in problem.moving:
        for task in value_tasks(problem, plan, value):
            tasks[task.key] = task
    return tasks
