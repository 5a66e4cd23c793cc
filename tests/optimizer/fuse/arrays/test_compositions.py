"""Functions composed of others give what NumPy and SciPy give, NaN and infinities included."""

from typing import Any

import numpy as np
import pytest
from scipy import special
from tensolog.optimizer.fuse.arrays import compositions

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

from .test_functions import arguments, check, parts

FUNCTIONS = [
    "np.trunc(X), np.fix(X), np.trunc(X * 1e9), np.degrees(X), np.radians(X), np.rad2deg(w)",
    "np.fmax(X, Y), np.fmin(X, Y), np.fmax(X, 0), np.fmin(X * np.nan, Y), np.fmax(Y, X * np.nan)",
    "np.heaviside(X, 0.5), np.heaviside(X - X, w[:, None]), np.heaviside(-X, np.nan)",
    "X // 3, X // 0.3, X // Y, X // 0, X // -0.7, 7 // X, w // v[:1], X // np.inf, X // -np.inf",
    "special.xlogy(X, Y), special.xlogy(0, Y), special.xlogy(X * 0, abs(Y))",
    "special.xlogy(abs(X), 2)",
    "special.entr(X), special.entr(abs(X)), special.entr(X * 0)",
    "np.nan_to_num(X), np.nan_to_num(X, nan=1.5, posinf=9, neginf=-9), np.nan_to_num(w, nan=-0.0)",
    "np.nan_to_num(X, copy=False), np.nan_to_num(X, True, 2), np.nan_to_num(X > 0)",
    "np.round(X, 2), np.round(X, -1), X.round(1), np.round(w, 0), np.around(X * 1000, -2)",
    "np.float_power(X, 2), np.float_power(abs(X), 0.5), np.float_power(2, X), np.conjugate(X)",
    "np.isfinite(X), np.isfinite(X / 0), np.isfinite(X).all(), np.isfinite(X - X).any()",
    "(X > 0).any(), (X > 0).all(), (X > 0).any(axis=1), np.all(X < Y, axis=0), np.any(X * 2, 1)",
    "np.any(X == X, axis=(0, 1)), (X < 9).all(axis=0, keepdims=True), np.all(X * w[:, None])",
    "np.ptp(X), np.ptp(X, axis=0), np.ptp(X, 1, keepdims=True), np.ptp(w), np.ptp(X > 0)",
    "np.nansum(X), np.nansum(X, axis=0), np.nanmean(X, axis=1), np.nanmean(X)",
    "np.nansum(X, 1, 'f4')",
    "np.count_nonzero(X), np.count_nonzero(X, axis=0), np.count_nonzero(X > 0, 1, keepdims=True)",
    "np.average(X), np.average(X, axis=0), np.average(X, 1, v), np.average(X, axis=0, weights=w)",
    "np.average(X, weights=abs(X) + 1), np.average(X, weights=w), np.average(w, weights=w - w)",
    "np.average(X, 0, abs(w), returned=True), np.average(X, 0, abs(w) + 1, keepdims=True)",
    "np.average(X, axis=-1, weights=v), np.average(X, -2, w), np.average(X, 0, [1.0] * len(X))",
    "np.linalg.norm(X), np.linalg.norm(X, 'fro'), np.linalg.norm(w)",
    "np.linalg.norm(X, axis=(0, 1))",
    "np.linalg.norm(X, 1), np.linalg.norm(X, np.inf), np.linalg.norm(X, -1), np.linalg.norm(X, 2)",
    "np.linalg.norm(X, 1, axis=(1, 0)), np.linalg.norm(X, -np.inf, (0, 1)), np.linalg.norm(X, 3)",
    "np.linalg.norm(X, 1, 0), np.linalg.norm(X, np.inf, 1, True), np.linalg.norm(X, 0, axis=1)",
    "np.linalg.norm(w, 3), np.linalg.norm(w, 1), np.linalg.norm(w, 0), np.linalg.norm(X, -2.5, 0)",
    "np.linalg.norm(w, 'fro'), np.linalg.norm(X, keepdims=True), np.linalg.norm(c)",
    "np.linalg.norm(w, 2)",
    "np.add.outer(w, v), np.subtract.outer(X, v), np.multiply.outer(w, 2.0), np.less.outer(w, w)",
    "np.hstack([X, Y]), np.hstack([w, v, w]), np.hstack([X, w[:, None]]), np.hstack([c, w])",
    "np.vstack([X, r]), np.vstack([w, w]), np.vstack([X, v]), np.vstack([X, w]), np.hstack([X, w])",
    "np.column_stack([w, X, w]), np.column_stack([v, v]), np.stack([X, Y])",
    "np.stack([w, w], axis=-1)",
    "np.stack([X, w]), np.stack([w, w], 5), np.stack([X, Y], axis=1) * 2",
    "np.hstack([w, [1.0, 2.0]])",
    "np.roll(X, 1), np.roll(w, 2), np.roll(X, -1, axis=0), np.roll(X, 7, 1), np.roll(w, 0)",
    "np.roll(X, (1, 1), (0, 1)), np.roll(X, 1, axis=0) - X, np.roll(X, 1, axis=2)",
    "np.flip(X), np.flip(X, 0), np.flip(X, (0, 1)), np.flipud(X), np.fliplr(X), np.fliplr(w)",
    "np.flip(X, 3), np.swapaxes(X, 0, -1), np.moveaxis(X, 0, -1), np.swapaxes(X, 0, 2)",
    "X.swapaxes(0, 1)",
    "np.diff(X), np.diff(X, axis=0), np.diff(w, 2), np.diff(X, n=0), np.diff(X > 0), np.diff(X, 9)",
    "np.diff(X, append=0.0), np.diff(X, axis=2), np.diff(w, prepend=w[:1]), np.diff(X, -1)",
    "np.atleast_1d(X.sum()), np.atleast_2d(w) * 2, np.atleast_2d(X), np.atleast_1d(w, v)",
    "np.full_like(X, 3), np.full_like(X, 3.5, dtype=int), np.full_like(w, v[0])",
    "np.full_like(X, 1) - X",
    "X.cumsum(), np.cumsum(X) * 2, np.cumsum(X, axis=1), np.vecdot(X, Y), np.vecdot(X, v)",
]
CASES = [
    *[
        (7, 5, "float64"),
        (6, 4, "float32"),
        (1, 6, "float64"),
        (6, 1, "float64"),
        (1, 1, "float64"),
    ],
    *[
        (5, 3, kind)
        for kind in ("Fortran", "strided", "mixed", "special", "bool", "int64", "uint8")
    ],
    *[(5, 3, "float16"), (0, 4, "float64"), (4, 0, "float64")],
]


