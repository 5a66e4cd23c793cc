"""Each kind of function gives what NumPy gives, on all kinds of arguments."""

import warnings
from typing import Any

import numpy as np
import pytest

from tensolog import fuse
from tests.optimizer.fuse.compare import compare
from tests.optimizer.fuse.functions import TRACED

NAMES = "X, Y, w, v, r, c"


def function(text: str) -> Any:
    return eval(f"lambda {NAMES}: ({text},)", {"np": np})


def arguments(m: int, n: int, kind: str) -> list[Any]:
    rng = np.random.default_rng(m * 100 + n)
    shapes: list[tuple[int, ...]] = [(m, n), (m, n), (m,), (n,), (1, n), ()]
    arrays = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    match kind:
        case "float32" | "float16" | ">f8":
            return [array.astype(kind) for array in arrays]
        case "int64" | "uint8" | "int8":
            return [np.asarray(abs(array * 9) + 1).astype(kind) for array in arrays]
        case "bool":
            return [np.asarray(array > 0) for array in arrays]
        case "Fortran":
            return [np.asfortranarray(array) for array in arrays]
        case "strided":
            return [
                np.repeat(array, 2, axis=0)[::2][::-1] if array.ndim else array for array in arrays
            ]
        case "read-only":
            for array in arrays:
                array.setflags(write=False)
            return arrays
        case "mixed":
            kinds = ["float32", "float64", "int64", "float32", "bool", "float64"]
            return [array.astype(kind) for array, kind in zip(arrays, kinds, strict=True)]
        case "special":
            values = [np.nan, np.inf, -np.inf, 0.0, -0.0]
            for array in arrays[:4]:
                array.reshape(-1)[:5] = values[: array.size]
            return arrays
    return arrays


CASES = [
    *[(7, 5, "float64"), (6, 4, "float32"), (1, 6, "float64"), (6, 1, "float64")],
    *[(5, 3, kind) for kind in ("Fortran", "strided", "read-only", "mixed", "special", "bool")],
    *[(5, 3, kind) for kind in ("int64", "uint8", "int8", ">f8", "float16")],
    *[(1, 1, "float64"), (0, 4, "float64"), (4, 0, "float64")],
]


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("text", TRACED)
@pytest.mark.parametrize(("m", "n", "kind"), CASES)
def test_as_numpy(text: str, m: int, n: int, kind: str) -> None:
    for part in parts(text):
        check(part, arguments(m, n, kind))


def parts(text: str) -> list[str]:
    """Split a tuple's text into its items, so that one that raises doesn't hide the others."""
    import ast

    body = ast.parse(f"({text},)", mode="eval").body
    assert isinstance(body, ast.Tuple)
    return [ast.unparse(item) for item in body.elts]


def check(text: str, inputs: list[Any]) -> None:
    plain = function(text)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain(*inputs)
        except Exception as expected:
            with pytest.raises(type(expected)):
                fuse(plain)(*inputs)
            return
        warnings.filterwarnings("error", message="tensolog.fuse")
        compare(plain, fuse(plain), inputs)
