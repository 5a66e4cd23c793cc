"""Functions over operands in blocks give what NumPy gives, with sums taken in another order."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tensolog.optimizer.fuse.blocks import block_passes, block_plan
from tensolog.optimizer.fuse.tracing import prepare, region_engine

from tensolog import fuse
from tests.optimizer.fuse.compare import compare
from tests.optimizer.fuse.random_programs import random_case

pytest.importorskip("dask", reason="values in blocks need Dask: pip install 'tensolog[dask]'")

RNG = np.random.default_rng(0)
M, N = 53, 6
X, Y = RNG.normal(size=(M, N)), RNG.normal(size=(M, N))
w, v, r = RNG.normal(size=M), RNG.normal(size=N), RNG.normal(size=(1, N))
S = sp.random_array((M, N), density=0.3, format="csr", rng=RNG)

TEXTS = """
X @ v; X.T @ w; w @ X; X.T @ (X @ v); X.T @ (w * (X @ v)); X.T @ X; X @ X.T[:, :2]; (X @ v) @ w
(X * Y).sum(); (X * Y).sum(axis=0); (X * Y).sum(axis=1); X.mean(); X.mean(axis=0); X.mean(axis=1)
X.max(), X.min(axis=0), X.max(axis=1, keepdims=True); X.prod(axis=0); X.var(axis=0), X.std()
(X - X.mean(axis=0)) / X.std(axis=0); np.exp(X - X.max(axis=1, keepdims=True)); X / X.sum(axis=0)
X + v, X * w[:, None], X - r, w[:, None] * v; np.where(X > Y, X, r); np.clip(X, -1, v); X ** 3
(X > 0).any(axis=0), (X > -9).all(), (X > 0).any(axis=1); X.argmax(axis=1); X.argmax(axis=0)
np.log1p(abs(X)), np.hypot(X, v); X.cumsum(axis=1); X.cumsum(axis=0); X.astype("f4").sum(axis=0)
X.T, X.T * 2, (X.T @ X) @ X.T; X[:, 1:3] @ v[1:3]; X[2:5] * 2; X[::-1].sum(axis=1); X[3], X[3, 1]
X[:, None] * 2, X.reshape(-1), X.reshape(M, 2, 3).sum(axis=2); np.squeeze(w[:, None] * 2)
np.concatenate([X, Y], axis=1); np.concatenate([X, Y]); np.concatenate([X, w[:, None]], axis=1)
np.linalg.norm(X), np.linalg.norm(X, axis=1); np.sort(X, axis=0), np.median(X); X.copy(), X; -X + 1
float(X.sum()) * X; X[X > 0], X[[1, 2]]; X @ np.ones((N, 3)), np.ones(M) @ X; np.outer(w, v), w @ w
[row.sum() for row in X[:3]]; np.broadcast_to(v, X.shape) + X; X.sum(), (X - X.sum()).max(), w
np.maximum.accumulate(X, axis=1); np.maximum.accumulate(X); np.subtract.reduce(X, axis=1)
np.subtract.reduce(X); np.multiply.accumulate(X, axis=1).sum(axis=0); np.logaddexp.reduce(X, 1)
"""
PARTS = [text.strip() for text in TEXTS.replace("\n", ";").split(";") if text.strip()]


@pytest.fixture(autouse=True)
def in_blocks_wherever_that_goes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute all in blocks, by NumPy: kernels and costs have tests of their own."""

    def prepared(program: Any, options: Any) -> prepare.Prepared:
        return prepare.Prepared(program, program, options, refusal="a test")

    monkeypatch.setattr(block_passes, "prepare", prepared)
    monkeypatch.setattr(region_engine, "prepare", prepared)
    monkeypatch.setattr(block_plan, "_here_s", lambda *_: 1e9)
    monkeypatch.setattr(block_plan, "_plan_s", lambda *_: 0.0)
    yield


def fused(function: Any, most_bytes: int = 200) -> Any:
    """Return a fused function that takes arrays of more bytes in blocks, whatever fits."""
    fused_function = fuse(function)
    fused_function._engine.most_bytes = most_bytes
    return fused_function


def run(text: str, names: str, inputs: list[Any]) -> Any:
    plain = eval(f"lambda {names}: ({text})", {"np": np, "M": M, "N": N})
    fused_function = fused(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(plain, fused_function, inputs)
    return fused_function


@pytest.mark.parametrize(
    "text", [text.strip() for text in TEXTS.replace("\n", ";").split(";") if text]
)
def test_dense_functions_in_blocks(text: str) -> None:
    run(text, "X, Y, w, v, r", [X, Y, w, v, r])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_sparse_functions_in_blocks(layout: str) -> None:
    for text in ("S @ v, S.T @ w", "S.T @ (w * (S @ v))", "S.multiply(X).sum()", "S.sum(axis=0)"):
        run(text, "S, X, w, v", [S.asformat(layout), X, w, v])
    for text in ("S * 2", "S.sum(), S.max()", "abs(S).sum(axis=1)", "S.toarray() + X", "S.T"):
        run(text, "S, X, w, v", [S.asformat(layout), X, w, v])


@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "Fortran", "strided", "read-only"])
def test_element_types_in_blocks(kind: str) -> None:
    array: Any = {"Fortran": np.asfortranarray(X), "strided": np.repeat(X, 2, 0)[::2]}.get(kind)
    if array is None:
        array = X.copy() if kind == "read-only" else (X * 3).astype(kind)
    array.setflags(write=kind != "read-only")
    run("X.T @ (X @ v), (X * 2).sum(axis=0), X.mean(axis=1)", "X, v", [array, v])


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    case = random_case(seed)
    function = case.function()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(function, fused(function), list(case.inputs.values()))


def test_nan_and_infinities_stand_where_numpy_has_them() -> None:
    special = X.copy()
    special[5, 2], special[40, 1], special[9, 3] = np.nan, np.inf, -np.inf
    run("X.sum(axis=0), X.max(axis=0), X.min(), X * 0, X.mean(axis=1)", "X", [special])


def test_what_is_written_is_the_array_itself() -> None:
    def function(X: Any) -> Any:
        before = X.sum(axis=0)
        X *= 2
        X[3] = 7.0
        return before, X.sum(axis=0), X

    first, other = X.copy(), X.copy()
    results, expected = fused(function)(first), function(other)
    for left, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(left, right)
    np.testing.assert_array_equal(first, other)
    assert results[2] is first


def test_a_copy_of_an_argument_is_a_copy() -> None:
    argument = X.copy()
    copied, same = fused(lambda X: (X.copy(), X))(argument)
    copied[...] = 0
    np.testing.assert_array_equal(argument, X)
    assert same is argument
