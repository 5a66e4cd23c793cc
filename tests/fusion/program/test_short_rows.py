"""Rows that don't fill vectors are reduced cell by cell; a NaN in one of them stays there."""

from typing import Any

import numpy as np
import pytest

from tensolog import fuse

from .compare import compare


def reduced(X: Any, Y: Any, v: Any) -> Any:
    lowest = X.min(axis=1, keepdims=True)
    P = (lowest >= X) * (Y - v)
    shares = np.exp(X - X.max(axis=1, keepdims=True))
    return P.sum(axis=0), (X * P).max(axis=0), P.sum(), lowest.sum(), shares.sum(axis=1), X.T @ P


@pytest.mark.parametrize("wide", [3, 5, 10])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_as_numpy(wide: int, dtype: str) -> None:
    rng = np.random.default_rng(wide)
    given = [rng.normal(size=shape).astype(dtype) for shape in ((700, wide), (700, wide), (wide,))]
    compare(reduced, fuse(heuristic="all")(reduced), given)
    given[0][[0, 13, 699], [0, 1, 2]] = [np.nan, np.inf, -np.inf]
    compare(reduced, fuse(heuristic="all")(reduced), given)
