"""Plans as programs: steps that read only what is there, and cover what they need."""

import random

import pytest
from tensolog.optimizer.fuse.planning import FusedOperator, Machine
from tensolog.optimizer.fuse.planning.fusion_candidates import conditions
from tensolog.optimizer.fuse.planning.fusion_planner import make_plan

from .build import random_program
from .programs import ALL


def check(program, plan):
    """Run a plan without numbers: every node that is computed finds its operands."""
    there = {node.id for node in program.nodes if node.is_leaf}
    for step in plan.steps:
        fused = isinstance(step, FusedOperator)
        inside = {node.id for node in program.nodes if node.op == "Constant"}
        inputs = step.inputs if fused else program.nodes[step.node].inputs
        assert set(inputs) <= there, (step, there)
        assert not set(inputs) & set(step.nodes)
        inside |= set(inputs)
        for node in step.nodes:
            assert set(program.nodes[node].inputs) <= inside or _is_turned(program, node, inside)
            inside.add(node)
        assert set(step.outputs) <= set(step.nodes)
        there |= set(step.outputs)
        if fused:
            assert step.driver is None or step.driver in inputs
            assert step.cost_s >= 0
            assert set(step.vectors) <= set(step.nodes)
    assert set(program.outputs) <= there
    assert plan.cost_s == pytest.approx(sum(step.cost_s for step in plan.steps))


def _is_turned(program, node, inside):
    """A covered transpose stands before what it turns is computed, if that isn't an input."""
    return program.nodes[node].op == "Transpose" and program.nodes[node].inputs[0] in inside


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("heuristic", ["cost", "all", "no_redundancy", "none"])
def test_plans_of_programs_can_run(name, heuristic):
    program = ALL[name]()
    derived_conditions = conditions(program)
    check(program, make_plan(program, derived_conditions, Machine(), heuristic))


def test_random_plans_can_run():
    source = random.Random(7)
    programs = [random_program(source, most=14) for _ in range(400)]
    for program, derived_conditions in zip(programs, map(conditions, programs), strict=True):
        for heuristic in ("cost", "all", "no_redundancy"):
            check(program, make_plan(program, derived_conditions, Machine(cores=2), heuristic))
