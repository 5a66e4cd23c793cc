"""Sparse arguments of all formats and kinds give what SciPy gives."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tensolog.optimizer.fuse.codegen import row_products

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

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
    "bsr": S.tobsr(),
    "dok": S.todok(),
    "dia": S.todia(),
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
S * D; S * v; D * S; S ** 2; np.exp(S); S + 1; S.tolil(); S.log1p(); np.expm1(S); S.nonzero()[0]
S.multiply([2.0]); S.multiply(np.array(3.0)); S.multiply(np.array([[2.0]])); S / 0; S / 4; S * 0
S.maximum(0.5); S.minimum(0); S.power(0.5); S.power(-1); S / D; S / np.float32(2); np.multiply(S, 2)
np.sign(S); np.floor(S); np.sqrt(S); np.rint(S); np.trunc(S); np.negative(S); round(S); -abs(S)
[row.sum() for row in S]; S[0].sum(); [S[i].nnz for i in range(3)]; bool(S); 0.5 in S
copy.copy(S) * 2; copy.deepcopy(S).sum(); pickle.loads(pickle.dumps(S)) @ v; S.count_nonzero()
(S != 0).multiply(D); (S > 0.1).sum(axis=0); sp.diags(w) @ S; S @ sp.diags(v); S.T.multiply(w).sum()
S // 2; S % 2; 2 ** S; S // D; D % S; S % S; 2 // S; v ** S; S < D; 2 / S
S @ list(v); S.T @ tuple(w); list(w) @ S; S.multiply([list(v)]); (S * 2) @ ([v[0]] * S.shape[1])
S.sum(axis=0) * 2; np.asarray(S.sum(axis=1)).ravel() + w; w @ (S @ v); (S @ V).argmin(axis=1)
"""

WRITES = """
S *= 2; S /= 4; S *= 0.5; S += S; S -= S; S.data *= 2; S.data[:] = abs(S.data); S.data = S.data ** 2
S.setdiag(5.0); S.eliminate_zeros(); S.sum_duplicates(); S.sort_indices(); S[0, 0] = 9.0
"""


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("kind", KINDS)
def test_as_scipy(kind: str) -> None:
    for text in TEXTS.replace("\n", ";").split(";"):
        if text.strip():
            check(text.strip(), KINDS[kind])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lil"])
@pytest.mark.parametrize("text", [text for text in WRITES.replace("\n", ";").split(";") if text])
def test_writes_as_scipy(text: str, kind: str) -> None:
    """What is read before, what after, and the argument itself."""
    names: dict[str, Any] = {"v": v}
    lines = ["before = S @ v", "B = S * 1.0", text.strip(), "return before, S @ v, B @ v, S"]
    exec("def function(S):\n    " + "\n    ".join(lines), names)
    first, other = KINDS[kind].copy(), KINDS[kind].copy()
    try:
        expected = names["function"](first)
    except Exception as error:
        with pytest.raises(type(error)):
            fuse(names["function"])(other)
        return
    results = fuse(names["function"])(other)
    assert [type(result) for result in results] == [type(result) for result in expected]
    for left, right in zip(
        [*results[:3], other.toarray()], [*expected[:3], first.toarray()], strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-12)
        assert left.dtype == right.dtype
    assert (results[3] is other) == (expected[3] is first)


def check(text: str, sparse: Any) -> None:
    names = {"np": np, "sp": sp, "D": D, "U": U, "V": V, "v": v, "w": w, "c": c}
    names |= {"copy": copy, "pickle": pickle}
    plain = eval(f"lambda S: ({text})", names)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain(sparse.copy())
        except Exception as expected:
            with pytest.raises(type(expected)):
                fuse(plain)(sparse.copy())
            return
        try:
            compare(plain, fuse(plain), [sparse])
        except ValueError:
            assert text == "S.data", text  # of another size after an addition of duplicates


