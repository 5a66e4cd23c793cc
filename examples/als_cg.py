"""Matrix factorization by alternating least squares over a sparse matrix, by conjugate gradients.

    python examples/als_cg.py

Zhou, Wilkinson, Schreiber, Pan, "Large-Scale Parallel Collaborative Filtering for the Netflix
Prize", AAIM 2008. Only the stored entries of X count: U V^T is never formed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import tensolog


def generate(
    rows: int = 600, columns: int = 500, rank: int = 4, density: float = 0.1, seed: int = 0
) -> Any:
    """Return a CSR array whose entries come from two thin factors and some noise."""
    rng = np.random.default_rng(seed)
    pattern = sp.random_array((rows, columns), density=density, format="csr", rng=rng)
    pattern_coo = pattern.tocoo()
    U, V = rng.normal(size=(rows, rank)), rng.normal(size=(columns, rank))
    values = np.sum(U[pattern_coo.row] * V[pattern_coo.col], axis=1) + 0.01 * rng.normal(
        size=pattern_coo.nnz
    )
    return sp.csr_array((values, (pattern_coo.row, pattern_coo.col)), shape=pattern.shape)


@tensolog.fuse
def factor(X: Any, W: Any, U: Any, V: Any, penalty: float = 0.1, steps: int = 60) -> Any:
    """Return the U that minimizes sum(W (X - U V^T)^2) / 2 + penalty |U|^2 / 2, starting at U.

    W is 1 where X has an entry.
    """
    R = W.multiply(U @ V.T) @ V - X @ V + penalty * U
    S = -R
    rest = first = float(np.sum(R * R))
    for _ in range(steps):
        HS = W.multiply(S @ V.T) @ V + penalty * S
        alpha = rest / np.sum(S * HS)
        U = U + alpha * S
        R = R + alpha * HS
        before, rest = rest, float(np.sum(R * R))
        if rest <= 1e-18 * first:
            break
        S = rest / before * S - R
    return U


@tensolog.fuse
def loss(X: Any, W: Any, U: Any, V: Any, penalty: float = 0.1) -> Any:
    """Return what factor minimizes."""
    error = W.multiply(U @ V.T) - X
    return 0.5 * error.power(2).sum() + penalty / 2 * (np.sum(U * U) + np.sum(V * V))


def als(X: Any, rank: int = 4, rounds: int = 10, seed: int = 1) -> tuple[Any, Any, list[float]]:
    """Return U, V and the loss before each round."""
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(X.shape[0], rank)), rng.normal(size=(X.shape[1], rank))
    W = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    Xt, Wt = X.T.tocsr(), W.T.tocsr()
    losses = []
    for _ in range(rounds):
        losses.append(float(loss(X, W, U, V)))
        U = factor(X, W, U, V)
        V = factor(Xt, Wt, V, U)
    return U, V, losses


if __name__ == "__main__":
    X = generate()
    U, V, losses = als(X)
    print("loss by round:", *(f"{value:.1f}" for value in losses))
    print(factor.explain())
