"""The simulator: against arithmetic by hand, and a change against a simulation from scratch."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.simulation.placement import Config, whole_on
from tensolog.parallel.simulation.simulator import Simulation, schedule, weight_bytes
from tensolog.parallel.simulation.tasks import COMPUTE, JOIN, MOVE, Task, plan_tasks

from ..campaigns import examples
from .models import (
    Builder,
    cluster,
    perceptron,
    problem,
    random_graph,
    random_plan,
    space,
    transformer,
)


@given(st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(120), deadline=None)
def test_a_change_is_simulated_as_from_scratch(seed, devices):
    draw = random.Random(seed).randrange
    own = space(random_graph(draw, 5), devices, entry=draw(devices) if draw(2) else None)
    here = Simulation(own.problem, random_plan(draw, own))
    for _ in range(4):
        number = draw(len(own.cuts))
        configs = own.all_configs(number)
        plan = list(here.plan)
        plan[number] = configs[draw(len(configs))]
        here = here.changed(tuple(plan))
        full = Simulation(own.problem, tuple(plan))
        assert here.schedule.tasks == full.schedule.tasks
        assert here.schedule.order == full.schedule.order
        assert here.schedule.end == full.schedule.end
        assert here.memory_bytes() == full.memory_bytes()


@given(st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_a_schedule_is_possible(seed, devices):
    draw = random.Random(seed).randrange
    own = space(random_graph(draw, 5), devices)
    here = Simulation(own.problem, random_plan(draw, own))
    times = here.schedule
    assert set(times.end) == set(times.tasks)
    by_resource = {}
    for key, task in times.tasks.items():
        assert times.begin[key] >= max((times.end[one] for one in task.after), default=0.0)
        free = times.begin[key] + task.seconds
        assert times.end[key] == free + task.delay
        by_resource.setdefault(task.resource, []).append((times.begin[key], free))
    for own_times in by_resource.values():
        for (_, end), (begin, _) in zip(sorted(own_times), sorted(own_times)[1:], strict=False):
            assert begin >= end
    computing = [here.schedule.busy().get(n, 0.0) for n in range(devices)]
    assert here.latency_s >= max(computing) * (1 - 1e-9)
    assert 1 / here.requests_per_s() >= here.bottleneck_s * (1 - 1e-9)


def test_first_in_first_out():
    """The second task is ready later, and waits though its key is the smaller one."""
    tasks = [
        Task((3,), 1, 1.0, ()),
        Task((2,), 0, 5.0, ()),
        Task((1,), 0, 1.0, ((3,),)),
        Task((0,), 0, 1.0, ((1,), (2,))),
    ]
    times = schedule({task.key: task for task in tasks})
    assert times.end == {(3,): 1.0, (2,): 5.0, (1,): 6.0, (0,): 7.0}


def test_times_of_two_devices_by_hand():
    """One product on the first device, its result sent, and a second on the other."""
    own = problem(perceptron(rows=64, width=512, layers=2), cluster(2))
    plan = (whole_on(0), whole_on(0), whole_on(1), whole_on(1))
    flops, bytes_ = 2 * 64 * 512 * 512, 4 * (2 * 64 * 512 + 512 * 512)
    product = max(flops / 1e13, bytes_ / 2e11) + 1e-6
    relu = 4 * 2 * 64 * 512 / 2e11 + 1e-6
    moved = 5e-6 + 4 * 64 * 512 / 1e11
    here = Simulation(own, plan)
    assert here.latency_s == pytest.approx(2 * product + 2 * relu + moved)
    assert here.bottleneck_s == pytest.approx(product + relu)
    assert weight_bytes(own, plan) == {0: 4 * 512 * 512, 1: 4 * 512 * 512}
    # Product, activation and what is sent are there at once; then the first is done with.
    activation = 4 * 64 * 512
    assert here.memory_bytes() == {
        0: 4 * 512 * 512 + 2 * activation,
        1: 4 * 512 * 512 + 2 * activation,
    }


def test_latencies_overlap_and_bytes_do_not():
    """Two tensors over one wire: the second need not wait until the first has arrived."""
    build = Builder()
    x = build.input(64, 64)
    left, right = build.node("Relu", x, shape=(64, 64)), build.node("Neg", x, shape=(64, 64))
    model = build.model(build.node("Add", left, right, shape=(64, 64)))
    here = Simulation(problem(model, cluster(2)), tuple(map(whole_on, (0, 0, 1)))).schedule
    size_s, relu = 4 * 64 * 64 / 1e11, 4 * 2 * 64 * 64 / 2e11 + 1e-6
    first, second = sorted(end for key, end in here.end.items() if key[1] == MOVE)
    assert first == pytest.approx(relu + size_s + 5e-6)
    assert second == pytest.approx(2 * relu + size_s + 5e-6)


def test_a_sum_is_divided_among_those_that_computed_it():
    own = space(perceptron(rows=64, width=512, layers=1), 2)
    (cut,) = (cut for cut in own.cuts[0] if cut.combine == "sum")
    plan = (Config(((cut, 2),), (0, 1)), Config((), (0, 1)))
    kinds = [key[1] for key in plan_tasks(own.problem, plan)]
    # Two parts; half of each is sent to the other, and added there; then both want all of it.
    assert [kinds.count(kind) for kind in range(4)] == [2 + 2, 2, 2, 2]


def test_pieces_are_joined_by_a_copy():
    """Halves of rows that two devices computed: who reads all of them joins them first."""
    own = space(perceptron(rows=64, width=64, layers=1), 2)
    rows = own.data_parallel((0, 1))
    here = Simulation(own.problem, (rows[0], whole_on(0)))
    (join,) = (task for key, task in here.schedule.tasks.items() if key[1] == JOIN)
    assert join.resource == 0
    assert join.seconds == pytest.approx(2 * 4 * 64 * 64 / 2e11 + 1e-6)
    (relu,) = (task for key, task in here.schedule.tasks.items() if key[:2] == (1, COMPUTE))
    assert here.schedule.begin[relu.key] == here.schedule.end[join.key]
    assert not any(key[1] == JOIN for key in Simulation(own.problem, rows).schedule.tasks)


def test_entry_brings_inputs_and_takes_outputs():
    model = perceptron(rows=64, width=512, layers=1)
    away = (whole_on(1), whole_on(1))
    here = Simulation(problem(model, cluster(2), entry=0), away).latency_s
    there = Simulation(problem(model, cluster(2), entry=1), away).latency_s
    assert here == pytest.approx(there + 2 * (5e-6 + 4 * 64 * 512 / 1e11))


def test_a_pipeline_takes_as_many_requests_as_its_slowest_stage():
    own = problem(transformer(2), cluster(2, launch_us=50.0))
    count = len(own.workload.operators)
    halves = tuple(whole_on(n * 2 // count) for n in range(count))
    here = Simulation(own, halves)
    assert here.requests_per_s(16) == pytest.approx(1 / here.bottleneck_s, rel=0.02)
    assert here.requests_per_s(16) > 1.8 / here.latency_s
