"""The best of all plans of a small graph, without listing them: an oracle for the search.

python -m tests.parallel.every_plan                       20 graphs of 8 operators on 4 devices
python -m tests.parallel.every_plan --graphs 200 --goal throughput --seed 7

Graphs are drawn, as are devices and links; all divisions of all operators count, some 10^14 plans
of eight operators on four devices. Operators are decided in order, and what begins a plan is left
out as soon as none that begins so can be better than the plan that the search found. Nothing of the
search is used (parallel/search/branch_and_bound.py has bounds of its own): what is, are the tasks
of an operator and of what it reads. No plan takes less than

- its longest path: what is decided, and from there on the way to the end that is the shortest for
  the parts in question, whatever the operators behind are divided like (`_ways`);
- what a device or wire has to do from the moment on when the first of it can begin;
- all that all devices have to do, divided evenly.

Where that takes more than `--steps`, nothing is said of the graph.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensolog.parallel.planning import plan
from tensolog.parallel.search.goals import Goal, score
from tensolog.parallel.simulation.placement import Config
from tensolog.parallel.simulation.simulator import Simulation
from tensolog.parallel.simulation.tasks import (
    ADD,
    COMPUTE,
    Key,
    Plan,
    Problem,
    Task,
    input_tasks,
    operator_tasks,
)

from .models import cluster, random_graph, space

# Plans that differ by rounding alone are equally good.
_EQUAL = 1e-9


@dataclass
class Best:
    """The least time of all plans, a plan that has it, and after how many steps that was known.

    Without a plan there is none that takes less than the time.
    """

    plan: Plan | None
    seconds: float
    steps: int
    is_known: bool


def best_of_every_plan(
    problem: Problem,
    configs: Sequence[Sequence[Config]],
    goal: Goal,
    steps: int = 10**6,
    below: float = math.inf,
) -> Best:
    """Return the best of all plans with these divisions; less than `below`, or there is none."""
    assert not problem.has_stages and problem.entry is None and goal != "memory"
    return _Tree(problem, configs, goal, steps, below).search()


def _takes(task: Task) -> float:
    return task.seconds + task.delay


class _Tree:
    def __init__(
        self,
        problem: Problem,
        configs: Sequence[Sequence[Config]],
        goal: Goal,
        steps: int,
        below: float,
    ) -> None:
        self.problem, self.configs, self.goal, self.steps = problem, configs, goal, steps
        self.best = Best(None, below, 0, True)
        self.devices = len(problem.cluster.devices)
        self.operators = problem.workload.operators
        self.makers = [self._makers(number) for number in range(len(configs))]
        self.users = [
            sorted(n for n in range(len(configs)) if number in self.makers[n])
            for number in range(len(configs))
        ]
        self._tasks: dict[tuple[object, ...], list[Task]] = {}
        # What all devices have to do for the operators from one on.
        self.rest_work_s = [0.0] * (len(configs) + 1)
        for number in reversed(range(len(configs))):
            least = min(self._work(number, config) for config in configs[number])
            self.rest_work_s[number] = self.rest_work_s[number + 1] + least
        self.ways: dict[tuple[int, Config, int], dict[Key, float]] = {}
        self.longest: dict[tuple[int, Config], dict[Key, float]] = {}
        if goal == "latency":
            for number in reversed(range(len(configs))):
                self._ways(number)

    def seconds(self, plan_: Plan) -> float:
        return score(Simulation(self.problem, plan_), self.goal).goal

    def _makers(self, number: int) -> list[int]:
        operator = self.operators[number]
        values = (*operator.inputs, *operator.captures)
        makers = {self.problem.producer[v][0] for v in values if v in self.problem.producer}
        return sorted(makers)

    def tasks(self, number: int, chosen: Sequence[Config | None]) -> list[Task]:
        """Return what has to be done for an operator, transfers first; some may be done already.

        Of operators that give what it reads those that are not chosen are taken as they come.
        """
        key = (number, chosen[number], *(chosen[maker] for maker in self.makers[number]))
        if key not in self._tasks:
            plan_ = tuple(
                config or options[0] for config, options in zip(chosen, self.configs, strict=False)
            )
            self._tasks[key] = [
                *input_tasks(self.problem, plan_, number),
                *operator_tasks(self.problem, plan_, number),
            ]
        return self._tasks[key]

    def _work(self, number: int, config: Config) -> float:
        chosen: list[Config | None] = [None] * len(self.configs)
        chosen[number] = config
        return sum(
            task.seconds
            for task in self.tasks(number, chosen)
            if task.resource < self.devices
            and task.key[0] == number
            and task.key[1] in (COMPUTE, ADD)
        )

    def _ways(self, number: int) -> None:
        """Note how long it takes at least from the end of each part to the end of the model."""
        for config in self.configs[number]:
            chosen: list[Config | None] = [None] * len(self.configs)
            chosen[number] = config
            total: dict[Key, float] = {}
            for user in self.users[number]:
                every: dict[Key, list[float]] = {}
                for other in self.configs[user]:
                    chosen[user] = other
                    tasks = self.tasks(user, chosen)
                    for key, seconds in self._ways_to(number, tasks, self.longest[user, other]):
                        every.setdefault(key, []).append(seconds)
                chosen[user] = None
                # A part that another division doesn't read has no way through it.
                count = len(self.configs[user])
                least = {key: min(times) for key, times in every.items() if len(times) == count}
                self.ways[number, config, user] = least
                for key, seconds in least.items():
                    total[key] = max(total.get(key, 0.0), seconds)
            self.longest[number, config] = total

    @staticmethod
    def _ways_to(
        number: int, tasks: Sequence[Task], behind: dict[Key, float]
    ) -> Iterable[tuple[Key, float]]:
        """Return, by task of an operator, the longest way through these and what is behind them."""
        ways: dict[Key, float] = {}
        for task in reversed(_in_order(tasks)):
            seconds = _takes(task) + max(ways.get(task.key, 0.0), behind.get(task.key, 0.0))
            for key in task.after:
                ways[key] = max(ways.get(key, 0.0), seconds)
        return [(k, s) for k, s in ways.items() if k[0] == number and k[1] in (COMPUTE, ADD)]

    # ---- the search

    def search(self) -> Best:
        self._descend([], {}, {})
        return self.best

    def _descend(
        self,
        chosen: list[Config],
        ends: dict[Key, float],
        ready: dict[int, list[tuple[float, float]]],
    ) -> None:
        number = len(chosen)
        if number == len(self.configs):
            seconds = self.seconds(tuple(chosen))
            if seconds < self.best.seconds * (1 - _EQUAL):
                self.best.plan, self.best.seconds = tuple(chosen), seconds
            return
        children = []
        for place, config in enumerate(self.configs[number]):
            self.best.steps += 1
            if self.best.steps > self.steps:
                self.best.is_known = False
                return
            child = self._child([*chosen, config], ends, ready)
            if child is not None:
                children.append((child[0], place, config, child[1], child[2]))
        for bound, _, config, child_ends, child_ready in sorted(children, key=lambda c: c[:2]):
            if self._may_be_better(bound) and self.best.is_known:
                self._descend([*chosen, config], child_ends, child_ready)

    def _may_be_better(self, bound: float) -> bool:
        return bound < self.best.seconds * (1 - _EQUAL)

    def _child(
        self,
        chosen: list[Config],
        ends: dict[Key, float],
        ready: dict[int, list[tuple[float, float]]],
    ) -> tuple[float, dict[Key, float], dict[int, list[tuple[float, float]]]] | None:
        """Return the bound of what begins so, and when its tasks end at the earliest."""
        number = len(chosen) - 1
        delays = float(self.goal == "throughput")
        ends = dict(ends)
        more: dict[int, list[tuple[float, float]]] = {}
        bound = 0.0
        for task in _in_order(self.tasks(number, chosen)):
            if task.key not in ends:
                begin = max((ends[key] for key in task.after), default=0.0)
                ends[task.key] = begin + _takes(task)
                works = task.seconds + delays * task.delay
                more.setdefault(task.resource, []).append((begin, works))
                bound = max(bound, ends[task.key])
        if self.goal == "throughput":
            bound = 0.0
        else:
            for maker, config in enumerate(chosen):
                for user in self.users[maker]:
                    if user > number:
                        for key, seconds in self.ways[maker, config, user].items():
                            bound = max(bound, ends[key] + seconds)
        if not self._may_be_better(bound):
            return None
        ready = dict(ready)
        for resource, tasks in more.items():
            ready[resource] = list(heapq.merge(ready.get(resource, ()), sorted(tasks)))
        work = self.rest_work_s[number + 1]
        for resource, queue in ready.items():
            busy = sum(works for _, works in queue)
            if resource < self.devices:
                work += busy
            if self.goal == "latency":
                free = 0.0
                for begin, works in queue:
                    free = max(free, begin) + works
                bound = max(bound, free)
            else:
                bound = max(bound, busy)
        bound = max(bound, work / self.devices)
        return (bound, ends, ready) if self._may_be_better(bound) else None


def _in_order(tasks: Sequence[Task]) -> list[Task]:
    """Sort tasks so that each comes after those that it waits for."""
    by_key = {task.key: task for task in tasks}
    order: dict[Key, Task] = {}

    def visit(task: Task) -> None:
        if task.key not in order:
            for key in task.after:
                if key in by_key:
                    visit(by_key[key])
            order[task.key] = task

    for task in tasks:
        visit(task)
    return list(order.values())


def drawn_problem(seed: int, operators: int, devices: int):
    """Draw a graph, devices and links."""
    draw = random.Random(seed).randrange
    alike = cluster(
        devices,
        gb_per_s=[0.5, 5, 50, 500][draw(4)],
        latency_us=draw(4) / 2,
        launch_us=[0, 0.5, 1, 2][draw(4)],
        tflops=[0.001, 0.01, 0.1][draw(3)],
    )
    return space(random_graph(draw, operators), alike)


def compare(seed: int, operators: int, devices: int, goal: Goal, steps: int):
    """Return what the search found for a graph, and the best of all plans."""
    every = drawn_problem(seed, operators, devices)
    problem = every.problem
    configs = [every.all_configs(number) for number in range(operators)]
    chosen_plan = plan(problem.workload, problem.cluster, goal=goal, prove=False)
    best = best_of_every_plan(problem, configs, goal, steps, chosen_plan.score.goal)
    return chosen_plan, configs, best


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.parallel.every_plan",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--graphs", type=int, default=20, help="how many [20]")
    parser.add_argument("--operators", type=int, default=8, help="of each [8]")
    parser.add_argument("--devices", type=int, default=4, help="alike, each linked with each [4]")
    parser.add_argument("--goal", choices=["latency", "throughput"], default="latency")
    parser.add_argument("--seed", type=int, default=0, help="draws the first one [0]")
    parser.add_argument("--steps", type=int, default=10**6, help="of a graph, at most [1000000]")
    options = parser.parse_args()
    known = equal = 0
    for seed in range(options.seed, options.seed + options.graphs):
        begin = time.monotonic()
        chosen_plan, configs, best = compare(
            seed, options.operators, options.devices, options.goal, options.steps
        )
        plans = math.prod(map(len, configs))
        ratio = chosen_plan.score.goal / best.seconds
        known += best.is_known
        equal += best.is_known and ratio <= 1 + _EQUAL
        print(
            f"graph {seed}: {plans:.1e} plans, found / best {ratio:.4f}"
            f"{'' if best.is_known else ', not known to be the best'}"
            f"{', searched exactly' if chosen_plan.exact else ''}"
            f" ({best.steps} steps, {time.monotonic() - begin:.1f} s)",
            flush=True,
        )
    print(
        f"{equal} of {known} as good as the best of all plans, {options.graphs - known} not known"
    )


if __name__ == "__main__":
    main()
