"""A linear support vector machine with squared hinge loss, by nonlinear conjugate gradients.

    python examples/l2svm.py

Keerthi and DeCoste, "A Modified Finite Newton Method for Fast Solution of Large Scale Linear
SVMs", JMLR 6 (2005); the line search is a Newton method in one dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensolog


def generate(rows: int = 20_000, columns: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Return points and labels of -1 and 1 that a plane nearly separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    noise = rng.normal(size=rows)
    return X, np.where(X @ rng.normal(size=columns) + noise > 0, 1.0, -1.0)


@tensolog.fuse
def l2svm(X: Any, y: Any, penalty: float = 1.0, tolerance: float = 1e-9, steps: int = 100) -> Any:
    """Return the w that minimizes sum(max(0, 1 - y (X w))^2) / 2 + penalty |w|^2 / 2."""
    w = np.zeros(X.shape[1])
    Xw = np.zeros_like(y)
    gradient = X.T @ y
    direction = gradient
    for _ in range(steps):
        Xd = X @ direction
        step = 0.0
        for _ in range(20):
            out = np.maximum(1 - y * (Xw + step * Xd), 0)
            slope = penalty * (w @ direction + step * (direction @ direction)) - (out * y) @ Xd
            curvature = penalty * (direction @ direction) + ((out > 0) * Xd) @ Xd
            step = step - slope / curvature
            if slope * slope < 1e-20 * curvature:
                break
        w = w + step * direction
        Xw = Xw + step * Xd
        out = np.maximum(1 - y * Xw, 0)
        loss = 0.5 * (out @ out) + penalty / 2 * (w @ w)
        old, gradient = gradient, X.T @ (out * y) - penalty * w
        if step * (direction @ old) < tolerance * loss:
            break
        direction = gradient + (gradient @ gradient) / (old @ old) * direction
    return w


if __name__ == "__main__":
    X, y = generate()
    w = l2svm(X, y)
    print(f"{np.mean(np.sign(X @ w) == y):.1%} of the labels are found")
    print(l2svm.explain())
