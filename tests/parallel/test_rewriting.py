"""Programs and their cuts chosen together: against all programs with all of their plans."""

import functools
import itertools
import random

import numpy as np
import pytest
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.matcher import Matcher
from tensolog.optimizer.match.rewrite import RewriteError, apply_match
from tensolog.parallel.cuts.operator_cuts import cuts_of
from tensolog.parallel.materialization import materialize
from tensolog.parallel.partitioner import part
from tensolog.parallel.planning import plan
from tensolog.parallel.rewriting.division import best_program
from tensolog.parallel.rewriting.joint import AS_IT_IS, rules_for
from tensolog.parallel.rewriting.programs import programs_of
from tensolog.parallel.search.config_space import Space
from tensolog.parallel.search.dynamic_programming import AdditiveCosts
from tensolog.parallel.search.goals import PlanError, score
from tensolog.parallel.simulation.simulator import Simulation
from tensolog.parallel.simulation.tasks import Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.workload import read_workload

from .models import Builder, cluster, random_graph, space
from .test_materialized import inputs_of, run

REORDER = "ReorderMatMulsToRight"


def narrow_product(inner, width=2048):
    """One row times two constant matrices, `inner` between them, and Relu behind."""
    build = Builder()
    x = build.input(1, width)
    y = build.node("MatMul", x, build.weight(width, inner), shape=(1, inner))
    z = build.node("MatMul", y, build.weight(inner, width), shape=(1, width))
    return build.model(build.node("Relu", z, shape=(1, width)))


@functools.cache
def shipped():
    """The proved rules that may be applied to these models."""
    return tuple(rules_for(read_workload(narrow_product(2, 4))))


def test_a_rewrite_that_pays_only_where_it_is_cut():
    """Two narrow products take less time than a wide one, but only the latter halves well.

    Cut as they are, half of what the first one gives has to be sent before the second begins.
    """
    model, devices = narrow_product(1000), cluster(2, latency_us=10, gb_per_s=5)
    chosen_plan = plan(model, devices, rewrite=True, prove=False)
    assert chosen_plan.exact
    (step,) = chosen_plan.rewriting.because_of_cut
    assert chosen_plan.rewriting.steps == (step,) and step.rule == REORDER
    # Rewritten first: on one device the model is best as it is. Then cut:
    alone = plan(model, cluster(1), rewrite=True, prove=False)
    assert alone.exact and not alone.rewriting.steps
    cut = plan(model, devices, prove=False)
    assert cut.exact and chosen_plan.latency_s < 0.85 * cut.latency_s
    assert chosen_plan.rewriting.compared[AS_IT_IS] == cut.latency_s
    # Cut first, then rewritten: no rule makes what a device computes any faster.
    for stage in part(cut.problem, cut.instances[0].plan).models.values():
        assert not plan(stage, cluster(1), rewrite=True, prove=False).rewriting.steps
    text = chosen_plan.text()
    assert f"{REORDER} rewrote n0, n1, because of the cut" in text
    assert "on one device what is divided takes 1.0" in text


def test_a_rewrite_that_pays_anyway_is_not_said_to_be_of_the_cut():
    model, devices = narrow_product(1500), cluster(2, latency_us=50, gb_per_s=5)
    chosen_plan = plan(model, devices, rewrite=True, prove=False)
    assert [step.rule for step in chosen_plan.rewriting.steps] == [REORDER]
    assert not chosen_plan.rewriting.because_of_cut
    assert "because" not in chosen_plan.text()


def test_a_rewrite_does_not_pay_where_its_cut_is_not_proved(monkeypatch):
    from tensolog.parallel import planning
    from tensolog.parallel.cuts.cut_rules import Admitted

    asked = []

    def admit(wanted, catalog):
        asked.extend(wanted)
        return Admitted({})

    monkeypatch.setattr(planning, "admit", admit)
    chosen_plan = plan(narrow_product(900), cluster(2, latency_us=50, gb_per_s=5), rewrite=True)
    assert asked and not chosen_plan.rewriting.steps
    assert not any(config.cuts for config in chosen_plan.instances[0].plan)


# ---- brute force


def programs_by_hand(model, most=40):
    """All programs that rules lead to, one match after the other in a graph, at most so many."""
    graph = load_graph(model)
    graph.types = infer_types(graph)
    matcher = Matcher(shipped())
    programs, queue = {}, [graph]
    while queue and len(programs) < most:
        here = queue.pop(0)
        written = to_model(here)
        key = _form(written)
        if key in programs:
            continue
        programs[key] = written
        for match in matcher.find(here):
            other = here.copy()
            try:
                apply_match(other, match)
            except RewriteError:
                continue
            queue.append(other)
    return list(programs.values())


def _form(model):
    """What a model computes, node by node, whatever its values are called."""
    known = {
        initializer.name: initializer.SerializeToString() for initializer in model.graph.initializer
    }
    known |= {input_.name: input_.name for input_ in model.graph.input}
    for node in model.graph.node:
        attributes = tuple(sorted(attribute.SerializeToString() for attribute in node.attribute))
        read = tuple(known.get(name) for name in node.input)
        for place, name in enumerate(node.output):
            known[name] = hash((node.op_type, attributes, read, place))
    return tuple(known[output.name] for output in model.graph.output)


