"""What is traced of SciPy's sparse operators; UnsupportedError says why something isn't.

A sparse matrix of SciPy's answers `*` with the product of matrices, a sparse array with that of
elements; sums of a matrix are of type np.matrix. What would give one of those is left to SciPy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.partitioned import Partitioned
from ..program.dag import FLOATS
from ..program.evaluate import ZERO_TO_ZERO
from ..tracing.expressions import (
    TRACED,
    Expression,
    Record,
    cast,
    common_type,
    elementwise,
    remembered,
)
from ..tracing.trace import UnsupportedError
from . import products, reductions
from .operands import lazy_array, lazy_result, number, operand
from .sparse_values import transposed

if TYPE_CHECKING:
    from .lazy_sparse import LazySparse

# Methods of sparse objects, which have ufuncs' names, and the operators that map 0 to 0.
METHODS: Mapping[str, str] = {
    function.__name__: op for op, function in ZERO_TO_ZERO.items() if op not in ("Abs", "Neg")
}


def is_sparse_operand(value: Any) -> bool:
    """Whether an operand is a sparse object, traced or not."""
    return hasattr(type(value), "tocsr")


def _pointwise(op: str, x: Expression, *others: Expression, dtype: str) -> Expression:
    """Return an operator that leaves zeros where x has them."""
    operands = (x, *others)
    return Expression(op, operands, x.shape, dtype, (), x.layout, x.nnz)


def _common(x: Expression, y: Expression) -> str:
    return _computed_in(common_type(x.dtype, y.dtype))


def _computed_in(kept: str) -> str:
    if kept not in TRACED or kept == "bool":
        raise UnsupportedError(f"the type {kept}")
    return kept


# -- products ------------------------------------------------------------------------------------


def product(x: LazySparse, other: Any, reflected: bool = False) -> Any:
    """Return x @ other for a dense operand, or other @ x where it is `reflected`."""
    if is_sparse_operand(other):
        raise UnsupportedError("a product of two sparse operands")
    if x.format == "coo" and 1 in x.shape:
        raise UnsupportedError("SciPy gives a number for one row in coordinates")
    sparse, dense = x.traced(), operand(x._trace, other)
    pair = (dense, sparse) if reflected else (sparse, dense)
    expression = remembered(pair[0], ("product", pair[1]), lambda: products.product(*pair), pair[1])
    return lazy_result(x._trace, expression)


def times(x: LazySparse, other: Any) -> Any:
    """Return the product by elements, or by a number."""
    if type(other) in (int, float):
        return x.like(_scaled("Mul", x.traced(), other))
    if hasattr(type(other), "_tensolog_real"):
        left, right = _alike(x, other)
        kept = _common(left, right)
        record = x._trace.record
        if not (_is_finite(left, record) and _is_finite(right, record)):
            raise UnsupportedError("a NaN or an infinity that meets what isn't stored")
        entries = min(left.nnz or 0, right.nnz or 0)
        pair = (cast(left, kept), cast(right, kept))
        product = Expression("Mul", pair, left.shape, kept, (), left.layout, entries)
        return x.like(product, "csr" if x.format == "coo" else None)
    if is_sparse_operand(other):
        raise UnsupportedError("a sparse operand that isn't traced")
    return _times_dense(x, operand(x._trace, other))


def _times_dense(x: LazySparse, dense: Expression) -> Any:
    sparse = x.traced()
    if len(dense.shape) > 2 or np.broadcast_shapes(dense.shape, sparse.shape) != sparse.shape:
        raise UnsupportedError("a dense operand that is larger than the sparse one")
    product = remembered(sparse, ("times", dense), lambda: _times(sparse, dense), dense)
    # SciPy multiplies by an array of one element as by a number, which keeps the format.
    if not dense.shape:
        return x.like(product)
    layout = "coo" if math.prod(dense.shape) != 1 else "csr" if x.format == "coo" else None
    return x.like(product, layout)


def _times(sparse: Expression, dense: Expression) -> Expression:
    kept = _common(sparse, dense)
    return _pointwise("Mul", cast(sparse, kept), cast(dense, kept), dtype=kept)


def _alike(x: LazySparse, y: LazySparse) -> tuple[Expression, Expression]:
    left, right = x.traced(), y.traced()
    if left.shape != right.shape or left.layout != right.layout:
        raise UnsupportedError("sparse operands of different shapes or layouts")
    return left, right


def _is_finite(x: Expression, record: Record) -> bool:
    """Whether the sparse values below have finite entries: then what isn't stored stays 0."""
    if x.op == "Input":
        value = record.leaves[x.place]
        value = value.source if isinstance(value, Partitioned) else value
        return x.layout == "dense" or bool(np.isfinite(value.data).all())
    return all(_is_finite(operand, record) for operand in x.operands)


def _scaled(op: str, x: Expression, value: Any) -> Expression:
    kept = np.result_type(np.dtype(x.dtype), value).name
    kept = _computed_in("float64" if op == "Div" else kept)  # SciPy's type, of float32 too
    return _pointwise(op, cast(x, kept), number(value, kept), dtype=kept)


def divided(x: LazySparse, other: Any) -> Any:
    """Return x / other for a number, or for a dense operand."""
    if type(other) not in (int, float):
        return _quotient(x, other)
    if not other:
        raise UnsupportedError("a quotient by 0")
    return x.like(_scaled("Div", x.traced(), other))


