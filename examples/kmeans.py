"""K-means clustering by Lloyd's algorithm.

    python examples/kmeans.py

Lloyd, "Least Squares Quantization in PCM", IEEE Transactions on Information Theory 28 (1982).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensolog


def generate(
    rows: int = 20_000, columns: int = 10, clusters: int = 5, seed: int = 0
) -> tuple[Any, Any]:
    """Return points around some centres, and points to start from."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(clusters, columns))
    X = centres[rng.integers(clusters, size=rows)] + rng.normal(size=(rows, columns))
    return X, X[rng.choice(rows, clusters, replace=False)]


@tensolog.fuse
def kmeans(X: Any, C: Any, steps: int = 50, tolerance: float = 1e-12) -> Any:
    """Return the centres that C moves to, and the sum of squared distances to the nearest one."""
    squares = np.sum(X * X)
    last = np.inf
    for _ in range(steps):
        # Squared distances up to what is the same for all centres.
        D = np.sum(C * C, axis=1) - 2 * (X @ C.T)
        nearest = D.min(axis=1, keepdims=True)
        P = (nearest >= D) * 1.0
        P = P / P.sum(axis=1, keepdims=True)
        distance = float(squares + nearest.sum())
        C = (P.T @ X) / np.maximum(P.sum(axis=0), 1)[:, None]
        if last - distance <= tolerance * distance:
            break
        last = distance
    return C, distance


if __name__ == "__main__":
    X, C = generate()
    found_centers, distance = kmeans(X, C)
    print(f"mean squared distance {distance / len(X):.3f} over {X.shape[1]} columns")
    print(kmeans.explain())