@pytest.mark.parametrize("goal", ["latency", "throughput"])
@pytest.mark.parametrize("seed", [4, 5, 9, 11, 13])
def test_the_best_of_all_plans_of_all_programs(goal, seed):
    """Small graphs that rules can rewrite; what is chosen computes what the model does."""
    draw = random.Random(seed).randrange
    devices = cluster(2, gb_per_s=[0.5, 5, 50][draw(3)], latency_us=draw(4), launch_us=draw(3))
    model = random_graph(draw, 3)
    chosen_plan = plan(model, devices, goal=goal, rewrite=shipped(), prove=False)
    # Of several instances none is searched through.
    assert chosen_plan.exact or goal == "throughput"
    programs = programs_by_hand(model)
    assert len(programs) > 1
    least = float("inf")
    for program in programs:
        space_ = space(program, devices)
        configs = [space_.all_configs(number) for number in range(len(space_.cuts))]
        for combination in itertools.product(*configs):
            least = min(least, score(Simulation(space_.problem, combination), goal).goal)
    assert chosen_plan.score.goal <= least * (1 + 1e-9)
    feeds = inputs_of(model)
    materialized = materialize(chosen_plan.problem, chosen_plan.instances[0].plan)
    for left, right in zip(run(model, feeds), run(materialized.model, feeds), strict=True):
        np.testing.assert_allclose(right, left, rtol=2e-4, atol=2e-5)


def sums(programs, configs, costs):
    """The least sum of costs over all programs and all divisions of their operators."""
    for selected in programs.every():
        numbers = sorted(set(selected.values()))
        for chosen in itertools.product(*(configs[number] for number in numbers)):
            config = dict(zip(numbers, chosen, strict=True))
            total = sum(costs.operator(number, share) for number, share in config.items())
            for number in numbers:
                operator = programs.workload.operators[number]
                for position, value in enumerate(operator.inputs):
                    if value in selected:
                        giver = selected[value]
                        output = programs.workload.operators[giver].outputs.index(value)
                        total += costs.edge(
                            value,
                            (giver, output),
                            config[giver],
                            (number, position),
                            config[number],
                        )
            yield total


def products(count):
    """Products of one operand, as of attention, that rules merge into one with a Split behind."""
    build = Builder()
    x = build.input(4, 64)
    outputs = [build.node("MatMul", x, build.weight(64, 32), shape=(4, 32)) for _ in range(count)]
    return build.model(*outputs)


@pytest.mark.parametrize("seed", [None, 4, 5, 9, 11, 13])
def test_the_least_sum_over_programs_and_divisions(seed):
    draw = random.Random(seed or 0).randrange
    devices = cluster(2, gb_per_s=[0.5, 5, 50][draw(3)], latency_us=draw(4), launch_us=draw(3))
    model = products(2) if seed is None else random_graph(draw, 3)
    programs = programs_of(read_workload(model), shipped())
    assert programs.has_all
    problem = Problem(programs.workload, devices, Times(devices))
    space_ = Space(problem, [cuts_of(operator.kernel) for operator in programs.workload.operators])
    configs, costs = space_.block_configs((0, 1)), AdditiveCosts(problem)
    selection = best_program(programs, configs, costs)
    assert selection.cost == pytest.approx(min(sums(programs, configs, costs)))
    assert selection.bound == pytest.approx(selection.cost) and selection.gap == pytest.approx(0)


def test_products_are_merged_where_operators_take_long_to_start():
    model = products(3)
    chosen_plan = plan(model, cluster(1, launch_us=50), rewrite=shipped())
    assert any(step.rule == "MergeMatMulsSharingLeft" for step in chosen_plan.rewriting.steps)
    assert [operator.kernel.op_type for operator in chosen_plan.problem.workload.operators] == [
        "MatMul",
        "Split",
    ]
    assert not chosen_plan.exact  # pairs of pairs are not tried for ever
    feeds = inputs_of(model)
    materialized = materialize(chosen_plan.problem, chosen_plan.instances[0].plan)
    for left, right in zip(run(model, feeds), run(materialized.model, feeds), strict=True):
        np.testing.assert_allclose(right, left, rtol=2e-4, atol=2e-5)


# ---- memory


def wide_product():
    """Two matrices of 8 MiB each whose product has 1 MiB."""
    build = Builder()
    x = build.input(4, 512)
    y = build.node("MatMul", x, build.weight(512, 4096), shape=(4, 4096))
    return build.model(build.node("MatMul", y, build.weight(4096, 512), shape=(4, 512)))


def test_a_program_that_fits_where_the_model_does_not():
    model, small = wide_product(), cluster(2, gib=3 / 1024)
    with pytest.raises(PlanError, match="; 6 devices like d0 would do"):
        plan(model, small, prove=False)
    chosen_plan = plan(model, small, rewrite=True, prove=False)
    assert [step.rule for step in chosen_plan.rewriting.steps] == [REORDER]
    assert max(chosen_plan.memory_bytes.values()) <= 3 << 20
    assert AS_IT_IS not in chosen_plan.rewriting.compared


def test_the_smallest_number_of_devices_counts_what_rules_lead_to():
    model, tiny = wide_product(), cluster(1, gib=0.6 / 1024)
    with pytest.raises(PlanError, match="does not fit on the 1 devices") as error:
        plan(model, tiny, rewrite=True, prove=False)
    count = int(str(error.value).split("; ")[1].split()[0])
    assert count == 2
    fitting = plan(model, cluster(count, gib=0.6 / 1024), rewrite=True, prove=False)
    assert max(fitting.memory_bytes.values()) <= 0.6 * 2**20
