"""The search: against all plans on small graphs, and what experts do by hand on large ones."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.planning import plan
from tensolog.parallel.search.branch_and_bound import best_of_all
from tensolog.parallel.search.bucket_elimination import eliminate
from tensolog.parallel.search.dynamic_programming import AdditiveCosts, best_plan
from tensolog.parallel.search.goals import PlanError, score
from tensolog.parallel.search.pipelines import divide_evenly
from tensolog.parallel.simulation.simulator import Simulation

from ..campaigns import examples
from .models import Builder, cluster, perceptron, random_graph, space, transformer


def all_plans(space_):
    return itertools.product(*(space_.all_configs(number) for number in range(len(space_.cuts))))


@pytest.mark.parametrize("goal", ["latency", "throughput", "memory"])
@pytest.mark.parametrize(("nodes", "count"), [(3, 2), (2, 3)])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_all_plans_of_small_graphs(goal, nodes, count, seed):
    draw = random.Random(seed).randrange
    devices = cluster(count, gb_per_s=[0.5, 5, 50][draw(3)], latency_us=draw(4), launch_us=draw(3))
    model = random_graph(draw, nodes)
    space_ = space(model, devices)
    best = min(score(Simulation(space_.problem, plan), goal) for plan in all_plans(space_))
    chosen_plan = plan(model, devices, goal=goal, prove=False)
    assert chosen_plan.score.goal <= best.goal * (1 + 1e-9)
    if len(chosen_plan.instances) == 1:
        assert chosen_plan.score.goal == pytest.approx(best.goal)


@pytest.mark.parametrize("goal", ["latency", "throughput"])
@pytest.mark.parametrize("seed", range(6))
def test_eight_operators_on_four_devices_with_some_divisions_of_each(goal, seed):
    """All divisions of all are 10^13 plans: those of three drawn for each are looked through."""
    source = random.Random(seed)
    devices = cluster(4, gb_per_s=[0.5, 5, 50][seed % 3], latency_us=seed % 4, launch_us=seed % 2)
    space_ = space(random_graph(source.randrange, 8), devices)
    every = [space_.all_configs(number) for number in range(len(space_.cuts))]
    drawn = [source.sample(configs, min(3, len(configs))) for configs in every]
    start = Simulation(space_.problem, tuple(drawn_configs[0] for drawn_configs in drawn))
    best, run = math.inf, start
    for combination in itertools.product(*drawn):
        run = run.changed(combination)
        best = min(best, score(run, goal).goal)
    chosen_plan = best_of_all(space_.problem, drawn, goal, start, steps=10**6)
    assert chosen_plan.exact and chosen_plan.score.goal == pytest.approx(best)


@given(st.integers(0, 10**9))
@settings(max_examples=examples(60), deadline=None)
def test_the_least_sum_by_elimination(seed):
    draw = random.Random(seed).randrange
    space_ = space(random_graph(draw, 3), 2)
    costs = AdditiveCosts(space_.problem)
    configs = [space_.all_configs(number)[: 2 + draw(4)] for number in range(len(space_.cuts))]

    def total(chosen):
        whole = sum(costs.operator(n, config) for n, config in enumerate(chosen))
        for value in space_.problem.moving:
            if value in space_.problem.producer:
                source = space_.problem.producer[value]
                for target in space_.problem.consumers.get(value, ()):
                    whole += costs.edge(value, source, chosen[source[0]], target, chosen[target[0]])
        return whole

    least = min(map(total, itertools.product(*configs)))
    assert total(best_plan(space_.problem, configs, costs)) == pytest.approx(least)


@given(st.integers(0, 10**9), st.sampled_from([1, 30, 10**6]))
@settings(max_examples=examples(80), deadline=None)
def test_sums_by_narrow_tables(seed, most_entries):
    """Exact where tables may be as large as need be; else what is chosen is above the bound."""
    draw = random.Random(seed).randrange
    sizes = {v: 1 + draw(3) for v in range(2 + draw(5))}
    factors = []
    for _ in range(draw(12)):
        scope = tuple(
            random.Random(draw(10**9)).sample(sorted(sizes), min(len(sizes), 1 + draw(3)))
        )
        cells = [draw(100) for _ in range(math.prod(sizes[v] for v in scope))]
        factors.append((scope, np.array(cells, float).reshape([sizes[v] for v in scope])))

    def cost(values):
        return sum(float(table[tuple(values[v] for v in scope)]) for scope, table in factors)

    every = itertools.product(*(range(size) for size in sizes.values()))
    least = min(cost(dict(zip(sizes, values, strict=True))) for values in every)
    solution = eliminate(factors, sizes, most_entries)
    assert solution.bound <= least <= solution.cost == cost(solution.values)
    if most_entries > 1000:
        assert solution.bound == solution.cost


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.integers(1, 4))
def test_stages_are_as_even_as_can_be(weights, parts):
    stages = divide_evenly(weights, parts)
    assert stages == sorted(stages) and max(stages) < parts

    def worst(ends):
        edges = [0, *ends, len(weights)]
        return max(sum(weights[a:b]) for a, b in itertools.pairwise(edges))

    ways = itertools.combinations_with_replacement(range(len(weights) + 1), parts - 1)
    sums = [0.0] * parts
    for weight, stage in zip(weights, stages, strict=True):
        sums[stage] += weight
    assert max(sums) == pytest.approx(min(worst(ends) for ends in ways))


def kinds(chosen_plan, *names):
    """The kinds of cuts of the operators of these types, in order."""
    operators = chosen_plan.problem.workload.operators
    return [
        [cut.kind for cut, _ in config.cuts]
        for operator, config in zip(operators, chosen_plan.instances[0].plan, strict=True)
        if operator.kernel.op_type in names and operator.kernel.constant_bytes
    ]


def test_megatrons_cut_of_a_transformer_block():
    """Large weights for few tokens, and slow links: columns, then rows, and one sum behind."""
    model = transformer(1, tokens=16, width=256, heads=16, inner=8192, data=False)
    chosen_plan = plan(model, cluster(4, latency_us=0.1, gb_per_s=20, launch_us=0.1), prove=False)
    *attention, first, second = kinds(chosen_plan, "MatMul")
    assert [first, second] == [["parameter"], ["reduction"]]
    assert attention[:3] == [["parameter"]] * 3


def alexnet():
    """Convolutions with few weights and large images, then dense layers of the opposite."""
    build = Builder()
    x = build.input(32, 16, 24, 24)
    for channels in (32, 32):
        w = build.weight(channels, build.shapes[x][1], 3, 3, data=False)
        shape = (32, channels, 24, 24)
        x = build.node("Conv", x, w, shape=shape, pads=[1, 1, 1, 1])
        x = build.node("Relu", x, shape=shape)
    flat = 32 * 24 * 24
    x = build.node("Reshape", x, build.ints(32, flat), shape=(32, flat))
    for columns in (4096, 4096, 1000):
        w = build.weight(build.shapes[x][1], columns, data=False)
        x = build.node("Gemm", x, w, shape=(32, columns))
    return build.model(x)


def test_one_weird_trick_for_alexnet():
    chosen_plan = plan(alexnet(), cluster(4, latency_us=1, gb_per_s=60), prove=False)
    assert kinds(chosen_plan, "Conv") == [["sample"], ["sample"]]
    assert all(kind[0] in ("parameter", "reduction") for kind in kinds(chosen_plan, "Gemm"))


@pytest.mark.parametrize("goal", ["latency", "throughput"])
@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_worse_than_the_usual_ones(goal, seed):
    draw = random.Random(seed).randrange
    devices = cluster(1 + draw(6), gb_per_s=[0.1, 1, 10, 100][draw(4)], launch_us=draw(5))
    space_ = space(random_graph(draw, 6), devices)
    chosen_plan = plan(space_.problem.workload, devices, goal=goal, prove=False)
    everything = tuple(range(len(devices.devices)))
    for usual in (everything, (0,)):
        other = score(Simulation(space_.problem, space_.data_parallel(usual)), goal)
        assert chosen_plan.score.goal <= other.goal * (1 + 1e-9)


def test_equal_inputs_give_equal_plans():
    model = transformer(1)
    first, second = (plan(model, cluster(3), prove=False, seed=3) for _ in range(2))
    assert first.instances == second.instances


def test_what_does_not_fit_names_the_number_of_devices_that_would_do():
    model = perceptron(rows=1, width=1024, layers=6, data=False)  # 6 times 4 MiB
    small = cluster(2, gib=9 / 1024)
    with pytest.raises(PlanError, match="does not fit on the 2 devices of alike") as error:
        plan(model, small, prove=False)
    assert "; 3 devices like d0 would do" in str(error.value)
    assert max(plan(model, cluster(3, gib=9 / 1024), prove=False).memory_bytes.values()) <= 9 << 20


def test_devices_that_are_not_linked_are_told_so():
    """As many as there are would do."""
    model = perceptron(rows=1, width=1024, layers=6, data=False)
    unlinked = replace(cluster(3, gib=9 / 1024), links=())
    with pytest.raises(PlanError, match=r"3 devices like d0 .* no link leads from d0 to d1"):
        plan(model, unlinked, prove=False)


def test_an_operator_larger_than_any_device():
    model = perceptron(rows=1, width=1024, layers=1, data=False)
    with pytest.raises(PlanError, match=r"take larger ones|would do"):
        plan(model, cluster(1, gib=1 / 1024), prove=False)


def test_memory_is_the_goal():
    model = perceptron(rows=1, width=1024, layers=4, data=False)
    chosen_plan = plan(model, cluster(4), goal="memory", prove=False)
    assert max(chosen_plan.memory_bytes.values()) < 5 << 20


def test_unknown_goals_are_told():
    with pytest.raises(PlanError, match="one of latency, throughput, memory"):
        plan(perceptron(), cluster(1), goal="speed")


def test_a_cut_that_is_not_proved_is_not_used(monkeypatch):
    """The gate refuses all sums here: the plan that is the best with them has to do without."""
    from tensolog.parallel import planning
    from tensolog.parallel.cuts.cut_rules import Admitted, rule_of

    def admit(wanted, catalog):
        rules = [
            rule_of(*wanted_pair) for wanted_pair in wanted if wanted_pair[1].combine == "concat"
        ]
        return Admitted({rule.hash: rule for rule in rules})

    monkeypatch.setattr(planning, "admit", admit)
    model = transformer(1, tokens=16, width=256, heads=16, inner=8192, data=False)
    devices = cluster(4, latency_us=0.1, gb_per_s=20, launch_us=0.1)
    best = plan(model, devices, prove=False)
    chosen_plan = plan(model, devices)
    assert any("reduction" in kind for kind in kinds(best, "MatMul"))
    assert not any("reduction" in kind for kind in kinds(chosen_plan, "MatMul"))
    assert (
        best.score.goal
        < chosen_plan.score.goal
        <= min(
            score
            for name, score in chosen_plan.compared.items()
            if "data" in name or name == "one device"
        )
    )


@pytest.mark.parametrize("entry", [None, "d1"])
def test_devices_without_links_have_instances_of_their_own(entry):
    from tensolog.parallel.devices import Cluster

    unlinked = Cluster("apart", cluster(2).devices)
    chosen_plan = plan(perceptron(), unlinked, goal="throughput", entry=entry, prove=False)
    assert [instance.plan[0].devices for instance in chosen_plan.instances] == (
        [(0,), (1,)] if not entry else [(1,)]
    )
    assert len(plan(perceptron(), unlinked, entry=entry, prove=False).instances) == 1
