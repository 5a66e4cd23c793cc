"""Plans to begin with: the usual ones, and the best of each width by dynamic programming.

Of the devices, blocks of 1, 2, 4, … are taken, the fastest ones first: on each block the plan of
the least sum of times, data parallelism, and what people do by hand; and each of these as the
stages of a pipeline over several blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..simulation.placement import Config, elements, whole_on
from ..simulation.simulator import Simulation
from ..simulation.tasks import Plan, Problem
from .config_space import Space, powers
from .dynamic_programming import AdditiveCosts, Penalty, best_plan
from .goals import Goal, Score, score
from .pipelines import staged

# Seconds for a GiB of weights on a device: how dear memory is made until a plan fits.
_PRICES = (0.0, 1e-4, 1e-2, 1.0, 100.0)
# Of plans with so many parts, those are not simulated whose sum of times is so often the least one.
_MANY_PARTS, _FAR = 1_000, 1.5


@dataclass(frozen=True)
class Candidate:
    """A plan with the name that reports call it by."""

    name: str
    plan: Plan
    devices: tuple[int, ...]


Wanted = Callable[[Candidate, Simulation], bool]
"""Whether a plan may be the one that is chosen."""


def candidates(
    space: Space, goal: Goal, is_wanted: Wanted, *, tight: bool
) -> Iterator[tuple[Candidate, Simulation]]:
    """Yield plans for a problem, simulated; with `tight`, those that take less memory too.

    Those that are wanted are made of proved cuts alone: proofs take longer than plans.
    """
    problem = space.problem
    order = fastest_first(problem)
    times = _seconds(problem, order[0])
    sizes = _weights(problem)
    costs = AdditiveCosts(problem)
    for width in powers(len(order)):
        block = order[:width]
        best: tuple[Score, Candidate] | None = None
        makers = dict(_for_block(space, block, costs, tight=tight))
        for name, plan in _promising({n: make() for n, make in makers.items()}, costs).items():
            candidate = Candidate(name, plan, block)
            simulation = Simulation(problem, plan)
            while is_wanted(candidate, simulation) and not space.holds(candidate.plan):
                candidate = Candidate(name, makers[name](), block)
                simulation = Simulation(problem, candidate.plan)
            yield candidate, simulation
            rank = score(simulation, goal)
            if best is None or rank < best[0]:
                best = (rank, candidate)
        # One request is not served faster by stages, which leave all but one of them idle.
        if best is None or (goal == "latency" and not tight):
            continue
        for stages in powers(len(order) // width):
            used = order[: stages * width]
            if stages > 1 and problem.all_linked(used):
                blocks = [order[n * width : (n + 1) * width] for n in range(stages)]
                for weights in (times, sizes) if tight else (times,):
                    title = f"pipeline of {stages}" + f", each {best[1].name}" * (width > 1)
                    candidate = Candidate(title, staged(best[1].plan, weights, blocks), used)
                    simulation = Simulation(problem, candidate.plan)
                    if not is_wanted(candidate, simulation) or space.holds(candidate.plan):
                        yield candidate, simulation


def fastest_first(problem: Problem) -> tuple[int, ...]:
    """Return the devices that requests reach, those that compute fastest first."""
    devices, entry = problem.cluster.devices, problem.entry
    reached = [
        n
        for n in range(len(devices))
        if entry is None or (problem.linked(entry, n) and problem.linked(n, entry))
    ]
    return tuple(sorted(reached, key=lambda n: (-devices[n].flops_per_s, n)))


def _promising(plans: dict[str, Plan], costs: AdditiveCosts) -> dict[str, Plan]:
    """Leave out plans that are there already, and of large ones what sums say is far behind.

    Data parallelism stays: no plan is to be worse.
    """
    distinct = {plan: name for name, plan in reversed(plans.items())}
    kept = {name: plan for name, plan in plans.items() if distinct[plan] == name}
    parts = max((sum(len(config.devices) for config in plan) for plan in kept.values()), default=0)
    if parts < _MANY_PARTS:
        return kept
    sums = {name: costs.plan(plan) for name, plan in kept.items()}
    least = min(sums.values())
    return {
        name: plan
        for name, plan in kept.items()
        if sums[name] <= _FAR * least or name.startswith("data parallel")
    }


def _for_block(
    space: Space, block: tuple[int, ...], costs: AdditiveCosts, *, tight: bool
) -> Iterator[tuple[str, Callable[[], Plan]]]:
    problem = space.problem
    count = len(problem.workload.operators)
    if len(block) == 1:
        yield "one device", lambda: tuple(whole_on(block[0]) for _ in range(count))
        return
    if not problem.all_linked(block):
        return
    yield f"data parallel on {len(block)}", lambda: space.data_parallel(block)
    yield f"one weird trick on {len(block)}", lambda: one_weird_trick(space, block)
    gib = 1 << 30
    for price in _PRICES if tight else _PRICES[:1]:

        def penalty(number: int, config: Config, price: float = price) -> float:
            return price * constant_bytes(problem, number, config) / gib

        for shared in (True, False):

            def least(
                penalty: Penalty | None = penalty if price else None, shared: bool = shared
            ) -> Plan:
                configs = space.block_configs(block)
                return best_plan(problem, configs, costs, penalty, shared=shared)

            name = f"divided among {len(block)}" + ", saving memory" * (price > 0)
            yield name + (", shared" if shared else ""), least


def one_weird_trick(space: Space, block: tuple[int, ...]) -> Plan:
    """Divide samples, but in dense layers the weights (Krizhevsky 2014)."""
    operators = space.problem.workload.operators
    return tuple(
        space.by_kind(
            number,
            block,
            ("parameter", "sample")
            if operator.kernel.op_type in ("Gemm", "MatMul") and operator.kernel.constant_bytes
            else ("sample",),
        )
        for number, operator in enumerate(operators)
    )


def constant_bytes(problem: Problem, number: int, config: Config) -> int:
    """Return the bytes of constants that the fullest device holds for one operator."""
    operator = problem.workload.operators[number]
    most: dict[int, int] = {}
    for place, part in enumerate(problem.parts(number, config)):
        size = sum(
            elements(box) * problem.workload.values[value].item_bytes
            for box, value in zip(part.reads, operator.inputs, strict=True)
            if box is not None and value is not None and value not in problem.sent
        )
        for device in config.holders(place):
            most[device] = most.get(device, 0) + size
    return max(most.values(), default=0)


def _seconds(problem: Problem, device: int) -> list[float]:
    operators = problem.workload.operators
    return [problem.seconds(n, operator.kernel, device) for n, operator in enumerate(operators)]


def _weights(problem: Problem) -> list[float]:
    """Return the bytes that operators hold, a little for each, so that none counts as nothing."""
    values = problem.workload.values
    seen: set[int] = set()
    weights = []
    for operator in problem.workload.operators:
        inputs = {v for v in operator.inputs if v is not None and v not in problem.sent} - seen
        seen |= inputs
        outputs = [v for v in operator.outputs if v is not None]
        size = sum(values[v].size_bytes for v in inputs)
        weights.append(float(size + math.ceil(sum(values[v].size_bytes for v in outputs) / 64) + 1))
    return weights
