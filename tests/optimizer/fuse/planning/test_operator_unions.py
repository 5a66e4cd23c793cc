"""Operators of several results: when they are made, what they cost, and that kernels give them."""

import random

import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from tensolog.optimizer.codegen.expressions import LoweringError
from tensolog.optimizer.fuse.codegen.compiled import compile_plan, lower
from tensolog.optimizer.fuse.planning import Machine
from tensolog.optimizer.fuse.planning.fusion_candidates import conditions
from tensolog.optimizer.fuse.planning.fusion_planner import make_plan
from tensolog.optimizer.fuse.program.evaluate import run

from tests.campaigns import examples

from .build import Build, random_program, row_program, shared_program

MACHINE = Machine(cores=2)


def plans(program, **options):
    """The plan of a program without unions, and with them."""
    derived = conditions(program)
    return [
        make_plan(program, derived, MACHINE, heuristic, **options)
        for heuristic in ("single", "cost")
    ]


def unions(before, after):
    """The operators that are in one plan alone."""
    return [
        operator
        for operator in after.fused
        if operator.outputs not in {old.outputs for old in before.fused}
    ]


def rows_and_cells(reduced="x", rows=4000, nnz=None):
    """Sums along the rows of x, and the squares of each of its elements."""
    build = Build()
    build.input(rows, 500, nnz=nnz)
    y = build.input(4000, 500)
    squares = build.op("Mul", 0, 0, nnz=nnz)
    return build.program(squares, build.sum(y if reduced == "y" else 0, 1))


def test_sums_of_rows_and_cells_of_one_array_are_one_operator():
    before, after = plans(rows_and_cells())
    (union,) = unions(before, after)
    assert len(union.outputs) == 2 and union.inputs == (0,)
    assert after.cost_s < before.cost_s
    assert after.complete


@pytest.mark.parametrize(
    "changed", [{"reduced": "y"}, {"rows": 2000, "reduced": "y"}, {"nnz": 9000}]
)
def test_nothing_in_common_another_space_or_sparse_rows_are_not_joined(changed):
    before, after = plans(rows_and_cells(**changed))
    assert not unions(before, after)
    assert after.steps == before.steps and not after.joining_saved_s


def test_what_waits_for_the_last_row_is_not_joined_with_it():
    build = Build()
    x = build.input(4000, 500)
    total = build.sum(x, 0)
    before, after = plans(build.program(total, build.op("Sub", x, total)))
    assert not unions(before, after)


def test_margins_and_a_gradient_of_them_read_the_rows_once():
    build = Build()
    x, w, y = build.input(4000, 100), build.input(100), build.input(4000)
    margins = build.op("Sigmoid", build.matmul(x, w))
    gradient = build.matmul(build.t(x), build.op("Sub", margins, y))
    before, after = plans(build.program(margins, gradient))
    (union,) = unions(before, after)
    assert set(union.outputs) == {margins, gradient}
    assert sum(x in step.inputs for step in after.fused) == 1


def test_an_operator_between_two_keeps_them_apart():
    build = Build()
    x, w = build.input(500, 500), build.input(500, 500)
    first = build.op("Exp", x)
    between = build.matmul(first, w)
    before, after = plans(build.program(first, build.op("Add", between, first)))
    assert not unions(before, after)


def test_no_union_takes_more_memory_than_is_allowed():
    program = rows_and_cells()
    most_bytes = max(step.read_bytes + step.write_bytes for step in plans(program)[0].steps)
    whole = max(step.read_bytes + step.write_bytes for step in plans(program)[1].steps)
    assert whole > most_bytes
    before, after = plans(program, memory_bytes=most_bytes)
    assert not unions(before, after)


def draw(seed, sparse=True):
    """A program, often with several results over the same cells."""
    source = random.Random(seed)
    kind = source.random()
    if kind < 0.5:
        shape = source.choice([(7, 33), (2000, 500), (300, 3)])
        return row_program(source, shape)
    return shared_program(source) if kind < 0.7 else random_program(source, 12, sparse)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 10**9))
@example(2488)  # NumPy is called sooner than the union's kernel
def test_unions_cost_less_and_have_kernels_where_their_parts_have(seed):
    program = draw(seed)
    before, after = plans(program)
    assert after.cost_s <= before.cost_s * (1 + 1e-9)
    parts = {output: operator for operator in before.fused for output in operator.outputs}
    for union in unions(before, after):
        try:
            for output in union.outputs:
                if output in parts:
                    lower(program, parts[output], "part")
        except LoweringError:
            continue
        lower(program, union, "whole")


@settings(max_examples=examples(120), deadline=None)
@given(st.integers(0, 10**9))
def test_plans_with_unions_compute_what_numpy_does(seed):
    program = draw(seed, sparse=False)
    rng = np.random.default_rng(seed)
    inputs = [
        rng.uniform(0.5, 1.5, program.nodes[n].shape).astype(program.nodes[n].dtype)
        for n in program.inputs
    ]
    try:
        results = run(program, inputs)
    except TypeError:  # NumPy subtracts no truth values
        reject()
    _, plan = plans(program)
    accuracy = 1e-3 if program.nodes[0].dtype == "float32" else 1e-6
    for got, expected in zip(compile_plan(program, plan).run(inputs), results, strict=True):
        finite = np.abs(expected)[np.isfinite(expected)]
        size = finite.max(initial=0.0)
        np.testing.assert_allclose(got, expected, rtol=accuracy, atol=accuracy * 1e-3 * size)
