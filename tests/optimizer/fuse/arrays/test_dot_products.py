"""Products of vectors are sums of cells' products, in kernels over cells."""

import numpy as np
import pytest
from tensolog.optimizer.fuse.codegen.cell_kernel import CellKernel

from tensolog import fuse


def products(a, b, c, step):
    out = np.maximum(1 - a * (b + step * c), 0)
    return (out * a) @ c, ((out > 0) * c) @ c, out @ out, out.sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 3, 1000, 1024, 16_385, 100_003])
def test_products_of_vectors_beside_sums(count, dtype):
    rng = np.random.default_rng(count)
    operands = [rng.normal(size=count).astype(dtype) for _ in range(3)]
    fused = fuse(heuristic="all")(products)
    for step in (0.5, -0.25, 0.5):
        pairs = zip(fused(*operands, step), products(*operands, step), strict=True)
        tolerance = 1e-11 if dtype == "float64" else 1e-4
        for first, other in pairs:
            assert type(first) is type(other)
            np.testing.assert_allclose(first, other, rtol=tolerance, atol=tolerance * count)
    assert {type(step.kernel) for step in steps(fused) if step.kernel} == {CellKernel}


def steps(fused):
    return [
        step
        for prepared in fused._engine.prepared_regions()
        if prepared.compiled
        for step in prepared.compiled.steps
    ]


def test_vectors_however_they_lie():
    wide = np.random.default_rng(0).normal(size=(5000, 6))
    operands = wide[:, 1], wide[::-1, 3], wide[:, 4].astype("float32").astype("float64")
    results = fuse(heuristic="all")(products)(*operands, 0.5)
    np.testing.assert_allclose(results, products(*operands, 0.5), rtol=1e-10)


def test_what_is_no_number_stays_so():
    def product(x, y):
        return (x + 1) @ y, (x * 2) @ x

    x, y = np.ones(3000), np.ones(3000)
    for value in (np.nan, np.inf):
        x[1234] = value
        for beside in (1, 0):  # the product of infinity and 0 is no number
            y[1234] = beside
            with np.errstate(invalid="ignore"):
                expected = product(x, y)
            np.testing.assert_array_equal(fuse(heuristic="all")(product)(x, y), expected)


def test_whole_numbers_are_left_to_numpy():
    x = np.arange(4000)
    fused = fuse(heuristic="all")(lambda x: ((x + 1) @ (x * 2), x @ x))
    assert fused(x) == (((x + 1) @ (x * 2)), x @ x)
    assert fused(x)[0].dtype == x.dtype
