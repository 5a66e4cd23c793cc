"""Calls with sparse arguments that aren't traced again do what SciPy does."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tensolog.optimizer.fuse.tracing import prepare

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

from .test_replayed_calls import function_of

RNG = np.random.default_rng(5)
KEPT = "Later calls like this one run the region at once"


def matrix(density: float = 0.3, kind: Any = sp.csr_array, seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    return kind(sp.random_array((60, 9), density=density, format="csr", rng=rng))


def operands_of(S: Any) -> list[Any]:
    return [S, *(RNG.normal(size=shape) for shape in ((60, 9), 60, 9)), 0.5]


STRAIGHT = [
    "X @ v",
    "X.T @ (w * (X @ v)), X.sum()",
    "np.exp(X @ v) - w",
    "X.multiply(Y).sum(), X.power(2).sum()",
    "abs(X).sum() * rate",
    "X.toarray() + Y",
]
# Sparse results, two sparse values that meet, branches, and what is written.
OTHERS = [
    "X * 2, X @ v",
    "X.multiply(X).sum()",
    "X.sum() if rate > 0 else 0",
    "X.data.sum() + (X @ v).sum()",
]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("text", STRAIGHT)
def test_replayed_calls_are_right_with_other_entries(text: str, kind: Any) -> None:
    plain = function_of(text)
    fused = fuse(plain)
    for seed in range(3):
        compare(plain, fused, operands_of(matrix(kind=kind, seed=seed)))
    assert KEPT in fused.explain()


@pytest.mark.parametrize("text", OTHERS)
def test_others_are_traced(text: str) -> None:
    plain = function_of(text)
    fused = fuse(plain)
    for seed in range(3):
        compare(plain, fused, operands_of(matrix(seed=seed)))
    assert KEPT not in fused.explain()


@pytest.mark.parametrize("layout", ["csc", "coo"])
def test_those_by_columns_or_coordinates_are_traced(layout: str) -> None:
    plain = function_of("X @ v")
    fused = fuse(plain)
    compare(plain, fused, operands_of(matrix().asformat(layout)))
    assert KEPT not in fused.explain()


def test_entries_twice_or_in_no_order_are_seen_in_later_calls() -> None:
    plain = function_of("X @ v, X.power(2).sum()")
    fused = fuse(plain)
    S = matrix()
    compare(plain, fused, operands_of(S))
    assert KEPT in fused.explain()
    places = (S.indices[::-1].copy(), np.r_[0, np.diff(S.indptr)[::-1].cumsum()])
    backwards = sp.csr_array((S.data, *places), shape=S.shape)
    indices = S.indices.copy()
    indices[1::2] = indices[::2][: len(indices[1::2])]
    doubled = sp.csr_array((S.data, indices, S.indptr), shape=S.shape)
    wide = sp.csr_array((S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)), S.shape)
    for other in (backwards, doubled, wide):
        assert plain(other, *operands_of(S)[1:])[0].shape == (60,)
        compare(plain, fused, operands_of(other))


def test_entries_that_are_written_between_calls_count() -> None:
    plain = function_of("X.T @ (X @ v)")
    fused = fuse(plain)
    S = matrix()
    arguments = operands_of(S)
    for factor in (1.0, 3.0, -2.0):
        S.data *= factor
        compare(plain, fused, arguments)
        np.testing.assert_allclose(fused(*arguments), plain(*arguments))


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_results_share_nothing_with_arguments(kind: Any) -> None:
    fused = fuse(function_of("X * 2, X.copy(), -X, X.T, X.multiply(Y)"))
    S = matrix(kind=kind)
    arguments = operands_of(S)
    expected = [
        array.toarray()
        for array in function_of("X * 2, X.copy(), -X, X.T, X.multiply(Y)")(*arguments)
    ]
    results = fused(*arguments)
    for first, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(first.toarray(), other)
        for name in ("data", "indices", "indptr", "row", "col"):
            if name == "data" or hasattr(first, name):
                memory, argument_memory = getattr(first, name), getattr(S, name, np.zeros(0))
                assert not np.may_share_memory(memory, argument_memory) and memory.flags.writeable
    for first in results:
        first.data[:] = 7.0
    S.data[:] = 9.0
    assert all((array.data == 7.0).all() for array in results)


LEFT = {"S.copy()": True, "S.sum()": True, "(S.sum(), S.T)": True, "abs(S).sum()": False}


@pytest.mark.parametrize("text", LEFT)
def test_what_only_copies_or_adds_up_is_left_to_scipy(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 1e-9)
    plain = eval(f"lambda S: {text}")
    fused = fuse(plain)
    S = sp.random_array((3000, 200), density=0.2, format="csr", rng=np.random.default_rng(0))
    compare(plain, fused, [S])
    left = "aren't traced: NumPy is done sooner" in fused.explain()
    assert left == LEFT[text]