def _quotient(x: LazySparse, other: Any) -> Any:
    """Return x / other for a dense operand: SciPy multiplies by 1 / other."""
    if is_sparse_operand(other):
        raise UnsupportedError("a quotient by a sparse operand")
    dense = operand(x._trace, other)
    if not dense.shape:
        raise UnsupportedError("a quotient by a number of NumPy's, which SciPy computes in float64")
    kept = "float32" if dense.dtype == "float32" else "float64"
    inverse = elementwise("Div", number(1, kept), cast(dense, kept))
    return _times_dense(x, inverse)


# -- comparisons ---------------------------------------------------------------------------------

# With what each says of two numbers; `!=` asks what isn't 0.
COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "__gt__": ("Greater", operator.gt),
    "__lt__": ("Less", operator.lt),
    "__ge__": ("GreaterOrEqual", operator.ge),
    "__le__": ("LessOrEqual", operator.le),
    "__eq__": ("Equal", operator.eq),
    "__ne__": ("Cast", operator.ne),
}


def compared(x: LazySparse, name: str, other: Any) -> Any:
    """Return which entries compare so with a number, where 0 doesn't: what isn't stored is False.

    SciPy keeps those alone that do.
    """
    op, holds = COMPARISONS[name]
    if type(other) not in (int, float) or not math.isfinite(other):
        raise UnsupportedError("a comparison with what is no number")
    if holds(0, other):
        raise UnsupportedError("a comparison that holds where nothing is stored")
    sparse = x.traced()
    if sparse.dtype not in FLOATS or x.format == "coo":
        raise UnsupportedError("a comparison of whole numbers, or of coordinates")
    if op == "Cast":
        return x.like(cast(sparse, "bool"), compared=True)
    bound = number(other, sparse.dtype)
    return x.like(_pointwise(op, sparse, bound, dtype="bool"), compared=True)


# -- sums ----------------------------------------------------------------------------------------


def plus(x: LazySparse, other: Any, op: str = "Add", reflected: bool = False) -> Any:
    """Return x + other, or x - other where `op` is "Sub"; where it is `reflected`, other first."""
    if hasattr(type(other), "_tensolog_real"):
        left, right = _alike(x, other)
        if x.is_matrix != other.is_matrix:
            raise UnsupportedError("a sparse array beside a sparse matrix")
        kept = _common(left, right)
        pair = (cast(left, kept), cast(right, kept))
        entries = min((left.nnz or 0) + (right.nnz or 0), math.prod(left.shape))
        total = Expression(op, pair, left.shape, kept, (), left.layout, entries)
        return x.like(total, "csr" if x.format == "coo" else None)
    if x.is_matrix or is_sparse_operand(other) or type(other) in (int, float):
        raise UnsupportedError("a sum that SciPy makes a matrix")
    sparse, dense = x.traced(), operand(x._trace, other)
    if dense.shape != sparse.shape:
        raise UnsupportedError("a sum with another shape")
    kept = _common(sparse, dense)
    pair = (cast(sparse, kept), cast(dense, kept))
    return lazy_array(
        x._trace, Expression(op, pair[::-1] if reflected else pair, sparse.shape, kept)
    )


def total(x: LazySparse, axis: Any) -> Any:
    """Return the sum of all entries, or of an array's along an axis."""
    if x.is_matrix and axis is not None:
        raise UnsupportedError("a sum that SciPy makes a matrix")
    sparse = x.traced(compared=True)

    def build() -> Expression:
        return reductions.expression_of("sum", sparse, {"axis": axis}, x.is_compared)

    plain = axis is None or type(axis) is int
    expression = remembered(sparse, ("sum", axis, x.is_compared), build) if plain else build()
    return lazy_result(x._trace, expression)


# -- by elements ---------------------------------------------------------------------------------


def unary(x: LazySparse, op: str) -> Any:
    """Return an operator that maps 0 to 0, of the stored entries."""
    sparse = x.traced()
    if sparse.dtype not in FLOATS or op not in ZERO_TO_ZERO:
        raise UnsupportedError("whole numbers")
    return x.like(remembered(sparse, op, lambda: _pointwise(op, sparse, dtype=sparse.dtype)))


def power(x: LazySparse, exponent: Any) -> Any:
    """Return the entries raised to a positive number."""
    sparse = x.traced()
    if type(exponent) not in (int, float) or exponent <= 0:
        raise UnsupportedError("a power that isn't a positive number")
    if sparse.dtype not in FLOATS:
        raise UnsupportedError("whole numbers")
    return x.like(_pointwise("Pow", sparse, number(exponent, sparse.dtype), dtype=sparse.dtype))


def converted(x: LazySparse, dtype: Any) -> Any:
    """Return a copy in another type."""
    target = np.dtype(dtype)
    if target.name not in TRACED or not target.isnative:
        raise UnsupportedError(f"the type {target}")
    if target.name == x.traced().dtype:
        return copied(x)
    return x.like(cast(x.traced(), target.name))


def copied(x: LazySparse) -> Any:
    """Return a copy."""
    return x.like(_pointwise("Identity", x.traced(), dtype=x.traced().dtype))


def turned(x: LazySparse) -> Any:
    """Return the transpose."""
    sparse = x.traced()
    transpose_ = remembered(sparse, "turned", lambda: transposed(sparse))
    return x.like(transpose_, {"csr": "csc", "csc": "csr", "coo": "coo"}[x.format])


def spread(x: LazySparse) -> Any:
    """Return an ndarray of all elements."""
    sparse = x.traced(compared=True)
    return lazy_array(x._trace, Expression("Identity", (sparse,), sparse.shape, sparse.dtype))
