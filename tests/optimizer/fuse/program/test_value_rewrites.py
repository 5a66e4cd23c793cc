"""Rewrites compute the same, and do what they are for."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.operators.evaluate import evaluate as specified
from tensolog.optimizer.fuse.program import evaluate
from tensolog.optimizer.fuse.program.dag import Node, Program, ProgramError
from tensolog.optimizer.fuse.program.value_rewrites import rewrite

from tensolog import fuse
from tests.campaigns import examples

A, B = np.arange(12.0).reshape(4, 3), np.arange(24.0).reshape(3, 8) / 7


def traced(function: Any, *arguments: Any) -> tuple[Program, Program]:
    """Return the program of a function of one region, before and after rewriting."""
    fused = fuse(heuristic="none")(function)
    fused(*arguments)
    (region,) = fused._runner().regions
    return region.prepared.traced, region.prepared.program


def operators(program: Program) -> list[str]:
    return sorted(node.op for node in program.nodes if not node.is_leaf)


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda X: (X.T**2).sum(), ["Mul", "ReduceSum", "Transpose"]),
        (lambda X: X.T.sum(axis=0), ["ReduceSum"]),
        (lambda X: X.sum(axis=0).sum(), ["ReduceSum"]),
        (lambda X: (X * 1.0 / 1).copy() + 0.5, ["Add"]),
        (lambda X: X**3, ["Mul", "Mul"]),
        (lambda X: np.power(X, -1.0), ["Reciprocal"]),
        (lambda X: X.T.T + X.T.T, ["Add"]),
        (lambda X: (X @ X.T).sum(), ["MatMul", "ReduceSum"]),
        (lambda X: X * (2.0 * 3.0 * np.float64(4)), ["Mul"]),
        (lambda X: X * X.max() + X.max() * X, ["Add", "Mul", "ReduceMax"]),
    ],
)
def test_nodes_that_remain_after_rewriting(function: Any, expected: list[str]) -> None:
    _, after = traced(function, A)
    assert operators(after) == expected
    np.testing.assert_allclose(fuse(function)(A + 1), function(A + 1))


def work(program: Program) -> float:
    """Return the multiplications of all products."""
    total = 0.0
    for node in program.nodes:
        if node.op == "MatMul":
            total += node.size * program.nodes[node.inputs[0]].shape[-1]
    return total


def best(extents: list[int]) -> float:
    """Return the fewest multiplications of a chain, by trying all orders."""
    if len(extents) == 2:
        return 0.0
    return min(
        best(extents[: split + 1])
        + best(extents[split:])
        + extents[0] * extents[split] * extents[-1]
        for split in range(1, len(extents) - 1)
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(2, 9), min_size=3, max_size=6), st.booleans(), st.booleans())
def test_chains_are_cheapest(extents: list[int], row: bool, column: bool) -> None:
    """Against all orders; what lies at the ends may be vectors, and any order is written down."""
    rng = np.random.default_rng(sum(extents))
    extents = [1 if row else extents[0], *extents[1:-1], 1 if column else extents[-1]]
    factors = [rng.normal(size=pair) for pair in pairwise(extents)]
    if row:
        factors[0] = factors[0][0]
    if column:
        factors[-1] = factors[-1][..., 0]
    nodes = [Node(i, "Input", shape=factor.shape) for i, factor in enumerate(factors)]
    remaining = list(range(len(factors)))
    while len(remaining) > 1:  # in a random order
        position = int(rng.integers(len(remaining) - 1))
        left, right = nodes[remaining[position]], nodes[remaining[position + 1]]
        shape = (np.zeros(left.shape) @ np.zeros(right.shape)).shape
        nodes.append(Node(len(nodes), "MatMul", (left.id, right.id), {}, shape))
        remaining[position : position + 2] = [len(nodes) - 1]
    program = Program(tuple(nodes), tuple(range(len(factors))), (remaining[0],))
    rewritten = rewrite(program)
    assert work(rewritten) == best(extents)
    expected = evaluate.run(program, factors)[0]
    np.testing.assert_allclose(evaluate.run(rewritten, factors)[0], expected, rtol=1e-9, atol=1e-9)


def test_a_chain_over_nothing_is_computed_as_it_is_written() -> None:
    """b @ (X'(X b)) with no rows is b times zeros: a NaN in b, which X b alone doesn't keep."""
    X, b, Y = np.zeros((0, 5)), np.full(5, np.nan), np.ones((300, 100))
    fused = fuse(lambda X, b, Y: (b @ (X.T @ (X @ b)), np.exp(Y).sum(axis=1)))
    assert np.isnan(fused(X, b, Y)[0])


def test_a_product_that_is_read_twice_stays() -> None:
    def function(A: Any, B: Any) -> Any:
        C = A @ B
        return C @ B.T, C.sum(axis=0)

    fused = fuse(function)
    np.testing.assert_allclose(fused(A, B)[0], function(A, B)[0])


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs", "message"),
    [
        ([Node(1, "Input")], [1], [1], "stands at position"),
        ([Node(0, "Neg", (0,))], [], [0], "isn't before it"),
        ([Node(0, "Input")], [], [0], "Input nodes"),
        ([Node(0, "Input")], [0], [1], "is no node"),
    ],
)
def test_what_is_no_program(
    nodes: list[Node], inputs: list[int], outputs: list[int], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        Program(tuple(nodes), tuple(inputs), tuple(outputs))


def test_nodes_have_the_meaning_of_their_specification() -> None:
    """What NumPy computes for a node is what its specification says, at every index."""
    x = np.random.default_rng(3).normal(size=(4, 3))
    cases: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
        ("ReduceSum", {"axes": (1,), "keepdims": 0}, (4,)),
        ("ReduceMax", {"axes": (0,), "keepdims": 1}, (1, 3)),
        ("ReduceMean", {"axes": (0, 1), "keepdims": 0}, ()),
        ("ReduceSum", {"axes": (), "keepdims": 1}, (4, 3)),
        ("Transpose", {"perm": (1, 0)}, (3, 4)),
        ("Slice", {"starts": (3,), "ends": (-5,), "axes": (0,), "steps": (-2,)}, (2, 3)),
        ("Reshape", {"shape": (2, 6)}, (2, 6)),
        ("Unsqueeze", {"axes": (1,)}, (4, 1, 3)),
        ("CumSum", {"axis": 1}, (4, 3)),
    ]
    for op, attributes, shape in cases:
        nodes = (Node(0, "Input", shape=(4, 3)), Node(1, op, (0,), attributes, shape))
        program = Program(nodes, (0,), (1,))
        expansion = program.expansion(1)
        assert expansion.outputs[0].shape == shape
        expected = specified(expansion, [x, *[None] * (len(expansion.inputs) - 1)])[0]
        np.testing.assert_allclose(evaluate.run(program, [x])[0], expected, rtol=1e-12)
