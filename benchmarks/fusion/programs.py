"""The expressions of the benchmark: as NumPy code over any array module, and their arguments.

Sizes are rows: of the table, and of the paper's evaluation (PVLDB 2018, section 5) with --full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """An expression: `make` writes it over an array module, `draw` its arguments of so many rows.

    `entries` is the same at the stored entries of a sparse first argument, which is given as
    values, rows and columns: for peers that don't divide the work that way by themselves.
    `numexpr` is its text there, by the arguments' names X, Y, Z. `bound` says that memory is what
    limits it: then the time of reading its arguments once is stated beside it.
    """

    make: Callable[[Any], Function]
    draw: Callable[[Any, int], tuple[Any, ...]]
    rows: int
    full: int
    numexpr: tuple[str, ...] = ()
    entries: Callable[[Any], Function] | None = None
    bound: bool = True


def sparse(rng: Any, rows: int, columns: int, density: float) -> Any:
    """Return a random matrix by rows, without duplicates, of about that density."""
    import scipy.sparse

    counts = rng.binomial(columns, density, size=rows)
    begins = np.concatenate([[0], np.cumsum(counts)])
    # distinct columns of a row: one of each of `count` equal strips
    within = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
    wide = np.repeat(counts, counts)
    low, high = within * columns // wide, (within + 1) * columns // wide
    chosen = low + (rng.random(begins[-1]) * (high - low)).astype(np.int64)
    parts = (rng.random(begins[-1]), chosen.astype(np.int32), begins.astype(np.int32))
    return scipy.sparse.csr_array(parts, shape=(rows, columns))


def read_bytes(arguments: tuple[Any, ...]) -> int:
    """Return the bytes of arguments, of sparse ones those of values, columns and row ends."""
    size_bytes = 0
    for argument in arguments:
        if hasattr(argument, "indptr"):
            size_bytes += argument.data.nbytes + argument.indices.nbytes + argument.indptr.nbytes
        else:
            size_bytes += argument.nbytes
    return size_bytes


def _dense(columns: int, count: int) -> Callable[[Any, int], tuple[Any, ...]]:
    return lambda rng, rows: tuple(rng.normal(size=(rows, columns)) for _ in range(count))


def _with_vectors(columns: int, weights: bool, density: float = 1.0) -> Any:
    def draw(rng: Any, rows: int) -> tuple[Any, ...]:
        whole = density == 1.0
        X = rng.normal(size=(rows, columns)) if whole else sparse(rng, rows, columns, density)
        return (X, rng.normal(size=columns), *([rng.random(rows)] if weights else []))

    return draw


def _product_sum(xp: Any) -> Function:
    return lambda X, Y, Z: (X * Y * Z).sum()


def _sparse_product_sum(xp: Any) -> Function:
    return lambda S, Y, Z: S.multiply(Y).multiply(Z).sum()


def _product_sum_at_entries(xp: Any) -> Function:
    return lambda s, rows, columns, Y, Z: (s * Y[rows, columns] * Z[rows, columns]).sum()


def _two_sums(xp: Any) -> Function:
    return lambda X, Y, Z: ((X * Y).sum(), (X * Z).sum())


def _distance(xp: Any) -> Function:
    return lambda X, Y, Z: ((X - Y) ** 2 * Z / (1 + xp.abs(X))).sum()


def _chain(xp: Any) -> Function:
    return lambda X, v: X.T @ (X @ v)


def _weighted_chain(xp: Any) -> Function:
    return lambda X, v, w: X.T @ (w * (X @ v))


def _mlogreg(xp: Any) -> Function:
    def core(X: Any, V: Any, P: Any) -> Any:
        Q = P * (X @ V)
        return X.T @ (Q - P * Q.sum(axis=1, keepdims=True))

    return core


def _mlogreg_draw(rng: Any, rows: int) -> tuple[Any, ...]:
    return rng.normal(size=(rows, 100)), rng.normal(size=(100, 4)), rng.random((rows, 4))


def _cross_entropy(xp: Any) -> Function:
    return lambda S, U, V: S.multiply(xp.log(U @ V.T + 1e-15)).sum()


def _cross_entropy_at_entries(xp: Any) -> Function:
    return lambda s, rows, columns, U, V: (
        s * xp.log((U[rows] * V[columns]).sum(axis=1) + 1e-15)
    ).sum()


def _factors(rank: int) -> Callable[[Any, int], tuple[Any, ...]]:
    def draw(rng: Any, size: int) -> tuple[Any, ...]:
        S = sparse(rng, size, size, 0.01)
        return S, rng.random((size, rank)), rng.random((size, rank))

    return draw


def _probit(xp: Any) -> Function:
    """Return a probit model's gradient, Hessian product, deviance and sum of weights."""
    from scipy.special import erf

    if xp is not np:
        erf = xp.erf if hasattr(xp, "erf") else _jax_erf()

    def step(X: Any, b: Any, y: Any, v: Any) -> Any:
        eta = X @ b
        mean = 0.5 * (1 + erf(eta * 0.7071067811865476))
        density = xp.exp(-0.5 * (eta * eta)) * 0.3989422804014327
        variance = mean * (1 - mean) + 1e-9
        residual = (y - mean) * density / variance
        weight = density * density / variance
        hessian = X.T @ (weight * (X @ v))
        return X.T @ residual, hessian, (residual * (y - mean)).sum(), weight.sum()

    return step


