"""Functions that ONNX has no operators for: traced, in kernels, out of the rules' sight."""

import numpy as np
import pytest
from tensolog.optimizer.fuse.planning.sparsity import at_zero
from tensolog.optimizer.fuse.program import numpy_operators
from tensolog.optimizer.fuse.program.dag import Node, Program
from tensolog.optimizer.fuse.program.rule_rewrites import graph_of, program_of

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

TEXTS = [
    "np.log1p(np.exp(-X)).sum()",
    "np.log1p(np.exp(-np.abs(X))) + np.maximum(X, 0)",
    "np.expm1(X) * Y, np.expm1(X * 1e-9)",
    "np.exp2(X) - np.log2(abs(Y)), np.log10(abs(X) + 1e-3)",
    "np.hypot(X, Y).sum(axis=0), np.hypot(X, 1.0)",
    "np.logaddexp(X, Y).mean(axis=1), np.logaddexp(0, X)",
    "np.arctan2(X, Y), np.arctan2(1.0, Y)",
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("text", TEXTS)
def test_operators_compute_what_numpy_does(text, dtype):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(70, 33)).astype(dtype) * 3 for _ in range(2))
    function = eval(f"lambda X, Y: ({text},)", {"np": np})
    fused = fuse(heuristic="all")(function)
    compare(function, fused, [x, y])
    assert "Call(" not in fused.explain()
    assert "Not traced" not in fused.explain()
    x[0, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30]
    y[0, :6] = [-0.0, 0.0, np.inf, np.inf, 1.0, -1e30]
    compare(function, fused, [x, y])


def test_zeros_of_sparse_values_stay():
    sparse = pytest.importorskip("scipy.sparse")
    s = sparse.random_array((60, 40), density=0.1, random_state=1, format="csr")
    d = np.random.default_rng(1).normal(size=(60, 40))

    def function(s, d):
        return s.log1p().multiply(d).sum(), s.expm1() * 2, np.log1p(s).sum(axis=0)

    fused = fuse(heuristic="all")(function)
    for _ in range(2):
        total, scaled, columns = fused(s, d)
    wanted = function(s, d)
    np.testing.assert_allclose(total, wanted[0])
    assert (scaled.format, scaled.nnz) == ("csr", s.nnz)
    np.testing.assert_allclose(scaled.toarray(), wanted[1].toarray())
    np.testing.assert_allclose(columns, wanted[2])


def test_each_has_a_specification():
    for name in numpy_operators.FUNCTIONS:
        assert numpy_operators.meaning(name).kind == "elementwise"
    nodes = (
        Node(0, "Input"),
        Node(1, "Expm1", (0,)),
        Node(2, "Log1p", (1,)),
        Node(3, "Exp2", (2,)),
    )
    values = at_zero(Program(nodes, (0,), (3,)), (1, 2, 3), 0)
    assert values == {0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0}


def test_rules_read_no_operator_of_that_name():
    nodes = (
        Node(0, "Input", shape=(3,)),
        Node(1, "Log1p", (0,), shape=(3,)),
        Node(2, "Exp", (1,), shape=(3,)),
    )
    program = Program(nodes, (0,), (2,))
    graph = graph_of(program)
    assert {node.op_type for node in graph.nodes.values() if not node.domain} == {"Exp"}
    assert [node.op for node in program_of(graph, program).nodes] == ["Input", "Log1p", "Exp"]
