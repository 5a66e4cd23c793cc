"""A generalized linear model (Poisson counts, logarithmic link) by iteratively weighted squares.

    python examples/glm.py

McCullagh and Nelder, "Generalized Linear Models" (1989), section 2.5; the weighted squares are
solved by conjugate gradients, which never form X^T W X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensolog


def generate(rows: int = 20_000, columns: int = 15, seed: int = 0) -> tuple[Any, Any]:
    """Return points and counts whose logarithmic means are linear in the points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) / np.sqrt(columns)
    return X, rng.poisson(np.exp(X @ rng.normal(size=columns))).astype(float)


@tensolog.fuse
def poisson(X: Any, y: Any, penalty: float = 1e-3, steps: int = 30, tolerance: float = 1e-9) -> Any:
    """Return the w that minimizes sum(exp(X w) - y (X w)) + penalty |w|^2 / 2."""
    w = np.zeros(X.shape[1])
    first = None
    for _ in range(steps):
        mean = np.exp(X @ w)
        gradient = X.T @ (mean - y) + penalty * w
        rest = float(gradient @ gradient)
        first = rest if first is None else first
        if rest <= tolerance**2 * first:
            break
        residual = gradient
        search = -gradient
        step = np.zeros_like(w)
        for _ in range(w.size):
            product = X.T @ (mean * (X @ search)) + penalty * search
            alpha = rest / (search @ product)
            step = step + alpha * search
            residual = residual + alpha * product
            before, rest = rest, float(residual @ residual)
            if rest <= 1e-12 * first:
                break
            search = rest / before * search - residual
        w = w + step
    return w


if __name__ == "__main__":
    X, y = generate()
    w = poisson(X, y)
    print(f"mean deviation {np.mean((np.exp(X @ w) - y) ** 2 / np.exp(X @ w)):.3f}, 1 is expected")
    print(poisson.explain())
