"""Loops that leave functions to loops of their own, against NumPy."""

import numpy as np
import pytest
from tensolog.optimizer.codegen import find_compiler, vector_loops

from .build import Builder, check, reachable

compiled = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")


def test_a_body_without_such_a_function_stays():
    body = ["const double v1 = x0[j];", "const double v2 = exp_64(v1);", "y2[j] = v2;"]
    assert vector_loops.split("j", "a", "b", body) == ([], body)


def test_each_argument_is_computed_once():
    body = [
        "const float v1 = (x0[j] + 1.0f);",
        "const float v2 = sin_32(v1);",
        "const float v3 = (v2 * cos_32(v1));",
        "y3[j] = v3;",
    ]
    before, rest = vector_loops.split("j", "a", "b", body)
    assert sum(line.startswith("for ") for line in before) == 1
    calls = [line.partition("(")[0] for line in before if line.startswith("each_")]
    assert calls == ["each_sin_32", "each_cos_32"]
    # what is computed before isn't computed again
    assert rest[0] == "const float v1 = each_x0[j - (a)];"
    assert rest[3] == "y3[j] = v3;"
    assert not any("sin_32" in line or "cos_32" in line for line in rest)


@compiled
@pytest.mark.parametrize("level", reachable())
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (40, 13), (130, 70), (3, 1500)])
def test_in_all_kinds_of_loops(level, dtype, shape):
    """Cells, rows, columns and numbers; a function of another, and elements far from 0."""
    rng = np.random.default_rng(5)
    builder = Builder(dtype)
    values = rng.uniform(-9, 9, shape).astype(dtype)
    values.reshape(-1)[:: max(1, values.size // 3)] = 12345678.0 if dtype == "float64" else 345678.0
    x = builder.input(values)
    sine, cosine = builder.cell("Sin", x), builder.cell("Cos", x)
    twice = builder.cell("Mul", builder.cell("Sin", cosine), builder.cell("Add", sine, x))
    outputs = [
        builder.cell("Tan", builder.cell("Mul", twice, builder.constant(0.01, dtype))),
        builder.reduce("ReduceSum", twice, (0, 1)),
        builder.reduce("ReduceMax", cosine, (0, 1)),
    ]
    check(builder, outputs[:1], levels=[level])
    check(builder, outputs, levels=[level], tolerance=1e-11 if dtype == "float64" else 1e-4)
    rows = [builder.reduce("ReduceSum", twice, (axis,)) for axis in (0, 1)]
    check(
        builder, [*outputs, *rows], template="Row", driver=x, levels=[level],
        tolerance=1e-11 if dtype == "float64" else 1e-4,
    )  # fmt: skip


@compiled
def test_over_the_entries_of_a_sparse_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random_array((90, 70), density=0.3, random_state=1, format="csr")
    matrix.data *= np.where(np.arange(matrix.nnz) % 50, 10.0, 1e12)
    builder = Builder()
    x = builder.input(matrix)
    attributes = {"shape": matrix.shape, "nnz": matrix.nnz, "layout": "csr"}
    sine = builder.add("Sin", x, **attributes)
    total = builder.reduce("ReduceSum", sine, (0, 1))
    check(builder, [sine, total], template="Outer", driver=x, sparse=True)
