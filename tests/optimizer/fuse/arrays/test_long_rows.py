"""Products of long rows look ahead in memory: whatever lies there, results are NumPy's."""

from typing import Any

import numpy as np
import pytest

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

RNG = np.random.default_rng(0)


def layouts(X: Any) -> dict[str, Any]:
    return {
        "C": X,
        "Fortran": np.asfortranarray(X),
        "every third row": np.repeat(X, 3, axis=0)[::3],
        "every other column": np.repeat(X, 2, axis=1)[:, ::2],
        "last row first": X[::-1],
        "float32": X.astype(np.float32),
        "unaligned": np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(X.dtype).reshape(X.shape),
        "whole numbers": np.rint(X * 9).astype(np.int32),
    }


@pytest.mark.parametrize("layout", layouts(np.zeros((1, 1))))
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (7, 70), (33, 65)])
def test_rows_times_a_narrow_matrix(layout: str, rows: int, columns: int) -> None:
    X = layouts(RNG.normal(size=(rows, columns)))[layout]
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    V = RNG.normal(size=(columns, 5)).astype(dtype)
    P = RNG.normal(size=(rows, 5)).astype(dtype)

    def core(X: Any, V: Any, P: Any) -> Any:
        Q = P * (X @ V)
        return X.T @ (Q - P * Q.sum(axis=1, keepdims=True)), np.tanh(Q)

    compare(core, fuse(core), [X, V, P])
