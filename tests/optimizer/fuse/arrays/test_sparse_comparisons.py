"""Comparisons of sparse operands, counts of them and quotients: what SciPy gives, fused."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tensolog import fuse
from tests.campaigns import examples

RNG = np.random.default_rng(0)
SIGNS = ["==", "!=", "<", "<=", ">", ">="]
NUMBERS = [0, 0.0, -0.0, 0.5, -0.5, 2, -1, 1e-320, float("nan"), float("inf"), True]


def drawn(layout: str = "csr", dtype: str = "f8", m: int = 7, n: int = 5) -> Any:
    """Return a sparse array with entries that are 0, NaN, infinite, and equal to the numbers."""
    matrix = sp.random_array((m, n), density=0.5, format=layout, rng=np.random.default_rng(m))
    values = np.array([0.5, -0.5, 0.0, -0.0, 2.0, -1.0, 1.5, np.nan, np.inf, -np.inf])
    if dtype[0] != "f":
        values = np.array([0, 1, 2, -1, 3])
    matrix.data = values[np.arange(matrix.nnz) % len(values)]
    return matrix.astype(dtype)


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (NotImplementedError, ValueError, TypeError) as error:
            return error


def same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, Exception):
        return
    if isinstance(expected, tuple):
        for first, other in zip(result, expected, strict=True):
            same(first, other)
        return
    assert result.dtype == expected.dtype
    if hasattr(expected, "tocsr"):
        assert (result.format, result.nnz, result.shape) == (
            expected.format,
            expected.nnz,
            expected.shape,
        )
        result, expected = result.toarray(), expected.toarray()
    np.testing.assert_allclose(result, expected, rtol=1e-6)


USES = [
    "C",
    "C.sum()",
    "C.sum(axis=0), C.sum(axis=1)",
    "C.toarray()",
    "C.nnz + C.sum()",
    "C.astype(float) @ v, C.T, -C.astype('f4')",
    "X.multiply(C).sum(), C.multiply(X)",
    "C.copy(), C.mean(), C + C",
    "X / (C.sum(axis=1) + 1.0)[:, None], X.sum()",
    "(X * X).sum(), C.sum(), C.max()",
]


@settings(deadline=None, max_examples=examples(60))
@given(
    st.sampled_from(SIGNS),
    st.sampled_from(NUMBERS),
    st.sampled_from(USES),
    st.sampled_from(["csr", "csc", "coo"]),
    st.sampled_from(["f8", "f4", "i8"]),
    st.booleans(),
)
def test_comparisons_are_scipys(
    sign: str, number: Any, use: str, layout: str, dtype: str, turned: bool
) -> None:
    text = f"number {sign} X" if turned else f"X {sign} number"
    space = {"np": np, "number": number}
    function = eval(f"lambda X, v: (lambda C: ({use}))({text})", space)
    X, v = drawn(layout, dtype), np.arange(5.0)
    fused = fuse(function)
    expected = outcome(function, X.copy(), v)
    for _ in range(2):
        same(outcome(fused, X.copy(), v), expected)


@pytest.mark.parametrize(
    "text",
    [
        *("(X > 0).sum()", "(X != 0).sum(axis=1)", "(X <= -0.25).sum(axis=0)", "(X == 0.5).sum()"),
        *("X / (X != 0).sum(axis=1)[:, None]", "(X / (X.sum(axis=1) + 9.0)[:, None]) @ v"),
        *("(X.sum(), (X > 0).sum(), (X < 0).sum())", "(0.25 < X).sum()"),
    ],
)
def test_comparisons_are_fused(text: str) -> None:
    function = eval(f"lambda X, v: {text}", {"np": np})
    X = sp.random_array((60, 40), density=0.2, format="csr", rng=RNG)
    X.data -= 0.5
    fused = fuse(heuristic="all")(function)
    for _ in range(2):
        same(fused(X, np.arange(40.0)), outcome(function, X, np.arange(40.0)))
    assert fused.kernels
    assert "comparison" not in fused.explain()


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "?"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_quotients_by_dense_operands(layout: str, kind: str, dtype: str) -> None:
    X = drawn(layout, dtype)
    for shape in [(7, 1), (1, 5), (5,), (7, 5), (1, 1), (1,), ()]:
        dense = np.array(RNG.integers(0, 3, shape), kind)
        for function in (lambda X, d: X / d, lambda X, d: (X / (d + 1)).sum(axis=0)):
            expected = outcome(function, X, dense)
            same(outcome(fuse(function), X, dense), expected)
