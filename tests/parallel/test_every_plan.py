"""The search against the best of all plans; and what says that, against a list of all of them."""

import itertools
import math

import pytest
from tensolog.parallel.search.goals import score
from tensolog.parallel.simulation.simulator import Simulation

from .every_plan import best_of_every_plan, compare, drawn_problem


@pytest.mark.parametrize("goal", ["latency", "throughput"])
@pytest.mark.parametrize(("operators", "devices"), [(3, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_of_a_list_of_all_plans(goal, operators, devices, seed):
    every = drawn_problem(seed, operators, devices)
    configs = [every.all_configs(number) for number in range(operators)]
    listed = itertools.product(*configs)
    least = min(score(Simulation(every.problem, plan), goal).goal for plan in listed)
    best = best_of_every_plan(every.problem, configs, goal)
    assert best.is_known and best.seconds == pytest.approx(least)
    assert best_of_every_plan(every.problem, configs, goal, below=least).plan is None


@pytest.mark.parametrize("goal", ["latency", "throughput"])
@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_of_all_plans(goal, seed):
    """Of eight operators on four devices; the campaign is the command of every_plan.py.

    Where the best of all isn't known after so few steps, the best of these is not far ahead.
    """
    chosen_plan, configs, best = compare(seed, 8, 4, goal, steps=3_000)
    assert math.prod(map(len, configs)) > 1e10
    if best.is_known:
        assert best.plan is None
    assert chosen_plan.score.goal <= 1.2 * best.seconds
