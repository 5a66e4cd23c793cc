"""Ridge regression by conjugate gradients, over rows that workers hold, in blocks.

    pip install 'tensolog[dask]' && python examples/ridge_blocks.py

Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems" (1952), on
(X'X + penalty I) w = X'y without forming X'X: each step is one pass over each block.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import tensolog


def generate(rows: int = 400_000, columns: int = 20, chunk: int = 50_000) -> tuple[Any, Any]:
    """Return rows of numbers and a noisy linear function of them, as dask arrays."""
    random = da.random.default_rng(0)
    X = random.normal(size=(rows, columns), chunks=(chunk, columns))
    y = X @ np.arange(1.0, columns + 1) + random.normal(size=rows, chunks=chunk)
    return X, y


@tensolog.fuse(memory=50e6)
def ridge(X: Any, y: Any, penalty: float = 1.0, tolerance: float = 1e-18, steps: int = 100) -> Any:
    """Return the w that minimizes |X w - y|^2 + penalty |w|^2."""
    w = np.zeros(X.shape[1])
    residual = X.T @ y
    direction = residual
    size = first = residual @ residual
    for _ in range(steps):
        curved = X.T @ (X @ direction) + penalty * direction
        step = size / (direction @ curved)
        w = w + step * direction
        residual = residual - step * curved
        before, size = size, residual @ residual
        if size < tolerance * first:
            break
        direction = residual + size / before * direction
    return w


if __name__ == "__main__":
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        X, y = generate()
        X, y = X.persist(), y.persist()
        print(np.round(ridge(X, y), 2))
        print(ridge.explain())
