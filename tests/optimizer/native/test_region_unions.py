"""Regions over one frame as one kernel: what is joined, what is not, and what it computes."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tensolog.optimizer.fuse.planning import FusedOperator, plan
from tensolog.optimizer.fuse.planning.fusion_candidates import conditions
from tensolog.optimizer.fuse.planning.machine_rates import Machine
from tensolog.optimizer.fuse.planning.planning_graph import PlanningGraph
from tensolog.optimizer.fuse.program.rule_rewrites import graph_of
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.native.fuse_graph import regions, unions
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.campaigns import examples
from tests.optimizer.fuse.planning.build import row_program

from .build import check, fused, kernels_of, model, needs_compiler, typed

node = helper.make_node
rng = np.random.default_rng(0)
ROWS, LAST = (6, 40), {"last": np.array([-1])}


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def united(proto):
    """The operators of each union of a model's regions."""
    graph = typed(proto)
    meanings = Meanings(graph)
    joined = unions(meanings, regions(meanings, graph.nodes), graph.nodes)
    return [
        [graph.nodes[number].op_type for number in candidate.region.nodes] for candidate in joined
    ]


def two_sums(second="x", axes="last"):
    """The sums along rows of the squares of x, and of the absolute values of another input."""
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("ReduceSum", ["square", "last"], ["squares"]),
        node("Abs", [second], ["absolute"]),
        node("ReduceSum", ["absolute", axes], ["lengths"], keepdims=1),
    ]
    shape = [6, 1] if axes == "last" else [1, 40]
    constants = {**LAST, "first": np.array([0])}
    outputs = {"squares": [6, 1], "lengths": shape}
    return model(nodes, {"x": ROWS, "y": ROWS}, outputs, constants)


@needs_compiler
def test_sums_over_the_same_rows_are_one_kernel():
    proto = two_sums()
    assert len(kernels_of(fused(proto)[0])) == 2
    feeds = [{"x": normal(*ROWS), "y": normal(*ROWS)}, {"x": normal(*ROWS) + 9, "y": normal(*ROWS)}]
    check(proto, *feeds, expect=1, joins=True)


@pytest.mark.parametrize("changed", [{"second": "y"}, {"axes": "first"}])
def test_nothing_in_common_or_another_frame_is_not_joined(changed):
    assert united(two_sums()) != []
    assert united(two_sums(**changed)) == []


@pytest.mark.parametrize("between", ["MatMul", "Exp"])
def test_regions_with_a_product_between_them_are_not_joined(between):
    inner = [
        node("MatMul", ["e", "w"], ["f"]) if between == "MatMul" else node("Exp", ["e"], ["f"])
    ]
    nodes = [
        node("Sigmoid", ["x"], ["s"]),
        node("Exp", ["s"], ["e"]),
        *inner,
        node("Softmax", ["f"], ["g"]),
        node("Mul", ["g", "x"], ["z"]),
    ]
    proto = model(nodes, {"x": ROWS}, {"z": ROWS, "e": ROWS}, {"w": normal(40, 40)})
    kernels = kernels_of(fused(proto, multiplies=False, joins=True)[0])
    assert len(kernels) == (2 if between == "MatMul" else 1)
    assert united(proto) == []


def model_of(program):
    """A fused program as a model."""
    proto = to_model(graph_of(program)).graph
    inputs, outputs = (
        {f"v{number}": program.nodes[number].shape for number in numbers}
        for numbers in (program.inputs, program.outputs)
    )
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.initializer}
    return model(list(proto.node), inputs, outputs, constants)


@needs_compiler
@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6))
def test_random_models_compute_what_they_did(seed):
    program = row_program(random.Random(seed), (7, 33))
    feeds = [
        {f"v{n}": normal(*program.nodes[n].shape) * scale for n in program.inputs}
        for scale in (1, 4)
    ]
    check(model_of(program), *feeds, joins=True)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6))
def test_memory_is_passed_no_more_often_than_by_the_exact_plan_of_single_results(seed):
    """That plan may compute values again for each operator: kernels of several results need not.

    Bytes that are read and written, by the planner's own measure.
    """
    program = row_program(random.Random(seed), (2000, 500))
    graph = PlanningGraph(program, conditions(program))

    def moved(nodes, outputs):
        read = {operand.node for number in nodes for operand in graph.operands[number]}
        return sum(graph.in_bytes(number) for number in read.difference(nodes)) + sum(
            graph.bytes[number] for number in outputs
        )

    exact = sum(
        moved(step.nodes, step.outputs)
        if isinstance(step, FusedOperator)
        else moved((step.node,), (step.node,))
        for step in plan(program, Machine(cores=1)).steps
    )
    model_graph = graph_of(program)
    meanings = Meanings(model_graph)
    region_kernels = regions(meanings, model_graph.nodes)
    joined = unions(meanings, region_kernels, model_graph.nodes)
    covered, total = set(), 0.0
    for kernel in [*joined, *region_kernels]:
        if covered.isdisjoint(kernel.region.nodes):
            covered |= set(kernel.region.nodes)
            nodes, outputs = (
                [int(model_graph.names[value][1:]) for value in values]
                for values in (
                    [v for n in kernel.region.nodes for v in model_graph.nodes[n].outputs],
                    kernel.region.outputs,
                )
            )
            total += moved(nodes, outputs)
    alone = [number for number in model_graph.nodes if number not in covered]
    singles = [int(model_graph.names[model_graph.nodes[n].outputs[0]][1:]) for n in alone]
    total += sum(moved((number,), (number,)) for number in singles)
    assert total <= exact * 1.01
