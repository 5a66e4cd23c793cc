"""Rows that don't fill vectors are reduced cell by cell; a NaN in one of them stays there."""

from typing import Any

import numpy as np
import pytest

from tensolog import fuse
from tests.optimizer.fuse.compare import compare


def reduced(X: Any, Y: Any, v: Any) -> Any:
    lowest = X.min(axis=1, keepdims=True)
    P = (lowest >= X) * (Y - v)
    shares = np.exp(X - X.max(axis=1, keepdims=True))
    return P.sum(axis=0), (X * P).max(axis=0), P.sum(), lowest.sum(), shares.sum(axis=1), X.T @ P


@pytest.mark.parametrize("wide", [3, 5, 10])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_as_numpy(wide: int, dtype: str) -> None:
    rng = np.random.default_rng(wide)
    operands = [
        rng.normal(size=shape).astype(dtype) for shape in ((700, wide), (700, wide), (wide,))
    ]
    compare(reduced, fuse(heuristic="all")(reduced), operands)
    operands[0][[0, 13, 699], [0, 1, 2]] = [np.nan, np.inf, -np.inf]
    compare(reduced, fuse(heuristic="all")(reduced), operands)


def broadcast(X: Any, r: Any, c: Any, i: Any, k: Any) -> Any:
    return np.where(r < X, X * c, r) + i - k, ((X - r[0]) * c).sum()


@pytest.mark.parametrize("shape", [(700, 3), (700, 10), (103, 31), (2, 7), (1, 5), (1500, 1)])
@pytest.mark.parametrize("order", ["C", "F", "reversed"])
def test_rows_and_columns_beside_short_rows(shape: tuple[int, int], order: str) -> None:
    rng = np.random.default_rng(shape[1])
    rows, wide = shape
    X, c = rng.normal(size=shape), rng.normal(size=(rows, 1)).astype(np.float32)
    i, k = rng.integers(0, 99, wide, dtype=np.int16), rng.integers(0, 99, (rows, 1))
    operands = [X, rng.normal(size=(1, wide)), c.astype(float), i, k.astype(np.uint8)]
    if order == "F":
        operands = [np.asfortranarray(array) for array in operands]
    if order == "reversed":
        operands = [array[::-1] for array in operands]
    compare(broadcast, fuse(heuristic="all")(broadcast), operands)
    short = [array if array.dtype.kind in "iu" else array.astype(np.float32) for array in operands]
    compare(broadcast, fuse(heuristic="all")(broadcast), short)


def multiplied(X: Any, B: Any, v: Any) -> Any:
    return np.maximum(X @ B + v, 0) @ B.T, (B.T @ X.T) * 2


@pytest.mark.parametrize("wide", [2, 3, 4, 7, 10, 20, 33])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_narrow_products_however_matrices_lie(wide: int, dtype: str) -> None:
    rng = np.random.default_rng(wide)
    X, B = rng.normal(size=(701, 13)).astype(dtype), rng.normal(size=(13, wide)).astype(dtype)
    v = rng.normal(size=wide).astype(dtype)
    for matrix in (B, np.asfortranarray(B), B[::-1, ::-1], np.repeat(B, 2, axis=1)[:, ::2]):
        compare(multiplied, fuse(heuristic="all")(multiplied), [X, matrix, v])


def gathered(X: Any, Y: Any) -> Any:
    return X.T @ (Y * 2), (Y + 1).T @ X


@pytest.mark.parametrize("wide", [2, 3, 4, 5, 9, 13, 24, 26])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_of_narrow_rows_added_up(wide: int, dtype: str) -> None:
    rng = np.random.default_rng(wide)
    X, Y = rng.normal(size=(701, 7)).astype(dtype), rng.normal(size=(701, wide)).astype(dtype)
    compare(gathered, fuse(heuristic="all")(gathered), [X, Y])
