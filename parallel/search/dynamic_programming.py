"""Plans by dynamic programming: the least sum of times of operators and of what is sent.

Each operator is a variable, its divisions are the values. One by one they are eliminated: of the
costs that name an operator a table of its neighbours is made, with the best division for each of
their combinations (bucket elimination, Dechter 1999; for such plans PaSE, Elango, IPDPS 2021). On
series-parallel graphs tables stay narrow. The result is exact for sums; what runs side by side, and
what two readers of a value share, only the simulator knows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..simulation.placement import Config, elements
from ..simulation.tasks import Plan, Problem

Costs = npt.NDArray[np.float64]
# Entries of a table: beyond that the graph is too wide, and the best combinations are kept.
_MOST_ENTRIES = 4_000_000


class TooWideError(Exception):
    """The graph has no order of elimination with tables small enough."""


class AdditiveCosts:
    """Costs of divisions and of pairs of them; equal operators share them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tables: dict[tuple[object, ...], Costs] = {}
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
                first = problem.producer[value][0]
                for second, position in problem.consumers.get(value, ()):
                    total += self.edge(value, first, plan[first], second, position, plan[second])
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
                            wires[wire] = wires.get(wire, 0.0) + seconds + delay
                    busy = problem.times.moved_bytes(size * (len(cell.parts) + 1), device)
                most = max(most, busy)
            most += max(wires.values(), default=0.0)
        return most

    def edge(
        self, value: int, first: int, config: Config, second: int, position: int, other: Config
    ) -> float:
        """Return the seconds of sending a value from one operator to another."""
        problem = self.problem
        operators = problem.workload.operators
        kernels = operators[first].kernel.hash, operators[second].kernel.hash
        output = problem.producer[value][1]
        key = (*kernels, output, position, config, other)
        if key not in self._edges:
            self._edges[key] = self._sent(value, config, second, position, other)
        return self._edges[key]

    def _sent(self, value: int, config: Config, second: int, position: int, other: Config) -> float:
        """Return for how long the busiest wire is occupied."""
        problem = self.problem
        first, output = problem.producer[value]
        cells = problem.cells(first, config, output)
        boxes, devices = [], []
        for place, part in enumerate(problem.parts(second, other)):
            box = problem.need(part, position, value)
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
        source = np.array(
            [[problem.nearest(cell.holders, device) for cell in cells] for device in devices]
            if config.replicas > 1
            else [[cell.holders[0] for cell in cells]]
        )
        target = np.array(devices)[:, None]
        moved = (shared > 0) & (source != target)
        source, target = np.broadcast_arrays(source, target)
        pairs = source[moved], target[moved]
        size = shared[moved] * problem.workload.values[value].item_bytes
        latency, bandwidth, wire = problem.link_tables
        seconds = latency[pairs] + size / bandwidth[pairs]
        return float(np.bincount(wire[pairs], weights=seconds).max()) if len(size) else 0.0


def best_plan(
    problem: Problem,
    configs: Sequence[Sequence[Config]],
    costs: AdditiveCosts,
    penalty: Callable[[int, Config], float] | None = None,
    *,
    shared: bool = False,
) -> tuple[Config, ...]:
    """Return the plan of the least sum of costs. Raises TooWideError for a graph that is too wide.

    `penalty` adds to the cost of a division, as for the memory that it takes. With `shared`, those
    that read a value count together what it takes to send it once.
    """
    factors: list[tuple[tuple[int, ...], Costs]] = []
    operators = problem.workload.operators
    known = costs.tables
    for number, own in enumerate(configs):
        key: tuple[object, ...] = (operators[number].kernel.hash, tuple(own))
        if key not in known:
            known[key] = np.array([costs.operator(number, one) for one in own])
        table = known[key]
        if penalty is not None:
            table = table + np.array([penalty(number, one) for one in own])
        factors.append(((number,), table))
    for value in problem.moving:
        made = problem.producer.get(value)
        if made is None:
            continue
        first = made[0]
        for second, position in problem.consumers.get(value, ()):
            key = (
                operators[first].kernel.hash, operators[second].kernel.hash, made[1], position,
                tuple(configs[first]), tuple(configs[second]),
            )  # fmt: skip
            if key not in known:
                known[key] = np.array(
                    [
                        [costs.edge(value, first, a, second, position, b) for b in configs[second]]
                        for a in configs[first]
                    ]
                )
            readers = len(problem.consumers[value]) if shared else 1
            factors.append(((first, second), known[key] / readers))
    chosen = eliminate(factors, {n: len(own) for n, own in enumerate(configs)})
    return tuple(configs[number][chosen[number]] for number in range(len(configs)))


def eliminate(
    factors: Sequence[tuple[tuple[int, ...], Costs]], sizes: Mapping[int, int]
) -> dict[int, int]:
    """Return the assignment with the least sum of all factors, variables 0 to sizes[v] - 1."""
    tables = dict(enumerate(factors))
    naming: dict[int, set[int]] = {v: set() for v in sizes}
    for key, (scope, _) in tables.items():
        for v in scope:
            naming[v].add(key)
    fresh = len(tables)
    steps: list[tuple[int, tuple[int, ...], npt.NDArray[np.intp]]] = []
    left = set(sizes)

    def neighbours(v: int) -> set[int]:
        return {u for key in naming[v] for u in tables[key][0]} - {v}

    def width(v: int) -> float:
        return math.prod(float(sizes[u]) for u in around[v])

    around = {v: neighbours(v) for v in left}
    widths = {v: width(v) for v in left}
    while left:
        v = min(left, key=lambda u: (widths[u], u))
        scope = tuple(sorted(around[v]))
        if widths[v] * sizes[v] > _MOST_ENTRIES:
            raise TooWideError
        whole = (*scope, v)
        joined = functools.reduce(
            np.add,
            [_spread(tables[key], whole) for key in sorted(naming[v])],
            np.zeros([sizes[w] for w in whole]),
        )
        steps.append((v, scope, joined.argmin(axis=-1)))
        for key in list(naming[v]):
            for u in tables[key][0]:
                naming[u].discard(key)
            del tables[key]
        tables[fresh] = (scope, joined.min(axis=-1))
        for u in scope:
            naming[u].add(fresh)
        fresh += 1
        left.discard(v)
        for u in scope:
            around[u] = neighbours(u)
            widths[u] = width(u)
    chosen: dict[int, int] = {}
    for v, scope, best in reversed(steps):
        chosen[v] = int(best[tuple(chosen[u] for u in scope)])
    return chosen


def _spread(factor: tuple[tuple[int, ...], Costs], whole: tuple[int, ...]) -> Costs:
    """Give a table the axes of a wider one."""
    scope, table = factor
    if len(set(scope)) < len(scope):  # a value read by who gives it: there is none
        raise TooWideError
    order = sorted(range(len(scope)), key=lambda place: whole.index(scope[place]))
    table = table.transpose(order)
    inside = {whole.index(v) for v in scope}
    shape = iter(table.shape)
    return table.reshape([next(shape) if at in inside else 1 for at in range(len(whole))])