def function(text: str) -> Any:
    return eval(f"lambda X, Y, w, v, r, c: {text}", {"np": np, "special": special})


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize(("m", "n", "kind"), CASES)
def test_composed_as_numpy(text: str, m: int, n: int, kind: str) -> None:
    for part in parts(text):
        check(part, arguments(m, n, kind))


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.0, -7.0, 1e300, -1e-300, 3.0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted({**compositions.NUMPY, **compositions.SPECIAL}))
def test_special_values_in_kernels(name: str, dtype: str) -> None:
    """Each pair of them, many times over, where a kernel computes the function."""
    ufunc = getattr(np, name, None) or getattr(special, name)
    unit = np.dtype(dtype).type(1)
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(dtype)
    first, second = (grid.ravel() for grid in np.meshgrid(values, values))
    operands = [np.tile(operand, 5) for operand in (first, second)][: ufunc.nin]
    # A product alone, as deg2rad is one, is no kernel: with a second operator it is.
    fused = fuse(heuristic="all")(lambda x, *rest: ufunc(-x, *rest) * unit)
    with np.errstate(all="ignore"):
        expected, result = ufunc(-operands[0], *operands[1:]) * unit, fused(*operands)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == "float32" else 1e-12)
    zeros = (expected == 0) & ~np.isnan(expected)
    if name not in ("fmax", "fmin"):  # of 0.0 and -0.0 NumPy takes either
        assert np.array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros])), name
    assert fused.kernels


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize(
    "text",
    [
        "np.einsum('ij,j->i', X, v)",
        "np.tensordot(X, Y) * w",
        "np.add.outer(w, v) * X",
        "np.hstack([X, Y]).sum(axis=1)",
        "np.flip(X, 0) + np.roll(Y, 1, axis=0)",
        "np.diff(X, axis=0) ** 2",
        "np.nan_to_num(X) + np.ptp(X, axis=0)",
        "np.linalg.norm(X, 1, axis=1) * w",
        "X.round(1) + X // 3 + np.heaviside(X, 1)",
        "np.isfinite(X).all() & (X > 0).any()",
        "np.swapaxes(X, 0, 1).sum(axis=0)",
    ],
)
def test_a_region_goes_on_around_it(text: str) -> None:
    plain = function(text)
    fused = fuse(plain)
    compare(plain, fused, arguments(7, 5, "float64"))
    explanation = fused.explain()
    assert "Not traced" not in explanation and "1 region in" in explanation, explanation


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (257, 33), (33, 4099), (5000,)])
def test_bools_are_counted_by_kernels(shape: tuple[int, ...], dtype: str) -> None:
    def counted(X: Any) -> Any:
        last = len(X.shape) - 1
        some, most = X > 0, X > -1.5
        sums = (some.sum(axis=last), most.sum(axis=0), some.sum(), np.sum(most, keepdims=True))
        return (
            *sums,
            most.all(axis=0),
            (X > 3).any(axis=last),
            np.isfinite(X).all(),
            (X < 9).all(),
        )

    X = np.random.default_rng(0).normal(size=shape).astype(dtype)
    fused = fuse(heuristic="all")(counted)
    for matrix in (X, np.where(X > 1, np.nan, X), X[::-1], np.asfortranarray(X)):
        for result, expected in zip(fused(matrix), counted(matrix), strict=True):
            assert result.dtype == expected.dtype and type(result) is type(expected)
            np.testing.assert_array_equal(result, expected)


def test_more_bools_than_a_float32_tells_apart() -> None:
    def counted(X: Any) -> Any:
        return (X == X).sum(), (X == X).sum(axis=0), (X != X).any()

    X = np.zeros(((1 << 24) + 3, 1), np.float32)
    fused = fuse(counted)
    for result, expected in zip(fused(X), counted(X), strict=True):
        np.testing.assert_array_equal(result, expected)
