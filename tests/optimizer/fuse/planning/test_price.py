"""What NumPy takes and what a kernel takes for one operator: which of them a plan leaves it to."""

import pytest
from tensolog.optimizer.fuse.planning import Machine
from tensolog.optimizer.fuse.planning.fusion_candidates import Conditions
from tensolog.optimizer.fuse.planning.fusion_planner import plan, unfused_s
from tensolog.optimizer.fuse.planning.planning_graph import PlanningGraph
from tensolog.optimizer.fuse.planning.template_costs import TemplateCosts
from tensolog.optimizer.fuse.program.dag import Node, Program

from .build import Build

# A processor for whose vectors NumPy has no functions, and one for which it has.
SLOW, FAST = Machine(functions=2e9), Machine()


def single_operator(op, *more, dtype="float64", shape=(1000, 1000)):
    """A program of one operator over matrices."""
    inputs = tuple(Node(i, "Input", (), {}, shape, dtype) for i in range(1 + len(more)))
    node = Node(len(inputs), op, tuple(range(len(inputs))), {}, shape, dtype)
    return Program((*inputs, node), tuple(range(len(inputs))), (node.id,))


@pytest.mark.parametrize("op", ["Exp", "Log", "Tanh", "Erf"])
def test_a_function_is_a_kernels_where_numpy_has_no_vectors_for_it(op):
    assert plan(single_operator(op), SLOW).fused
    assert not plan(single_operator(op), FAST).fused


@pytest.mark.parametrize("op", ["Add", "Max", "Div", "Greater"])
@pytest.mark.parametrize("machine", [SLOW, FAST])
def test_what_a_kernel_does_no_sooner_is_numpys(op, machine):
    assert not plan(single_operator(op, 1), machine).fused


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_sum_of_an_array_in_the_caches_is_numpys(axis):
    build = Build()
    total = build.sum(build.input(1000, 1000), axis)
    assert not plan(build.program(total), Machine(near=4.0, near_bytes=1e9)).fused


def test_two_products_in_the_caches_are_a_librarys():
    """One pass reads less, and adds row by row to what lies in memory."""
    build = Build()
    matrix, vector = build.input(1000, 1000), build.input(1000)
    product = build.matmul(build.t(matrix), build.matmul(matrix, vector))
    program = build.program(product)
    assert not plan(program, Machine(near=4.0, near_bytes=1e9)).fused
    assert plan(program, Machine()).fused


def test_short_rows_cost_a_product_with_a_vector():
    """As many numbers, in rows of ten and of a thousand, either way around."""

    def seconds(rows, columns, turned):
        build = Build()
        matrix = build.input(rows, columns)
        vector = build.input(rows if turned else columns)
        product = build.matmul(build.t(matrix) if turned else matrix, vector)
        program = build.program(product)
        prices = TemplateCosts(
            PlanningGraph(program, Conditions()), Machine(near=4.0, near_bytes=1e9)
        )
        return prices.plain(product).cost_s

    for turned in (False, True):
        assert seconds(100_000, 10, turned) > 1.5 * seconds(1000, 1000, turned)


def test_numpy_is_never_faster_than_a_kernels_loops():
    """Bounds of the search count on it."""
    for machine in (SLOW, FAST):
        for op in ("Exp", "Pow", "Log2", "Sinh", "Add"):
            for dtype in ("float64", "float32"):
                program = single_operator(op, *([1] if op in ("Pow", "Add") else []), dtype=dtype)
                prices = TemplateCosts(PlanningGraph(program, Conditions()), machine)
                assert prices._rate(program.outputs[0]) <= machine.flops


def test_numbers_of_32_bits_are_computed_twice_as_fast():
    machine = Machine(read=1e15, write=1e15, dispatch_s=1e-15)
    shape = (1024, 1024)  # rows that fill vectors of either
    double, single = (
        unfused_s(single_operator("Add", 1, dtype=dtype, shape=shape), machine)
        for dtype in ("float64", "float32")
    )
    assert double == pytest.approx(2 * single, rel=1e-4)
    # NumPy has vectors for few functions, and uses tables
    slow = Machine(read=1e15, write=1e15, dispatch_s=1e-15, functions=1e8)
    exp = unfused_s(single_operator("Exp", dtype="float32", shape=shape), slow)
    assert exp == pytest.approx(unfused_s(single_operator("Exp", shape=shape), machine), rel=1e-4)
