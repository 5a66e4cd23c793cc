"""Nodes between kernels: bound once, they give what evaluate gives, of numbers too."""

import itertools

import numpy as np
import pytest
from tensolog.optimizer.fuse.codegen import compile_plan
from tensolog.optimizer.fuse.planning import Machine, plan
from tensolog.optimizer.fuse.program.dag import Node, Program
from tensolog.optimizer.fuse.program.evaluate import _NUMBERS, bound, evaluate

import tensolog

_VALUES = [0.0, -0.0, 1.5, -3.0, 1e308, 5e-324, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("op", sorted(_NUMBERS))
def test_numbers_are_computed_as_arrays_are(op, dtype):
    count = 1 if op in ("Neg", "Abs") else 2
    if dtype == "bool" and op in ("Sub", "Neg"):
        pytest.skip("NumPy refuses it")
    inputs = [Node(i, "Input", (), {}, (), dtype) for i in range(count)]
    node = Node(count, op, tuple(range(count)), {}, (), dtype)
    function = bound(Program((*inputs, node), tuple(range(count)), (count,)), node)
    with np.errstate(all="ignore"):
        values = [np.asarray(number).astype(dtype) for number in _VALUES]
        for operands in itertools.product(values, repeat=count):
            expected = evaluate(node, operands)
            for arguments in (operands, [operand[()] for operand in operands]):
                result = np.asarray(function(*arguments))
                assert result.dtype == expected.dtype
                assert result.shape == ()
                first, other = result * 1.0, expected * 1.0  # of bools NumPy tells no NaN
                assert np.array_equal(first, other, equal_nan=True)
                assert np.isnan(other) or np.signbit(first) == np.signbit(other)


def test_numbers_reach_kernels_and_callers_as_arrays():
    count = 100_000
    nodes = (
        Node(0, "Input", (), {}, (count,)),
        Node(1, "ReduceSum", (0,), {"axes": (0,), "keepdims": 0}, ()),
        Node(2, "Constant", (), {"value": 0.5}, ()),
        Node(3, "Mul", (1, 2), {}, ()),
        Node(4, "Sub", (3, 1), {}, ()),
        Node(5, "Add", (0, 4), {}, (count,)),
        Node(6, "Mul", (5, 0), {}, (count,)),
        Node(7, "Less", (3, 4), {}, (), "bool"),
    )
    program = Program(nodes, (0,), (6, 3, 7))
    x = np.random.default_rng(0).normal(size=count)
    for heuristic in ("cost", "none"):
        compiled = compile_plan(program, plan(program, Machine(), heuristic))
        results = compiled.run([x], 1)
        total = x.sum()
        assert all(type(result) is np.ndarray for result in results)
        np.testing.assert_allclose(results[0], (x + (total * 0.5 - total)) * x, rtol=1e-9)
        np.testing.assert_allclose(results[1], total * 0.5, rtol=1e-9)
        assert results[2] == (total * 0.5 < total * 0.5 - total)


def test_results_that_are_numbers_have_numpy_s_types():
    def measured(x, y):
        distance = (x * y).sum()
        scaled = distance * 2 - 1 / distance
        return x * scaled + distance, scaled, scaled < distance

    for heuristic in ("all", "cost", "none"):
        fused = tensolog.fuse(heuristic=heuristic)(measured)
        for dtype in ("float32", "float64"):
            x = np.linspace(1, 2, 1000, dtype=dtype)
            for first, other in zip(fused(x, x), measured(x, x), strict=True):
                assert type(first) is type(other)
                assert first.dtype == other.dtype
                np.testing.assert_allclose(first, other, rtol=1e-5)
