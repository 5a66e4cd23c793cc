"""Sparse arguments of all formats and kinds give what SciPy gives."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tensolog import fuse

from .compare import compare

RNG = np.random.default_rng(0)
M, N, K = 40, 30, 4
S = sp.random_array((M, N), density=0.2, format="csr", rng=RNG)
D = RNG.normal(size=(M, N))
U, V = RNG.normal(size=(M, K)), RNG.normal(size=(N, K))
v, w, c = RNG.normal(size=N), RNG.normal(size=M), RNG.normal(size=(M, 1))
AT = S.tocoo()

KINDS: dict[str, Any] = {
    "csr_array": S,
    "csc_array": S.tocsc(),
    "coo_array": AT,
    "csr_matrix": sp.csr_matrix(S),
    "csc_matrix": sp.csc_matrix(S),
    "coo_matrix": sp.coo_matrix(S),
    "float32": S.astype(np.float32),
    "int": (S * 10).astype(int),
    "bool": S.astype(bool),
    "lil": S.tolil(),
    "empty": sp.csr_array((M, N)),
    "duplicates and explicit zeros": sp.coo_array(
        (np.r_[AT.data, 1, 2, 0], (np.r_[AT.row, 0, 0, 3], np.r_[AT.col, 0, 0, 3])), shape=(M, N)
    ),
    "unsorted": sp.csr_array(
        (np.array([1.0, 2, 3]), np.array([9, 2, 2]), np.r_[0, 3, [3] * (M - 1)]), shape=(M, N)
    ),
    "empty rows": sp.csr_array(
        (S.data * np.repeat(np.arange(M) % 3 == 0, np.diff(S.indptr)), S.indices, S.indptr),
        shape=(M, N),
    ),
}

TEXTS = """
S @ v; S.T @ w; S.T @ (w * (S @ v)); S.T @ (S @ v); w @ S; D.T @ S; U.T @ S; S.T @ U; S.dot(V)
S.multiply(D).sum(); S.multiply(D); S.multiply(c); S.multiply(v); S.multiply(S); S.multiply(2.0)
S.multiply(np.log(abs(U @ V.T) + 1e-15)).sum(); (S.multiply(U @ V.T) - S) @ V
S.multiply(U @ V.T - 1) @ V; S.T.multiply(D.T).sum(); np.exp(-abs(U @ V.T)) * S.toarray()
S.sum(); S.sum(axis=0); S.sum(axis=1); np.sum(S); S.mean(axis=0); S.max(); S.mean()
S * 2; 2 * S; S / 2; -S; abs(S); np.sqrt(S); S.power(2); S.power(2).sum(); S.power(3); S * S.sum()
S * np.float64(3); S * np.float32(3); S.astype(np.float32); S.copy(); S.T; S; S.T.T @ v; S.T.T
S.toarray() + 1; S.T.toarray(); S + D; D - S; S - S; S.tocsc() @ v; S.tocoo(); S.tocsr() @ v
S[2]; S[1:3]; S > 0.5; S != 0; S.data; S.nnz; S.getnnz(); S.shape; S.dtype; S.format; S.diagonal()
sp.vstack([S, S]); sp.issparse(S); isinstance(S, sp.sparray); S @ S.T; S.T @ S; S.eliminate_zeros()
S * D; S * v; D * S; S ** 2; np.exp(S); S + 1; S.tolil(); S.log1p(); np.expm1(S); sp.linalg.norm(S)
"""


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("kind", KINDS)
def test_as_scipy(kind: str) -> None:
    for text in TEXTS.replace("\n", ";").split(";"):
        if text.strip():
            check(text.strip(), KINDS[kind])


def check(text: str, given: Any) -> None:
    names = {"np": np, "sp": sp, "D": D, "U": U, "V": V, "v": v, "w": w, "c": c}
    plain = eval(f"lambda S: ({text})", names)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain(given.copy())
        except Exception as expected:
            with pytest.raises(type(expected)):
                fuse(plain)(given.copy())
            return
        try:
            compare(plain, fuse(plain), [given])
        except ValueError:
            assert text == "S.data", text  # of another size after an addition of duplicates


@pytest.mark.usefixtures("node_by_node")
def test_a_sparse_argument_returned_is_itself() -> None:
    assert fuse(lambda S: S)(S) is S


@pytest.mark.usefixtures("node_by_node")
def test_results_share_no_memory_with_arguments() -> None:
    given = S.copy()
    doubled = fuse(lambda S: S * 2)(given)
    doubled.data[:] = 0
    doubled.eliminate_zeros()
    assert (given != S).nnz == 0


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.usefixtures("node_by_node")
def test_an_assignment_is_seen_by_what_comes_after_it() -> None:
    def function(S: Any) -> Any:
        before = S @ v
        S[0, 0] = 100.0
        return before, S @ v

    compare(function, fuse(function), [sp.csr_array(S)])


@pytest.mark.parametrize(
    "text",
    [
        "S.T @ (w * (S @ v))",
        "S.multiply(np.log(abs(U @ V.T) + 1e-15)).sum()",
        "S.multiply(D).sum()",
        "(S.multiply(U @ V.T) - S) @ V",
        "S.multiply(U @ V.T) @ V - S @ V + 0.1 * U",
        "(S.multiply(c) @ (D.T * 2)).T.sum()",
    ],
)
@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "empty rows", "empty"])
def test_kernels(text: str, kind: str) -> None:
    """The programs that the templates are for, compiled."""
    names = {"np": np, "D": D, "U": U, "V": V, "v": v, "w": w, "c": c}
    plain = eval(f"lambda S: ({text})", names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(plain, fuse(plain), [KINDS[kind]])