def _jax_erf() -> Any:
    from jax.scipy.special import erf

    return erf


def _probit_draw(rng: Any, rows: int) -> tuple[Any, ...]:
    X, b, v = rng.normal(size=(rows, 10)), rng.normal(size=10) / 5, rng.normal(size=10)
    return X, b, (rng.random(rows) > 0.5) * 1.0, v


PROGRAMS: Mapping[str, Program] = {
    "sum(X*Y*Z)": Program(_product_sum, _dense(1_000, 3), 10_000, 20_000, ("sum(X*Y*Z)",)),
    "sum(S*Y*Z), S sparse .1": Program(
        _sparse_product_sum,
        lambda rng, rows: (sparse(rng, rows, 1_000, 0.1), *_dense(1_000, 2)(rng, rows)),
        10_000,
        50_000,
        entries=_product_sum_at_entries,
        bound=False,  # of Y and Z most lines are read, for a few of their numbers
    ),
    "sum(X*Y), sum(X*Z)": Program(
        _two_sums, _dense(1_000, 3), 10_000, 20_000, ("sum(X*Y)", "sum(X*Z)")
    ),
    "sum((X-Y)^2*Z/(1+|X|))": Program(
        _distance, _dense(1_000, 3), 10_000, 20_000, ("sum((X-Y)**2*Z/(1+abs(X)))",)
    ),
    "X'(Xv)": Program(_chain, _with_vectors(100, False), 100_000, 200_000),
    "X'(w*(Xv))": Program(_weighted_chain, _with_vectors(100, True), 100_000, 200_000),
    "S'(w*(Sv)), S sparse .05": Program(
        _weighted_chain, _with_vectors(1_000, True, 0.05), 100_000, 200_000, bound=False
    ),
    "MLogreg core, k=4": Program(_mlogreg, _mlogreg_draw, 200_000, 200_000),
    "GLM, probit": Program(_probit, _probit_draw, 200_000, 500_000, bound=False),
    "sum(S*log(UV'+eps)), rank 20": Program(
        _cross_entropy,
        _factors(20),
        5_000,
        10_000,
        entries=_cross_entropy_at_entries,
        bound=False,
    ),
    "sum(S*log(UV'+eps)), rank 100": Program(
        _cross_entropy,
        _factors(100),
        5_000,
        10_000,
        entries=_cross_entropy_at_entries,
        bound=False,
    ),
    "exp(X)": Program(
        lambda xp: lambda X: xp.exp(X), _dense(1_000, 1), 4_000, 20_000, ("exp(X)",), bound=False
    ),
    "tanh(X*Y+1)*X": Program(
        lambda xp: lambda X, Y: xp.tanh(X * Y + 1) * X,
        _dense(1_000, 2),
        4_000,
        20_000,
        ("tanh(X*Y+1)*X",),
        bound=False,
    ),
}
