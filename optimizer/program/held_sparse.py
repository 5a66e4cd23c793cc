"""The state of what stands for a sparse object of SciPy's: its value, and how it is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from .evaluate import is_sparse
from .held import Held
from .sparse_arguments import canonical, held_of, shares_pattern
from .trace import Trace


class HeldSparse:
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
        "_held",
        "_is_matrix",
        "_original",
        "_repeated",
        "_trace",
    )

    __array_priority__ = 1001.0

    def __init__(
        self,
        trace: Trace,
        held: Held,
        layout: str,
        is_matrix: bool,
        original: Any = None,
        exposed: bool = False,
        repeated: bool = False,
        compared: bool = False,
    ) -> None:
        self._trace = trace
        self._held = held
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
            value = self._trace.force(self._held, "a function left to SciPy")
            made = self.__class__
            # What was compared loses entries, which the value behind it keeps.
            own = self._held.own and not self._compared
            if own and value.format == self._format != "coo":
                parts = (value.data, value.indices.copy(), value.indptr.copy())
                self._original = made(parts, shape=value.shape)
            elif own and self._format == "coo":
                spread = value.asformat("coo")
                places = (spread.row.copy(), spread.col.copy())
                self._original = made((spread.data, places), shape=value.shape)
            else:
                self._original = made(value.asformat(self._format), copy=True)
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
        return self._held.told.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._held.told.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        found = self._held.told if self._original is None else self._original
        return np.dtype(found.dtype)

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

    def _given_away(self, what: str) -> Any:
        """Return the object that it stands for, to be read and written from now on."""
        self._exposed = True
        return self._writable(f"{what} gives the memory away")

    def _writable(self, why: str) -> Any:
        """Return the object that it stands for, to be written, when what waits is computed.

        What was computed from it may have its pattern in the same memory, and gets its own.
        """
        self._trace.flush(why)
        value = self._tensolog_real()
        for other in self._trace.living():
            held = other._held.value
            if other is not self and is_sparse(held) and shares_pattern(held, value):
                self._trace.settle(other._held, held.copy())
        return value

    def _read_again(self) -> None:
        if self._exposed:
            return
        rows = canonical(self._original)
        self._held = held_of(self._trace, self._original, rows)
        self._compared = False
        self._repeated = self._original.nnz != rows.nnz
