"""The best plan of all, for graphs so small that all can be looked at: branch and bound.

Operators are decided in order. What is decided takes at least its longest path, and keeps each
device busy at least as long as it computes; a branch that can't be better than the best plan so far
is left out. Limits are counts of simulations, so that the result depends on no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..simulation.placement import Config
from ..simulation.simulator import Simulation
from ..simulation.tasks import Plan, Problem, Task, operator_tasks, value_tasks
from .goals import Goal, Score, score

MOST_STEPS = 3_000


@dataclass
class BestPlan:
    """The best plan seen, and whether it is known to be the best of all."""

    plan: Plan
    simulation: Simulation
    score: Score
    exact: bool
    steps: int


def best_of_all(
    problem: Problem,
    configs: Sequence[Sequence[Config]],
    goal: Goal,
    start: Simulation,
    steps: int = MOST_STEPS,
) -> BestPlan:
    """Return the best plan, or the best one seen within so many steps, from one to begin with."""
    search = _Search(problem, configs, goal, start, steps)
    search.descend([])
    return search.best


def shortest_rests(problem: Problem, configs: Sequence[Sequence[Config]]) -> list[float]:
    """Return, by operator, the seconds from its end to the model's, whatever is chosen then."""
    rests = [0.0] * len(configs)
    for number in reversed(range(len(configs))):
        for value in problem.workload.operators[number].outputs:
            for user, _ in problem.consumers.get(value, ()) if value is not None else ():
                least = min(_longest(problem, user, config) for config in configs[user])
                rests[number] = max(rests[number], least + rests[user])
    return rests


def _longest(problem: Problem, number: int, config: Config) -> float:
    return max(
        problem.seconds(number, part.kernel, device)
        for place, part in enumerate(problem.parts(number, config))
        for device in config.holders(place)
    )


class _Search:
    def __init__(
        self,
        problem: Problem,
        configs: Sequence[Sequence[Config]],
        goal: Goal,
        start: Simulation,
        steps: int,
    ) -> None:
        self.problem = problem
        self.configs = configs
        self.goal = goal
        self.steps = steps
        self.best = BestPlan(start.plan, start, score(start, goal), True, 0)
        self.rest = shortest_rests(problem, configs)

    def descend(self, chosen: list[Config]) -> None:
        if self.best.steps >= self.steps:
            self.best.exact = False
            return
        self.best.steps += 1
        number = len(chosen)
        if number == len(self.configs):
            simulation = Simulation(self.problem, tuple(chosen))
            rank = score(simulation, self.goal)
            if rank < self.best.score:
                self.best.plan, self.best.simulation = tuple(chosen), simulation
                self.best.score = rank
            return
        ranked = []
        for place, config in enumerate(self.configs[number]):
            bound = self.bound([*chosen, config])
            if bound < self.best.score.goal or self.best.score.excess_bytes:
                ranked.append((bound, place, config))
        for bound, _, config in sorted(ranked, key=lambda entry: entry[:2]):
            if bound < self.best.score.goal or self.best.score.excess_bytes:
                self.descend([*chosen, config])

    def bound(self, chosen: list[Config]) -> float:
        """Return what no plan that begins so can go below."""
        if self.goal == "memory":
            return 0.0
        problem, plan = self.problem, tuple(chosen)
        # As the goal counts it: where requests follow each other, messages take turns.
        delays = float(self.goal == "throughput" and not problem.has_stages)

        def work(task: Task) -> float:
            return task.seconds + delays * task.delay

        end: dict[tuple[int, ...], float] = {}
        busy: dict[int, float] = {}
        last = [0.0] * len(chosen)
        decided = len(chosen)
        for number in range(decided):
            reads = problem.workload.operators[number].reads
            for value in dict.fromkeys(value for _, value in reads):
                if value in problem.sent and self._first_reader(value) == number:
                    for task in value_tasks(problem, plan, value, decided):
                        end[task.key] = (
                            max((end[k] for k in task.after), default=0.0)
                            + task.seconds
                            + task.delay
                        )
                        busy[task.resource] = busy.get(task.resource, 0.0) + work(task)
            for task in operator_tasks(problem, plan, number):
                begin = max((end[key] for key in task.after), default=0.0)
                end[task.key] = begin + task.seconds + task.delay
                busy[task.resource] = busy.get(task.resource, 0.0) + work(task)
                last[number] = max(last[number], end[task.key])
        most = max(busy.values(), default=0.0)
        if self.goal == "throughput":
            return most
        path = max((end_s + self.rest[n] for n, end_s in enumerate(last)), default=0.0)
        return max(most, path)

    def _first_reader(self, value: int) -> int:
        return min(number for number, _ in self.problem.consumers[value])
