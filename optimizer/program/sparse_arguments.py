"""Sparse arrays and matrices of SciPy's as expressions.

Columns are held as the rows of the transpose, coordinates as rows; duplicates are added up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blocks.partitioned import SHARE, bytes_of, of_array
from .expression import TRACED, Expression, remembered
from .held import Held, Kind, leaf
from .trace import Trace


def refusal(value: Any) -> str:
    """Return why a sparse object isn't traced; "" where it is."""
    if value.ndim != 2 or value.format not in ("csr", "csc", "coo"):
        return f"the format {value.format}" if value.ndim == 2 else f"{value.ndim} axes"
    if value.dtype.name not in TRACED or not value.dtype.isnative:
        return f"the type {value.dtype}"
    return ""


def wrap(trace: Trace, value: Any, most_bytes: float = math.inf) -> Any:
    """Return what stands for a sparse object; SciPy answers all for one that can't be traced.

    One of more than `most_bytes` is held in blocks of rows, or of columns if it is CSC.
    """
    import scipy.sparse

    from .lazy_sparse import LazySparse

    is_matrix = not isinstance(value, scipy.sparse.sparray)
    why = refusal(value)
    if why:
        trace.runner.note(f"a sparse operand isn't traced: {why}")
        held = Held.__new__(Held)
        held.settle((), Kind(value.shape, value.dtype.name, nnz=value.nnz))  # SciPy has the value
        return LazySparse(trace, held, value.format, is_matrix, value, exposed=True)
    rows = canonical(value)
    held = held_of(trace, value, rows, most_bytes)
    repeated = bool(value.nnz != rows.nnz)
    return LazySparse(trace, held, value.format, is_matrix, value, repeated=repeated)


def held_of(trace: Trace, value: Any, rows: Any, most_bytes: float = math.inf) -> Held:
    """Return what holds a sparse object, whose canonical rows, or columns if CSC, are given."""
    found = leaf(rows, trace.places)
    if bytes_of(rows.shape, found.told.dtype, rows.nnz) > most_bytes:
        blocks = of_array(rows, most_bytes / SHARE)
        found = leaf(blocks, trace.places)
        trace.blocks.append(blocks)
    if value.format != "csc":
        return found
    x = trace.read(found)
    return trace.hold(remembered(x, "columns", lambda: transposed(x)))


def canonical(value: Any) -> Any:
    """Return a sparse object by rows, or by columns if CSC, in its own arrays where that goes."""
    import scipy.sparse

    if value.format == "csc":
        parts = (value.data, value.indices, value.indptr)
        return _canonical(scipy.sparse.csr_array(parts, shape=value.shape[::-1]), value)
    return _canonical(scipy.sparse.csr_array(value), value)


def rows_at_once(value: Any) -> Any:
    """Return what `canonical` gives for a CSR object that is known to be canonical, else None."""
    import scipy.sparse

    if not value.has_canonical_format:
        return None
    return value if type(value) is scipy.sparse.csr_array else canonical(value)


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
