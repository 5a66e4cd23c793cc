"""Methods of ufuncs: outer products as kernels, reductions and running results as nodes.

What has no kernel is told in plain words, with what else to write.
"""

import re
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing import escapes

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

from .test_functions import arguments, check, parts

BINARY = sorted(
    {
        ufunc.__name__
        for ufunc in vars(np).values()
        if isinstance(ufunc, np.ufunc)
        and (ufunc.nin, ufunc.nout, ufunc.signature) == (2, 1, None)
        and not {"ldexp", "left_shift", "right_shift"} & {ufunc.__name__}
    }
)
METHODS = [
    "np.{0}.reduce(X), np.{0}.reduce(X, axis=1), np.{0}.reduce(X, 1, keepdims=True)",
    "np.{0}.reduce(w), np.{0}.reduce(w, axis=None), np.{0}.reduce(X * 2, axis=-1)",
    "np.{0}.accumulate(X), np.{0}.accumulate(X, axis=1), np.{0}.accumulate(w * 2)",
    "np.{0}.accumulate(X, 0) * 2, np.{0}.reduce(X, axis=0) * 2, np.{0}.reduce(X, axis=(0, 1))",
]
KINDS = ["float64", "int64", "bool", "special"]


def function(text: str) -> Any:
    return eval(f"lambda X, Y, w, v, r, c: {text}", {"np": np})


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", KINDS)
def test_methods_as_numpy(name: str, kind: str) -> None:
    for text in METHODS:
        for part in parts(text.format(name)):
            check(part, arguments(5, 3, kind))


KERNELS = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "hypot", "arctan2"]
COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]


OPERANDS = ["w, w", "w, v", "v, w * 2", "w + 1, w"]
AROUND = ["{}", "{}.sum(axis=1)", "{}.max(axis=0)", "{} * 2 + w"]
OUTER = [
    *[("less", operands, around) for operands in OPERANDS for around in AROUND],
    *[(name, OPERANDS[i % 4], AROUND[i // 4 % 4]) for i, name in enumerate(KERNELS + COMPARISONS)],
]


@pytest.mark.parametrize(("name", "operands", "around"), OUTER)
def test_outer_of_one_array_is_a_kernel(name: str, operands: str, around: str) -> None:
    text = around.format(f"np.{name}.outer({operands})")
    if "max" in around and name in COMPARISONS:
        text = text.replace(".max(axis=0)", ".astype(float).max(axis=0)")
    plain = eval(f"lambda w, v: {text}", {"np": np})
    fused = fuse(plain, heuristic="all")
    rng = np.random.default_rng(7)
    compare(plain, fused, [rng.normal(size=37), rng.normal(size=37)])
    assert re.search(r"\(a generated kernel\)", fused.explain()), fused.explain()
    assert "(by NumPy" not in fused.explain(), fused.explain()


@pytest.mark.parametrize(
    "text", ["X + X.T", "X * X.T - X", "(X > X.T).sum(axis=1)", "np.exp(X - X.T).sum(axis=0)"]
)
def test_an_array_beside_its_transpose_is_a_kernel(text: str) -> None:
    plain = eval(f"lambda X: {text}", {"np": np})
    fused = fuse(plain, heuristic="all")
    compare(plain, fused, [np.random.default_rng(7).normal(size=(21, 21))])
    assert "(by NumPy" not in fused.explain(), fused.explain()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("np.add.reduceat(x * 2, [0, 3])", "np.add.reduceat: by NumPy at once: groups of any"),
        ("np.add.outer(x, x, dtype=np.float32)", "np.add.outer: by NumPy at once: outer with"),
        ("np.add.at(x, [0, 1], 1.0)", "np.add.at: by NumPy at once: it writes into"),
        ("(x * 2).astype(int) + 1", "not int64"),
        ("np.cbrt(x * 2) + 1", "kernels don't have numpy.cbrt"),
        ("np.maximum.accumulate(x * 2) + 1", "kernels don't have numpy.maximum.accumulate"),
        ("(x[:, None, None] * x).sum(axis=0) + x", "two axes at most"),
    ],
)
def test_what_has_no_kernel_is_told(text: str, why: str) -> None:
    fused = fuse(eval(f"lambda x: {text}", {"np": np}), heuristic="all")
    fused(np.arange(12.0))
    assert why in fused.explain(), fused.explain()


def test_references_that_numpy_loses_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in an override of ufunc.reduce leaks its arguments: no search finds them."""
    searched = []
    monkeypatch.setattr(escapes, "_put", lambda lazies, _: searched.append(len(lazies)))

    def failing(x: Any, keep: bool) -> Any:
        if keep:
            Kept.array = x
        return np.bitwise_and.reduce(x * 2)

    class Kept:
        array: Any = None

    fused = fuse(failing)
    with pytest.raises(TypeError):
        fused(np.arange(5.0), False)
    assert not searched
    with pytest.raises(TypeError):
        fused(np.arange(5.0), True)
    assert searched  # that one is held by the class, too