def test_several_results_of_one_sparse_product_are_planned() -> None:
    """Two partitions, and in each of them sums over rows that could share a pass."""

    def function(S: Any, v: Any, y: Any, V: Any) -> Any:
        scores = S @ v
        chance = 1 / (1 + np.exp(-scores))
        errors = scores - y
        return (
            chance,
            np.exp(scores).sum(),
            S.T @ (chance - y),
            np.maximum(S @ V, 0),
            errors @ errors,
        )

    for matrix in (KINDS["csr_array"], KINDS["csc_array"]):
        fused = fuse(function)
        compare(function, fused, [matrix, v, w, V])
        assert fused.kernels


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_products_that_are_zero_are_not_stored(layout: str) -> None:
    other = sp.random_array((M, N), density=0.3, format="csr", rng=np.random.default_rng(1))
    for first, second in ((S, other), (S, S)):
        operands = first.asformat(layout), second.asformat(layout)
        product = fuse(heuristic="all")(lambda S, T: S.multiply(T))(*operands)
        expected = operands[0].multiply(operands[1])
        assert (product.nnz, product.format) == (expected.nnz, expected.format)
        np.testing.assert_allclose(product.toarray(), expected.toarray())
        assert operands[0].nnz == first.nnz


@pytest.mark.usefixtures("node_by_node")
def test_a_sparse_argument_returned_is_itself() -> None:
    assert fuse(lambda S: S)(S) is S


