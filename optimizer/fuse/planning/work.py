"""How much work an operator is for each of its cells, read from its specification."""

from __future__ import annotations

from functools import lru_cache

from ....catalog.operators.functions import ShapeError
from ....catalog.terms.index_notation import Apply, Reduce, Select, Term, reads
from ..program.numpy_operators import meaning

# Relative to one addition in a vectorized loop, as in SystemML's cost model (PVLDB 2018, section
# 4.3; the table of its ComputeCostMethods); primitives without a line cost 1. Functions are as
# measured beside exp, in kernels (AVX2).
WEIGHTS = {
    "/": 4,
    "sqrt": 5,
    "mod": 8,
    "fmod": 90,
    "floor": 1,
    "ceil": 1,
    "round": 1,
    "exp": 18,
    "log": 21,
    "pow": 90,
    "erf": 40,
    "tanh": 18,
    "sin": 21,
    "cos": 21,
    "tan": 19,
    "asin": 20,
    "acos": 20,
    "atan": 23,
    "sinh": 20,
    "cosh": 17,
    "asinh": 50,
    "acosh": 40,
    "atanh": 35,
}


# Functions that NumPy computes element by element, but on processors for which it has vectors
# (AVX-512), and how many times as fast as by what sinh takes there: kernels' weights are those of
# vectors, and the C library's power, say, is no vector's.
ONE_BY_ONE = {
    **dict.fromkeys(("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh"), 1.0),
    **dict.fromkeys(("Asinh", "Acosh", "Atanh", "Expm1", "Log1p", "Log10", "Hypot"), 1.0),
    **dict.fromkeys(("LogAddExp", "Atan2", "Erf", "Sigmoid", "Softplus"), 1.0),
    "Exp": 1.25,
    "Log": 1.7,
    "Exp2": 1.3,
    "Log2": 1.7,
    "Pow": 2.8,
}
# Those that it has vectors for on AVX2 too, of float32.
SINGLE = frozenset(("Exp", "Log", "Sin", "Cos", "Tanh", "Exp2", "Log2", "Pow"))


@lru_cache(maxsize=4096)
def work(op: str, operands: int) -> float:
    """Return the weighted operations for each cell: of the output, or of a reduction's input."""
    spec = meaning(op)
    if spec is None or spec.opaque is not None:
        return 1.0
    declared = [parameter for parameter in spec.blocks[0].inputs if parameter.kind == "tensor"]
    count = operands if declared and declared[0].variadic else min(operands, len(declared))
    try:
        expansion = spec.expand([("m", "n")] * count, {}, outputs=1)
    except ShapeError:
        return float(max(1, operands - 1))  # attributes decide; an operation for each operand
    return float(
        max(1, sum(_work(local.value) for local in (*expansion.locals, *expansion.outputs)))
    )


def _work(term: Term) -> float:
    match term:
        case Apply(function, arguments):
            inner = sum(map(_work, arguments))
            return inner + (WEIGHTS.get(function, 1) if reads(term) else 0)
        case Select(condition, then, otherwise):
            return 1 + _work(condition) + _work(then) + _work(otherwise)
        case Reduce(_, _, _, _, body):
            return 1 + _work(body)
        case _:
            return 0.0
