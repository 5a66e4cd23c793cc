"""Multinomial logistic regression by Newton's method, each step solved by conjugate gradients.

    python examples/mlogreg.py

Lin, Weng, Keerthi, "Trust Region Newton Method for Large-Scale Logistic Regression", JMLR 9 (2008);
here the steps are halved where they would not descend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensolog


def generate(
    rows: int = 10_000, columns: int = 20, classes: int = 4, seed: int = 0
) -> tuple[Any, Any]:
    """Return points, and for each the row of the identity that is its class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    scores = X @ rng.normal(size=(columns, classes)) + rng.gumbel(size=(rows, classes))
    return X, np.eye(classes)[scores.argmax(axis=1)]


@tensolog.fuse
def mlogreg(X: Any, Y: Any, penalty: float = 1.0, steps: int = 20, tolerance: float = 1e-8) -> Any:
    """Return the B that minimizes -sum(Y log softmax(X B)) + penalty |B|^2 / 2."""
    B = np.zeros((X.shape[1], Y.shape[1]))
    scores = X @ B
    loss = -np.sum(Y * log_softmax(scores))
    first = None
    for _ in range(steps):
        P = np.exp(log_softmax(scores))
        G = X.T @ (P - Y) + penalty * B
        size = float(np.sum(G * G))
        first = size if first is None else first
        if size <= tolerance**2 * first:
            break
        # Conjugate gradients: the Hessian is only ever multiplied with.
        D = np.zeros_like(B)
        R = G
        S = -R
        rest = size
        for _ in range(B.size):
            Q = P * (X @ S)
            HS = X.T @ (Q - P * Q.sum(axis=1, keepdims=True)) + penalty * S
            alpha = rest / np.sum(S * HS)
            D = D + alpha * S
            R = R + alpha * HS
            before, rest = rest, float(np.sum(R * R))
            if rest < 0.01 * size:
                break
            S = rest / before * S - R
        for _ in range(30):
            new = X @ (B + D)
            new_loss = -np.sum(Y * log_softmax(new)) + penalty / 2 * np.sum((B + D) ** 2)
            if new_loss <= loss:
                break
            D = D / 2
        B, scores, loss = B + D, new, new_loss
    return B


def log_softmax(scores: Any) -> Any:
    """Return the logarithms of the probabilities of the classes, row by row."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


if __name__ == "__main__":
    X, Y = generate()
    B = mlogreg(X, Y)
    print(f"{np.mean((X @ B).argmax(axis=1) == Y.argmax(axis=1)):.1%} of the classes are found")
    print(mlogreg.explain())
