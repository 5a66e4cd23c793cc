"""The simulator: against arithmetic by hand, and a change against a simulation from scratch."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.partitioner import part
from tensolog.parallel.simulation.placement import Config, whole_on
from tensolog.parallel.simulation.simulator import Simulation, schedule, weight_bytes
from tensolog.parallel.simulation.stages import stages_of
from tensolog.parallel.simulation.tasks import COMPUTE, JOIN, MOVE, Problem, Task, plan_tasks
from tensolog.parallel.simulation.times import Calibration, Times
from tensolog.parallel.workload import read_workload

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


def drawn_space(draw, devices, **times):
    """Divisions of a random graph over devices that run operators one by one, or stages."""
    return space(random_graph(draw, 5), cluster(devices, stage_us=20.0 * draw(2)), **times)


@given(st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(120), deadline=None)
def test_a_change_is_simulated_as_from_scratch(seed, devices):
    draw = random.Random(seed).randrange
    space_ = drawn_space(draw, devices, entry=draw(devices) if draw(2) else None)
    here = Simulation(space_.problem, random_plan(draw, space_))
    for _ in range(4):
        number = draw(len(space_.cuts))
        configs = space_.all_configs(number)
        plan = list(here.plan)
        plan[number] = configs[draw(len(configs))]
        here = here.changed(tuple(plan))
        full = Simulation(space_.problem, tuple(plan))
        assert here.schedule.tasks == full.schedule.tasks
        assert here.schedule.order == full.schedule.order
        assert here.schedule.end == full.schedule.end
        assert here.latency_s == full.latency_s
        assert here.requests_per_s() == full.requests_per_s()
        assert here.memory_bytes() == full.memory_bytes()


@given(st.integers(0, 10**9), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_a_schedule_is_possible(seed, devices):
    draw = random.Random(seed).randrange
    space_ = drawn_space(draw, devices)
    here = Simulation(space_.problem, random_plan(draw, space_))
    times = here.schedule
    assert set(times.end) == set(times.tasks)
    by_resource = {}
    for key, task in times.tasks.items():
        before = max((times.end[predecessor] for predecessor in task.after), default=0.0)
        assert times.begin[key] >= before - 1e-15
        free = times.begin[key] + task.seconds
        assert times.end[key] == free + task.delay
        by_resource.setdefault(task.resource, []).append((times.begin[key], free))
    for own_times in by_resource.values():
        for (_, end), (begin, _) in zip(sorted(own_times), sorted(own_times)[1:], strict=False):
            assert begin >= end - 1e-15
    computing = [here.busy().get(n, 0.0) for n in range(devices)]
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
    problem_ = problem(perceptron(rows=64, width=512, layers=2), cluster(2))
    plan = (whole_on(0), whole_on(0), whole_on(1), whole_on(1))
    flops, bytes_ = 2 * 64 * 512 * 512, 4 * (2 * 64 * 512 + 512 * 512)
    product = max(flops / 1e13, bytes_ / 2e11) + 1e-6
    relu = 4 * 2 * 64 * 512 / 2e11 + 1e-6
    moved = 5e-6 + 4 * 64 * 512 / 1e11
    here = Simulation(problem_, plan)
    assert here.latency_s == pytest.approx(2 * product + 2 * relu + moved)
    assert here.bottleneck_s == pytest.approx(product + relu)
    assert weight_bytes(problem_, plan) == {0: 4 * 512 * 512, 1: 4 * 512 * 512}
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
    space_ = space(perceptron(rows=64, width=512, layers=1), 2)
    (cut,) = (cut for cut in space_.cuts[0] if cut.combine == "sum")
    plan = (Config(((cut, 2),), (0, 1)), Config((), (0, 1)))
    kinds = [key[1] for key in plan_tasks(space_.problem, plan)]
    # Two parts; half of each is sent to the other, and added there; then both want all of it.
    assert [kinds.count(kind) for kind in range(4)] == [2 + 2, 2, 2, 2]


def test_pieces_are_joined_by_a_copy():
    """Halves of rows that two devices computed: who reads all of them joins them first."""
    space_ = space(perceptron(rows=64, width=64, layers=1), 2)
    rows = space_.data_parallel((0, 1))
    here = Simulation(space_.problem, (rows[0], whole_on(0)))
    (join,) = (task for key, task in here.schedule.tasks.items() if key[1] == JOIN)
    assert join.resource == 0
    assert join.seconds == pytest.approx(2 * 4 * 64 * 64 / 2e11 + 1e-6)
    (relu,) = (task for key, task in here.schedule.tasks.items() if key[:2] == (1, COMPUTE))
    assert here.schedule.begin[relu.key] == here.schedule.end[join.key]
    assert not any(key[1] == JOIN for key in Simulation(space_.problem, rows).schedule.tasks)


def test_entry_brings_inputs_and_takes_outputs():
    model = perceptron(rows=64, width=512, layers=1)
    away = (whole_on(1), whole_on(1))
    here = Simulation(problem(model, cluster(2), entry=0), away).latency_s
    there = Simulation(problem(model, cluster(2), entry=1), away).latency_s
    assert here == pytest.approx(there + 2 * (5e-6 + 4 * 64 * 512 / 1e11))


def test_a_pipeline_takes_as_many_requests_as_its_slowest_stage():
    problem_ = problem(transformer(2), cluster(2, launch_us=50.0))
    count = len(problem_.workload.operators)
    halves = tuple(whole_on(n * 2 // count) for n in range(count))
    here = Simulation(problem_, halves)
    assert here.requests_per_s(16) == pytest.approx(1 / here.bottleneck_s, rel=0.02)
    assert here.requests_per_s(16) > 1.8 / here.latency_s


def test_a_stage_takes_time_and_hands_over_at_its_end():
    """Two of four operators on each device: the second one waits for all of the first stage."""
    model = perceptron(rows=64, width=512, layers=2)
    plan = (whole_on(0), whole_on(0), whole_on(1), whole_on(1))
    plain, staged_ = (Simulation(problem(model, cluster(2, stage_us=us)), plan) for us in (0, 30))
    assert staged_.latency_s == pytest.approx(plain.latency_s + 60e-6)
    assert staged_.bottleneck_s == pytest.approx(plain.bottleneck_s + 30e-6)
    # As many requests as the engine lets are under way: the devices are busy all the time.
    assert staged_.requests_per_s(32) == pytest.approx(1 / staged_.bottleneck_s, rel=0.02)


def test_an_operator_of_a_stage_keeps_others_waiting():
    """x gives a, and a gives b and c: the other device gets a and b at the end of both."""
    build = Builder()
    x = build.input(64, 64)
    a = build.node("Relu", x, shape=(64, 64))
    b = build.node("Abs", a, shape=(64, 64))
    c = build.node("Add", a, b, shape=(64, 64))
    problem_ = problem(build.model(c), cluster(2, stage_us=10.0))
    here = Simulation(problem_, tuple(map(whole_on, (0, 0, 1)))).schedule
    moves = [key for key in here.tasks if key[1] == MOVE]
    assert len(moves) == 2
    end = max(here.end[key] for key in here.tasks if key[1] == COMPUTE and key[0] < 2)
    assert all(here.begin[key] >= end for key in moves)


@pytest.mark.parametrize("seed", range(20))
def test_stages_are_those_that_run(seed):
    """Of plans without cuts the partitioner writes as many models as stages are simulated."""
    draw = random.Random(seed).randrange
    problem_ = problem(random_graph(draw, 6), cluster(3, stage_us=10.0))
    plan = tuple(whole_on(draw(3)) for _ in problem_.workload.operators)
    stages = stages_of(problem_, plan_tasks(problem_, plan))
    assert len(stages.members) == len(part(problem_, plan).partition.stages)


def test_devices_of_a_node_slow_each_other_down_while_both_compute():
    model = perceptron(rows=64, width=512, layers=2)
    space_ = space(model, cluster(2, stage_us=1.0))
    calibration = Calibration(2.0, (), 1e-10)
    times = Times(space_.problem.cluster, None, calibration)
    calibrated = Problem(space_.problem.workload, space_.problem.cluster, times)
    weights = 2 * 4 * 512 * 512
    pipeline = tuple(map(whole_on, (0, 0, 1, 1)))
    moved = 5e-6 + 4 * 64 * 512 / 1e11
    assert Simulation(calibrated, pipeline).latency_s == pytest.approx(
        2 * Simulation(space_.problem, pipeline).latency_s - moved - 2e-6
    )
    assert Simulation(calibrated, pipeline).bottleneck_s == pytest.approx(
        2 * Simulation(space_.problem, pipeline).bottleneck_s - 1e-6 + weights / 2 * 1e-10
    )
    # Both halves of the rows read all weights, at the same time.
    rows = space_.data_parallel((0, 1))
    assert Simulation(calibrated, rows).latency_s == pytest.approx(
        2 * Simulation(space_.problem, rows).latency_s - 1e-6 + weights * 1e-10
    )


def test_copies_of_weights_that_caches_can_t_hold_take_longer():
    """Two products share weights: in stages of their own each reads a copy."""
    build = Builder()
    x, w = build.input(4, 16), build.weight(16, 16)
    for _ in range(3):
        x = build.node("MatMul", x, w, shape=(4, 16))
    model, size = build.model(x), 16 * 16 * 4
    devices = cluster(2, stage_us=1)
    plain = Problem(read_workload(model), devices, Times(devices))
    copies = ((float(size), 0.0), (2.0 * size, 0.0), (4.0 * size, 2e-9))
    times = Times(devices, None, Calibration(1.0, (), 0.0, copies))
    charged = Problem(read_workload(model), devices, times)
    for placed, more in (((0, 0, 0), 0.0), ((0, 1, 1), 0.0), ((0, 1, 0), 3 * size * 1e-9)):
        plan = tuple(whole_on(device) for device in placed)
        latencies = [Simulation(problem, plan).latency_s for problem in (plain, charged)]
        assert latencies[1] - latencies[0] == pytest.approx(more)
    changed = Simulation(charged, tuple(map(whole_on, (0, 0, 0)))).changed(plan)
    assert changed.latency_s == Simulation(charged, plan).latency_s
