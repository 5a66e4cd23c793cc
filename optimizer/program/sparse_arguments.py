"""Sparse arrays and matrices of SciPy's as expressions.

Columns are held as the rows of the transpose, coordinates as rows; duplicates are added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..blocks.partitioned import SHARE, bytes_of, of_array
from .expression import TRACED, Expression, leaf
from .trace import Trace

if TYPE_CHECKING:
    from .lazy_sparse import LazySparse


def refusal(value: Any) -> str:
    """Return why a sparse object isn't traced; "" where it is."""
    if value.ndim != 2 or value.format not in ("csr", "csc", "coo"):
        return f"the format {value.format}" if value.ndim == 2 else f"{value.ndim} axes"
    if value.dtype.name not in TRACED or not value.dtype.isnative:
        return f"the type {value.dtype}"
    return ""


def wrap(trace: Trace, value: Any) -> Any:
    """Return what stands for a sparse object; SciPy answers all for one that can't be traced."""
    import scipy.sparse

    from .lazy_sparse import LazySparse

    is_matrix = not isinstance(value, scipy.sparse.sparray)
    why = refusal(value)
    if why:
        trace.runner.note(f"a sparse operand isn't traced: {why}")
        unknown = Expression("Input", (), value.shape, value.dtype.name, nnz=value.nnz)
        return LazySparse(trace, unknown, value.format, is_matrix, value, exposed=True)
    return LazySparse(trace, expression_of(value), value.format, is_matrix, value)


def cut_rows(lazy: LazySparse, most_bytes: float) -> None:
    """Hold a sparse operand of more bytes than that in blocks of rows, or of columns if CSC."""
    held = lazy._expression.operands[0] if lazy._expression.operands else lazy._expression
    if lazy._exposed or bytes_of(held.shape, held.dtype, held.nnz) <= most_bytes:
        return
    blocks = of_array(held.value, most_bytes / SHARE)
    held.settle(blocks)
    lazy._trace.blocks.append(blocks)


def expression_of(value: Any) -> Expression:
    """Return a sparse object as an expression; its own arrays are kept where they can be."""
    import scipy.sparse

    if value.format == "csc":
        rows = scipy.sparse.csr_array(
            (value.data, value.indices, value.indptr), shape=value.shape[::-1]
        )
        return transposed(leaf(_canonical(rows, value)))
    return leaf(_canonical(scipy.sparse.csr_array(value), value))


def _canonical(rows: Any, given: Any) -> Any:
    if given.format != "coo" and given.has_canonical_format:
        rows.has_canonical_format = True  # known of it from the first call on: entries aren't read
        return rows
    if not rows.has_canonical_format:
        if np.may_share_memory(rows.data, given.data):
            rows = rows.copy()
        rows.sum_duplicates()
    return rows


def shares_pattern(found: Any, value: Any) -> bool:
    """Whether a sparse object has its places, but not its entries, in another one's memory."""
    places = [getattr(value, name, None) for name in ("indices", "indptr")]
    own = [getattr(found, name, None) for name in ("indices", "indptr")]
    shared = any(
        np.may_share_memory(one, other)
        for one in own
        for other in places
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    )
    return shared and not np.may_share_memory(found.data, value.data)


def transposed(x: Expression) -> Expression:
    """Return the transpose of a sparse expression."""
    layout = {"csr": "csc", "csc": "csr"}[x.layout]
    shape = (x.shape[1], x.shape[0])
    return Expression("Transpose", (x,), shape, x.dtype, (("perm", (1, 0)),), layout, x.nnz)
