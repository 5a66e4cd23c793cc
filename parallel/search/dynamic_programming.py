"""Plans by dynamic programming: the least sum of times of operators and of what is sent.

Each operator is a variable, its divisions are its values (bucket_elimination.py; Elango, IPDPS
2021). The result is exact for sums, where tables are narrow enough; what runs side by side, and
what two readers of a value share, only the simulator knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..simulation.placement import Config, elements
from ..simulation.tasks import Plan, Problem
from .bucket_elimination import Costs, Factor, eliminate

Penalty = Callable[[int, Config], float]
"""What is added to the cost of a division of an operator, as for the memory that it takes."""

Place = tuple[int, int]
"""An operator, and which of its outputs or inputs."""


class AdditiveCosts:
    """Costs of divisions and of pairs of them; equal operators share them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._tables: dict[tuple[object, ...], Costs] = {}
        self._edges: dict[tuple[object, ...], float] = {}

    def operator(self, number: int, config: Config) -> float:
        """Return the seconds of the busiest device for one operator, sums of parts included."""
        problem = self.problem
        busy: dict[int, float] = {}
        for place, part in enumerate(problem.parts(number, config)):
            for device in config.holders(place):
                seconds = problem.times.operator(part.kernel, device)
                busy[device] = busy.get(device, 0.0) + seconds
        total = max(busy.values())
        if config.reduction is not None:
            total += self._sums(number, config)
        return total

    def plan(self, plan: Plan) -> float:
        """Return the sum of all costs of a plan."""
        problem = self.problem
        operators = problem.workload.operators
        known: dict[tuple[str, Config], float] = {}
        total = 0.0
        for number, config in enumerate(plan):
            key = (operators[number].kernel.hash, config)
            if key not in known:
                known[key] = self.operator(number, config)
            total += known[key]
        for value in problem.moving:
            if value in problem.producer:
                source = problem.producer[value]
                for target in problem.consumers.get(value, ()):
                    total += self.edge(value, source, plan[source[0]], target, plan[target[0]])
        return total

    def _sums(self, number: int, config: Config) -> float:
        problem = self.problem
        operator = problem.workload.operators[number]
        most = 0.0
        for output, value in enumerate(operator.outputs):
            if value is None:
                continue
            item = problem.workload.values[value].item_bytes
            wires: dict[int, float] = {}
            for cell in problem.cells(number, config, output):
                size = elements(cell.box) * item
                for replica, device in enumerate(cell.holders):
                    for part in cell.parts:
                        source = config.holders(part)[replica]
                        if source != device:
                            wire, seconds, delay = problem.transfer(source, device, size)
                            # Who hears from another begins a stage with it.
                            stage = problem.cluster.devices[device].stage_s
                            wires[wire] = wires.get(wire, 0.0) + seconds + delay + stage
                    busy = problem.times.moved_bytes(size * (len(cell.parts) + 1), device)
                most = max(most, busy)
            most += max(wires.values(), default=0.0)
        return most

    def edge(
        self,
        value: int,
        source: Place,
        config: Config,
        target: Place,
        other: Config,
    ) -> float:
        """Return the seconds of sending a value from an operator's output to another's input."""
        key = (*self._ends(source, target), config, other)
        if key not in self._edges:
            self._edges[key] = self._sent(value, source, config, target, other)
        return self._edges[key]

    def operators(self, number: int, configs: Sequence[Config]) -> Costs:
        """Return the costs of divisions of an operator; equal ones share the table."""
        key = (self.problem.workload.operators[number].kernel.hash, tuple(configs))
        if key not in self._tables:
            self._tables[key] = np.array([self.operator(number, config) for config in configs])
        return self._tables[key]

    def edges(
        self,
        value: int,
        source: Place,
        configs: Sequence[Config],
        target: Place,
        others: Sequence[Config],
    ) -> Costs:
        """Return the costs of sending a value, for divisions of who gives it and who reads it."""
        key = (*self._ends(source, target), tuple(configs), tuple(others))
        if key not in self._tables:
            self._tables[key] = np.array(
                [[self.edge(value, source, a, target, b) for b in others] for a in configs]
            )
        return self._tables[key]

    def _ends(self, source: Place, target: Place) -> tuple[object, ...]:
        """Return what is equal where equal operators send and read a value at equal places."""
        operators = self.problem.workload.operators
        giver, reader = operators[source[0]].kernel.hash, operators[target[0]].kernel.hash
        return giver, reader, source[1], target[1]

    def _sent(
        self,
        value: int,
        source: Place,
        config: Config,
        target: Place,
        other: Config,
    ) -> float:
        """Return for how long the busiest wire is occupied."""
        problem = self.problem
        cells = problem.cells(source[0], config, source[1])
        boxes, devices = [], []
        for place, part in enumerate(problem.parts(target[0], other)):
            box = problem.need(part, target[1], value)
            for device in other.holders(place) if box is not None else ():
                boxes.append(box)
                devices.append(device)
        if not boxes:
            return 0.0
        rank = len(cells[0].box)
        have = np.array([cell.box for cell in cells]).reshape(1, len(cells), rank, 2)
        want = np.array(boxes).reshape(len(boxes), 1, rank, 2)
        low = np.maximum(have[..., 0], want[..., 0])
        high = np.minimum(have[..., 1], want[..., 1])
        shared = np.clip(high - low, 0, None).prod(axis=-1)
        origin = np.array(
            [[problem.nearest(cell.holders, device) for cell in cells] for device in devices]
            if config.replicas > 1
            else [[cell.holders[0] for cell in cells]]
        )
        end = np.array(devices)[:, None]
        moved = (shared > 0) & (origin != end)
        origin, end = np.broadcast_arrays(origin, end)
        pairs = origin[moved], end[moved]
        size = shared[moved] * problem.workload.values[value].item_bytes
        latency, bandwidth, wire = problem.link_tables
        stages = np.array([device.stage_s for device in problem.cluster.devices])
        seconds = latency[pairs] + stages[pairs[1]] + size / bandwidth[pairs]
        return float(np.bincount(wire[pairs], weights=seconds).max()) if len(size) else 0.0


def best_plan(
    problem: Problem,
    configs: Sequence[Sequence[Config]],
    costs: AdditiveCosts,
    penalty: Penalty | None = None,
    *,
    shared: bool = False,
) -> tuple[Config, ...]:
    """Return the plan of the least sum of costs, or a good one for a graph that is too wide.

    With `shared`, those that read a value count together what it takes to send it once.
    """
    factors: list[Factor] = []
    for number, options in enumerate(configs):
        table = costs.operators(number, options)
        if penalty is not None:
            table = table + np.array([penalty(number, config) for config in options])
        factors.append(((number,), table))
    for value in problem.moving:
        source = problem.producer.get(value)
        if source is None:
            continue
        first = source[0]
        for target in problem.consumers.get(value, ()):
            table = costs.edges(value, source, configs[first], target, configs[target[0]])
            readers = len(problem.consumers[value]) if shared else 1
            factors.append(((first, target[0]), table / readers))
    chosen = eliminate(factors, {n: len(options) for n, options in enumerate(configs)}).values
    return tuple(configs[number][chosen[number]] for number in range(len(configs)))
