"""Sparse arguments as expressions, and the object of SciPy's that a lazy one stands for.

Columns are held as the rows of the transpose, coordinates as rows; duplicates are added up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blocks.partitioned import SHARE, bytes_of, of_array
from ..program.evaluate import is_sparse
from ..tracing.expressions import TRACED, Expression, Thunk, leaf, remembered
from ..tracing.trace import Trace

# Imported within functions: SciPy, for programs that have sparse arrays.


def refusal(value: Any) -> str:
    """Return why a sparse object isn't traced; "" where it is."""
    if value.ndim != 2 or value.format not in ("csr", "csc", "coo"):
        return f"the format {value.format}" if value.ndim == 2 else f"{value.ndim} axes"
    if value.dtype.name not in TRACED or not value.dtype.isnative:
        return f"the type {value.dtype}"
    return ""


def sparse_thunk(trace: Trace, value: Any, rows: Any, most_bytes: float = math.inf) -> Thunk:
    """Return what holds a sparse object, whose canonical rows, or columns if CSC, are given."""
    thunk = leaf(rows, trace.places)
    if bytes_of(rows.shape, thunk.kind.dtype, rows.nnz) > most_bytes:
        blocks = of_array(rows, most_bytes / SHARE)
        thunk = leaf(blocks, trace.places)
        trace.blocks.append(blocks)
    if value.format != "csc":
        return thunk
    x = trace.read(thunk)
    return trace.thunk_of(remembered(x, "columns", lambda: transposed(x)))


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


def _canonical(rows: Any, source: Any) -> Any:
    if source.format != "coo" and source.has_canonical_format:
        rows.has_canonical_format = True  # known of it from the first call on: entries aren't read
        return rows
    if not rows.has_canonical_format:
        if np.may_share_memory(rows.data, source.data):
            rows = rows.copy()
        rows.sum_duplicates()
    return rows


def shares_pattern(result: Any, value: Any) -> bool:
    """Whether a sparse object has its places, but not its entries, in another one's memory."""
    places = [getattr(value, name, None) for name in ("indices", "indptr")]
    structure = [getattr(result, name, None) for name in ("indices", "indptr")]
    shared = any(
        np.may_share_memory(array, other)
        for array in structure
        for other in places
        if isinstance(array, np.ndarray) and isinstance(other, np.ndarray)
    )
    return shared and not np.may_share_memory(result.data, value.data)


def transposed(x: Expression) -> Expression:
    """Return the transpose of a sparse expression."""
    layout = {"csr": "csc", "csc": "csr"}[x.layout]
    shape = (x.shape[1], x.shape[0])
    return Expression("Transpose", (x,), shape, x.dtype, (("perm", (1, 0)),), layout, x.nnz)


class LazySparseBase:
    """Stands for a sparse array, or a sparse matrix, of SciPy's.

    `_format` is the one that SciPy would give it, `_original` the object that it stands for, where
    there is one, and `_repeated` says that this has an entry twice. One that was `_compared` has no
    entries where that was false, once it is there. One that is `_exposed` may be
    written by code outside, or can't be traced: SciPy answers for it.
    """

    __slots__ = (
        "__weakref__",
        "_compared",
        "_exposed",
        "_family",
        "_format",
        "_is_matrix",
        "_original",
        "_repeated",
        "_thunk",
        "_trace",
    )

    __array_priority__ = 1001.0

    def __init__(
        self,
        trace: Trace,
        thunk: Thunk,
        layout: str,
        is_matrix: bool,
        original: Any = None,
        exposed: bool = False,
        repeated: bool = False,
        compared: bool = False,
    ) -> None:
        self._trace = trace
        self._thunk = thunk
        self._format = layout
        self._is_matrix = is_matrix
        self._original = original
        self._repeated = repeated
        self._compared = compared
        self._family = None
        self._exposed = exposed
        trace.add(self)

    def _tensolog_real(self) -> Any:
        """Return the object that it stands for; not to be written."""
        if self._original is None:
            value = self._trace.force(self._thunk, "a function left to SciPy")
            constructor = self.__class__
            # What was compared loses entries, which the value behind it keeps.
            owns_entries = self._thunk.owns_entries and not self._compared
            if owns_entries and value.format == self._format != "coo":
                parts = (value.data, value.indices.copy(), value.indptr.copy())
                self._original = constructor(parts, shape=value.shape)
            elif owns_entries and self._format == "coo":
                spread = value.asformat("coo")
                places = (spread.row.copy(), spread.col.copy())
                self._original = constructor((spread.data, places), shape=value.shape)
            else:
                self._original = constructor(value.asformat(self._format), copy=True)
            if self._compared:
                self._original.eliminate_zeros()
        return self._original

    _tensolog_result = _tensolog_real

    # -- what is known without computing ---------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        import scipy.sparse

        kind = "matrix" if self._is_matrix else "array"
        return getattr(scipy.sparse, f"{self._format}_{kind}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        return self._thunk.kind.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._thunk.kind.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        described = self._thunk.kind if self._original is None else self._original
        return np.dtype(described.dtype)

    @property
    def format(self) -> str:
        """SciPy's name of the way in which it is held."""
        return self._format

    @property
    def is_compared(self) -> bool:
        """Whether it says where a comparison holds."""
        return self._compared

    @property
    def is_matrix(self) -> bool:
        """Whether `*` is the product of matrices."""
        return self._is_matrix

    # -- writing ---------------------------------------------------------------------------------

    def _given_away(self, method: str) -> Any:
        """Return the object that it stands for, to be read and written from now on."""
        self._exposed = True
        return self._writable(f"{method} gives the memory away")

    def _writable(self, why: str) -> Any:
        """Return the object that it stands for, to be written, when what waits is computed.

        What was computed from it may have its pattern in the same memory, and gets its own.
        """
        self._trace.flush(why)
        value = self._tensolog_real()
        for other in self._trace.living():
            entries = other._thunk.value
            if other is not self and is_sparse(entries) and shares_pattern(entries, value):
                self._trace.resolve(other._thunk, entries.copy())
        return value

    def _read_again(self) -> None:
        if self._exposed:
            return
        rows = canonical(self._original)
        self._thunk = sparse_thunk(self._trace, self._original, rows)
        self._compared = False
        self._repeated = self._original.nnz != rows.nnz