@pytest.mark.usefixtures("node_by_node")
def test_results_share_no_memory_with_arguments() -> None:
    argument = S.copy()
    doubled = fuse(lambda S: S * 2)(argument)
    doubled.data[:] = 0
    doubled.eliminate_zeros()
    assert (argument != S).nnz == 0


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
def test_sparse_programs_of_the_templates(text: str, kind: str) -> None:
    """The programs that the templates are for, compiled."""
    names = {"np": np, "D": D, "U": U, "V": V, "v": v, "w": w, "c": c}
    plain = eval(f"lambda S: ({text})", names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(plain, fuse(plain), [KINDS[kind]])


LONG = sp.random_array((300, 220), density=0.4, format="csr", rng=RNG)
LONG.data[LONG.indptr[7] : LONG.indptr[90]] = 0.0
LONG.eliminate_zeros()  # rows without entries in the middle of a tile
DENSE = RNG.normal(size=LONG.shape)
LAYOUTS = {
    "rows": DENSE,
    "columns": np.asfortranarray(DENSE),
    "strided": np.repeat(DENSE, 2, axis=1)[:, ::2],
    "backwards": DENSE[::-1].copy()[::-1],
    "a row": np.broadcast_to(DENSE[:1], LONG.shape),
    "bool": DENSE > 0,
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("heuristic", ["cost", "all"])
@pytest.mark.parametrize("density", [0.05, 0.5])
@pytest.mark.parametrize(
    "text",
    """(S - T) @ v; (S * T) @ v; (S * T * Y).sum(axis=1); ((S - T) * Y).sum(axis=1)
    S.multiply(T) @ v; ((S > 0.5) * S) @ v; ((S + T) * Y).sum(axis=0); S.T @ ((S * T) @ v)
    (S * T) @ W; (S * 0) @ v
    (S - (S != 0) * (U @ V.T)) @ W; (S.multiply(U @ V.T) - S) @ W; ((S + S * Y) * Y).sum(axis=1)
    (S * S) @ v; (-(S * T) * 2) @ v; (S * T).T @ w; w @ (S * T); (S * T * S).multiply(Y).sum()
    (S.power(2) * Y).sum(axis=1); (S**3 * Y).sum(axis=0); (S ** 2) @ v; S.power(3) @ W
    S * Y + U @ V.T; (np.tanh(U @ V.T) - S * Y).sum(axis=1); ((Y - S * Y) * Y).max(axis=0)
    np.tanh(S @ Z); (S * 0.5) @ Z; (S * Y * T) @ v; S.T @ Y - S.T @ (U @ V.T)
    S.toarray() @ W; (S.toarray() * Y).sum(axis=1); S.toarray().T @ w; (S * Y).toarray().sum(axis=0)
    (S * (U @ V.T)).toarray() @ W
    """.replace("\n", ";")
    .strip()
    .rstrip(";")
    .split(";"),
)
def test_numbers_that_are_none_meet_no_zeros_that_are_not_stored(
    text: str, density: float, heuristic: str
) -> None:
    """SciPy stores no zero of two sparse values, so a NaN beside it isn't seen; of one it does."""
    rng = np.random.default_rng(11)
    shape = (2000, 60)
    S, T = (sp.random_array(shape, density=density, format="csr", rng=rng) for _ in range(2))
    S.data[::7] = 0.0
    Y, U, V = (rng.normal(size=size) for size in (shape, (2000, 4), (60, 4)))
    v, w, W, Z = (rng.normal(size=size) for size in (60, 2000, (60, 3), (60, 64)))
    v[1] = W[1, 0] = Z[7, 3] = Y[3, 1] = Y[:, 5] = w[9] = np.nan
    v[2] = W[2, 2] = Y[:, 6] = w[10] = np.inf
    operands = {"S": S, "T": T, "Y": Y, "U": U, "V": V, "v": v, "w": w, "W": W, "Z": Z}
    function = eval(f"lambda {', '.join(operands)}: {text}")
    compare(function, fuse(function, heuristic=heuristic), list(operands.values()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_entries_of_many_tiles(layout: str, dtype: str) -> None:
    """Tiles look ahead into the next one's entries, whatever the dense operand's layout."""
    dense = LAYOUTS[layout]
    typed_operand = dense if layout in ("a row", "bool") else dense.astype(dtype, order="K")

    def f(S: Any, D: Any, w: Any) -> Any:
        return S.multiply(D).multiply(w).sum(), S.multiply(D * w), S.T.multiply(D.T).sum(axis=1)

    fused = fuse(f)
    compare(f, fused, [LONG.astype(dtype), typed_operand, RNG.random((300, 1)).astype(dtype)])
    assert fused.kernels


@pytest.mark.parametrize(
    "text",
    [
        "S.multiply(1 / (1 + abs(S).sum(axis=1))[:, None])",
        "S.multiply((S @ v)[:, None])",
        "S.multiply(1 / (1 + abs(S).sum(axis=0)))",
    ],
)
def test_a_sparse_result_of_what_its_rows_are_reduced_to(text: str) -> None:
    plain = eval(f"lambda S: {text}", {"v": v})
    fused = fuse(heuristic="all")(plain), fuse(plain)
    for function in fused:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compare(plain, function, [S])
        assert function.kernels


SQUARE = sp.random_array((M, M), density=0.2, format="csr", rng=RNG)


@pytest.mark.parametrize(
    "text",
    [
        "S.multiply(np.log(U @ U.T + 30)).sum()",
        "S.multiply(U @ U.T) @ U",
        "S.multiply(U @ U.T).T @ U",
        "S.multiply(np.exp(U @ U.T)).sum(axis=0)",
        "S.multiply(w[:, None] * w).sum()",
        "(S - S.multiply(U @ U.T)).power(2).sum()",
        "S.multiply((w[:, None] - w) ** 2).sum(axis=1)",
    ],
)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_one_array_along_rows_and_columns(text: str, layout: str) -> None:
    plain = eval(f"lambda S, U, w: ({text})", {"np": np})
    fused = fuse(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(plain, fused, [SQUARE.asformat(layout), U, w])
    assert fused.kernels


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("wide", [1, 3, 20])
@pytest.mark.parametrize("often", [False, True])
def test_rows_of_a_transpose_are_scattered(
    dtype: str, wide: int, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plainly where a column has few entries, otherwise with what rounding lost."""
    monkeypatch.setattr(row_products, "_PLAIN", 1 if often else row_products._PLAIN)
    tall = sp.random_array((900, 60), density=0.1, format="csr", rng=RNG, dtype=dtype)
    factor = RNG.normal(size=(900, wide)).astype(dtype)
    fused = fuse(heuristic="all", threads=1)(lambda S, Q: S.T @ Q)
    compare(lambda S, Q: S.T @ Q, fused, [tall, factor])
    compare(lambda S, Q: Q.T @ S, fuse(heuristic="all")(lambda S, Q: Q.T @ S), [tall, factor])
    (prepared,) = fused._engine.prepared_regions()
    texts = [step.kernel.text for step in prepared.compiled.steps if step.kernel]  # type: ignore[union-attr]
    for text in texts:
        if "gather_csr_" in text:
            assert ("flush_" in text) == (often or dtype == "float32")
