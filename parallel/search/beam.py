"""Plans by beam search: operators are divided one after the other, where each ends soonest.

Of what is decided the schedule is known nearly, as if operators were begun in their order; what is
behind it takes at least its longest path. So operators come to lie side by side on several devices,
which sums of times (dynamic_programming.py) know nothing of: heuristics that schedule lists do so,
with a beam of one (HEFT; Topcuoglu, Hariri and Wu, IEEE TPDS 13, 2002, where operators are whole).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..simulation.placement import Config
from ..simulation.simulator import Simulation
from ..simulation.tasks import Key, Problem, Task, input_tasks, operator_tasks
from .branch_and_bound import shortest_rests
from .goals import Goal, Score, score

# Divisions of operators that are looked at in all, and the widest beam.
_MOST_STEPS, _WIDEST = 12_000, 24


@dataclass
class _State:
    """The first operators, divided: when their tasks end, and each resource is free again."""

    plan: tuple[Config, ...]
    ends: dict[Key, float]
    free: dict[int, float]
    path_s: float  # of the whole model, through what is decided
    rank: tuple[float, float] = (0.0, 0.0)


def beam(
    problem: Problem, configs: Sequence[Sequence[Config]], goal: Goal
) -> tuple[Simulation, Score] | None:
    """Return the best plan of the last beam; None where even a beam of one takes too many steps."""
    width = min(_WIDEST, _MOST_STEPS // max(1, sum(map(len, configs))))
    if width < 1 or goal == "memory":
        return None
    rests = shortest_rests(problem, configs)
    known: dict[tuple[object, ...], list[Task]] = {}
    states = [_State((), {}, {}, 0.0)]
    for number, options in enumerate(configs):
        following = [
            _following(problem, state, config, known, rests[number], goal)
            for state in states
            for config in options
        ]
        following.sort(key=lambda state: state.rank)
        # Equal ranks, most often, are of the same plan on other devices.
        distinct = {state.rank: state for state in reversed(following)}
        states = sorted(distinct.values(), key=lambda state: state.rank)[:width]
    ranked = [
        (score(simulation, goal), simulation)
        for simulation in (Simulation(problem, state.plan) for state in states)
    ]
    rank, best = min(ranked, key=lambda pair: pair[0].key)
    return best, rank


def _following(
    problem: Problem,
    state: _State,
    config: Config,
    known: dict[tuple[object, ...], list[Task]],
    rest_s: float,
    goal: Goal,
) -> _State:
    """Divide one more operator."""
    number, plan = len(state.plan), (*state.plan, config)
    reads = problem.workload.operators[number].reads
    makers = [problem.producer[value][0] for _, value in reads if value in problem.producer]
    key = (number, config, *(plan[maker] for maker in makers))
    if key not in known:
        known[key] = [*input_tasks(problem, plan, number), *operator_tasks(problem, plan, number)]
    ends, free, path_s, spent_s = dict(state.ends), dict(state.free), state.path_s, 0.0
    delays = float(goal == "throughput" and not problem.has_stages)
    for task in known[key]:
        if task.key in ends:
            continue
        if goal == "throughput":
            end = free.get(task.resource, 0.0) + task.seconds + delays * task.delay
            free[task.resource] = ends[task.key] = end
            continue
        ready = max((ends[before] for before in task.after), default=0.0)
        begin = max(ready, free.get(task.resource, 0.0))
        free[task.resource] = begin + task.seconds
        ends[task.key] = begin + task.seconds + task.delay
        spent_s = max(spent_s, ends[task.key])
    following = _State(plan, ends, free, max(path_s, spent_s + rest_s))
    whole_s = max(free.values(), default=0.0) if goal == "throughput" else following.path_s
    following.rank = whole_s, sum(free.values())
    return following
