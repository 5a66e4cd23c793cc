"""np.einsum and its kin give what NumPy gives, and refuse what it refuses."""

import warnings
from typing import Any

import numpy as np
import pytest

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

from .test_functions import arguments, check

PRODUCTS = [
    "np.einsum('ij,ij->i', X, Y), np.einsum('ij,ij->j', X, Y), np.einsum('ij,ij', X, Y)",
    "np.einsum('ij,ij->ij', X, Y), np.einsum('ij,ij->ji', X, Y), np.einsum('ij,ji->', X, Y.T)",
    "np.einsum('ij,j->i', X, v), np.einsum('ij,i->j', X, w), np.einsum('i,ij,j', w, X, v)",
    "np.einsum('ij,kj->ik', X, Y), np.einsum('ij,kj->ki', X, Y), np.einsum('ji,jk', X, Y)",
    "np.einsum('i,j->ij', w, v), np.einsum('i,j->ji', w, v), np.einsum('i,j', w, v)",
    "np.einsum('i,i->i', w, w), np.einsum('i,i', w, w), np.einsum('ij->', X)",
    "np.einsum('ij->j', X)",
    "np.einsum('ij,ij,i->j', X, Y, w), np.einsum('ij,kj,kl->il', X, Y, X), np.einsum('i->', w)",
    "np.einsum('...j,...j->...', X, Y), np.einsum('...,...', X, v), np.einsum('i...->...', X)",
    "np.einsum('...j,j->...', X, v), np.einsum('i...,i', X, w), np.einsum('...->...', X) + 1",
    "np.einsum('kij,kjl->kil', X[None], Y.T[None]), np.einsum('ij,kj->', X, Y)",
    "np.einsum('ijk,jk->i', X[:, :, None] * v, X[:1].T * v), np.einsum('ij,l->il', X, v)",
    "np.einsum('ij,kj->ik', r, X), np.einsum('ij,kj->kj', r, X), np.einsum('ij,j,->i', X, v, c)",
    "np.einsum(' i j , j -> i ', X, v), np.einsum('aB,aB->B', X, Y), np.einsum('Ba', X)",
    "np.einsum('ij->ji', X), np.einsum('ij', X) * 2, np.einsum('ji', X), np.einsum('ij->ij', X)",
    "np.einsum('ii', X.T @ X), np.einsum('ii->i', X.T @ X), np.einsum('ij,jj->i', X, X.T @ X)",
    "np.einsum('ij,ij->i', X, Y, optimize=True), np.einsum('ij,ij', X, Y, optimize='greedy')",
    "np.einsum('ij,ij->i', X, Y, dtype=np.float64), np.einsum('ij,j->i', X, v, out=w * 1)",
    "np.einsum(X, [0, 1], v, [1], [0]), np.einsum('ij,j->i', X, 2.0), np.einsum('i,->i', w, 2.0)",
    "np.einsum('ij,j->k', X, v), np.einsum('ij,jk->ik', X, Y[:, :1]), np.einsum('ij,j->ii', X, v)",
    "np.einsum('ij,j', X), np.einsum('ij,j->i', X, w), np.einsum('i?,j', X, v), np.einsum('ij', w)",
    "np.tensordot(X, Y), np.tensordot(X, v, 1), np.tensordot(X, Y, ([0], [0]))",
    "np.tensordot(w, v, 0)",
    "np.tensordot(X, Y, ((0, 1), (0, 1))), np.tensordot(X, Y, (1, 1))",
    "np.tensordot(X, Y, (-1, -1))",
    "np.tensordot(X, Y, 1), np.tensordot(X, v, (0, 0)), np.tensordot(X, Y, ([0, 0], [0, 0]))",
    "np.inner(X, Y), np.inner(X, v), np.inner(v, X), np.inner(w, w), np.inner(c, X)",
    "np.inner(X, w)",
    "np.vdot(X, Y), np.vdot(w, w), np.vdot(X, X.T), np.dot(X[None], Y.T), np.dot(X, Y.T[None])",
    "np.linalg.multi_dot([X, Y.T, X]), np.linalg.multi_dot([w, X, Y.T, w])",
    "np.linalg.multi_dot([X])",
    "np.trace(X.T @ Y), np.matmul(v, v), np.matmul(X, v) * w, np.einsum('ij,ij', X, Y) * X",
]
KINDS = ["float64", "float32", "int64", "int8", "bool", "mixed", "strided", "Fortran", ">f8"]


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("text", PRODUCTS)
@pytest.mark.parametrize(
    ("m", "n", "kind"),
    [
        *((5, 3, kind) for kind in KINDS),
        *((m, n, "float64") for m, n in ((1, 4), (4, 1), (1, 1), (0, 3), (3, 0))),
        (5, 3, "special"),
    ],
)
def test_products_as_numpy(text: str, m: int, n: int, kind: str) -> None:
    import ast

    body = ast.parse(f"({text},)", mode="eval").body
    assert isinstance(body, ast.Tuple)
    for part in body.elts:
        check(ast.unparse(part), arguments(m, n, kind))


def drawn(seed: int) -> tuple[str, list[Any]]:
    """Return subscripts of one to four operands over axes of a few lengths, and operands."""
    rng = np.random.default_rng(seed)
    lengths = dict(zip("abcde", rng.integers(1, 5, size=5), strict=True))
    terms = ["".join(rng.permutation(list("abcde"))[: rng.integers(1, 4)]) for _ in range(4)]
    terms = terms[: rng.integers(1, 5)]
    used = sorted(set("".join(terms)))
    result = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)])
    shapes = [[1 if rng.random() < 0.1 else lengths[label] for label in term] for term in terms]
    operands = [rng.normal(size=shape) for shape in shapes]
    return ",".join(terms) + ("" if rng.random() < 0.2 else f"->{result}"), operands


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("seed", range(300))
def test_drawn_subscripts(seed: int) -> None:
    subscripts, arrays = drawn(seed)

    def product(*operands: Any) -> Any:
        return np.einsum(subscripts, *operands) * 1

    fused = fuse(product)
    compare(product, fused, arrays)
    assert "Not traced" not in fused.explain(), subscripts


def test_an_array_with_its_axes_permuted_is_a_view() -> None:
    def written(X: Any) -> Any:
        turned = np.einsum("ij->ji", X)
        turned[0] = 7.0
        return X.sum(), turned

    compare(written, fuse(written), [np.ones((3, 4))])


def test_products_run_as_kernels() -> None:
    def several(X: Any, Y: Any, w: Any, v: Any) -> Any:
        rows = np.einsum("ij,ij->i", X, Y)
        return rows, np.einsum("ij,j->i", X, v) - w, np.einsum("i,ij->j", rows - w, X)

    rng = np.random.default_rng(0)
    operands = [rng.normal(size=shape) for shape in ((401, 23), (401, 23), 401, 23)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="tensolog.fuse")
        fused = fuse(heuristic="all")(several)
        compare(several, fused, operands)
    assert fused.kernels
