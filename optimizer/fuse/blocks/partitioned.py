"""An operand held as blocks of rows, each of which Dask computes or holds somewhere."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....catalog.errors import TensologError
from ..program.dag import shape_text

# Imported within functions: Dask and SciPy, for programs that have their arrays.

# A block is at most this share of the memory budget: some run at once, each with its results.
SHARE = 16


class BlocksError(TensologError):
    """A value that can't be computed in blocks and doesn't fit into memory, or Dask is missing."""


class Partitioned:
    """An array, or a sparse matrix, in blocks along `axis`: `parts` are Dask's, `rows` how long.

    `source` is the value in this process, where it is there; `original` the object that was passed.
    `nnz` and `layout` are a sparse value's, as in a program's node. Blocks are never written.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        rows: Sequence[int],
        shape: tuple[int, ...],
        dtype: Any,
        *,
        axis: int = 0,
        layout: str = "dense",
        nnz: int | None = None,
        source: Any = None,
        original: Any = None,
    ) -> None:
        self.parts = list(parts)
        self.rows = tuple(rows)
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.axis = axis
        self.layout = layout
        self.nnz = nnz
        self.source = source
        self.original = original

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks."""
        return bytes_of(self.shape, self.dtype, self.nnz)

    def copied(self) -> Partitioned:
        """Return the same blocks as a value of its own, which shares nothing in this process."""
        return Partitioned(
            self.parts,
            self.rows,
            self.shape,
            self.dtype,
            axis=self.axis,
            layout=self.layout,
            nnz=self.nnz,
        )

    def gathered(self, budget: float, why: str) -> Any:
        """Return it as one value in this process; raise BlocksError where it exceeds the budget."""
        if self.source is None:
            if self.nbytes > budget:
                raise BlocksError(
                    f"{why} needs the whole array at once: {self.dtype} {shape_text(self.shape)}, "
                    f"{self.nbytes:,} bytes, which is more than the memory budget of "
                    f"{budget:,.0f}: give fuse a larger memory=, or compute it from sums over the "
                    "rows"
                )
            self.source = self._joined(loaded().compute(*self.parts))
        return self.source

    def _joined(self, blocks: Sequence[Any]) -> Any:
        if self.layout == "dense":
            return np.concatenate(blocks, axis=self.axis)
        import scipy.sparse

        join = scipy.sparse.hstack if self.axis else scipy.sparse.vstack
        return join(blocks, format=self.layout)

    def as_dask(self) -> Any:
        """Return it as a dask array; what it consists of stays where it is."""
        import dask.array

        da: Any = dask.array  # some releases have types, for a part of it
        blocks = [
            da.from_delayed(part, cut_shape(self.shape, self.axis, count), self.dtype)
            for part, count in zip(self.parts, self.rows, strict=True)
        ]
        return da.concatenate(blocks, axis=self.axis)


def bytes_of(shape: Sequence[int], dtype: Any, nnz: int | None = None) -> int:
    """Return the bytes of a dense value, or of a sparse one with so many entries."""
    size = int(np.dtype(dtype).itemsize)
    return size * math.prod(shape) if nnz is None else nnz * (size + 4) + 8 * max(shape)


def is_dask_array(value: Any) -> bool:
    """Whether a value is a dask array; Dask isn't loaded for that."""
    kind = type(value)
    return kind.__name__ == "Array" and kind.__module__.startswith("dask.array")


def of_dask(value: Any) -> Partitioned:
    """Return a dask array of known shape as rows; its other axes become one chunk each."""
    if not value.ndim or any(extent != extent for extent in value.shape) or 0 in value.shape:
        raise BlocksError(
            f"a dask array of shape {value.shape} can't be taken in rows: compute() it first"
        )
    whole = value.rechunk(dict.fromkeys(range(1, value.ndim), -1))
    pairs = list(zip(whole.to_delayed().reshape(-1), whole.chunks[0], strict=True))
    parts, rows = [part for part, count in pairs if count], [count for _, count in pairs if count]
    return Partitioned(parts, rows, value.shape, value.dtype, original=value)


def of_array(value: Any, most_bytes: float) -> Partitioned:
    """Return an ndarray, or a CSR matrix, cut into blocks of at most so many bytes."""
    nnz = int(value.nnz) if hasattr(value, "tocsr") else None
    row = bytes_of(value.shape, value.dtype, nnz) / value.shape[0]
    return cut(value, _even(value.shape[0], max(1, int(most_bytes // row))))


def _even(total: int, most: int) -> list[int]:
    """Return how many rows each block has: at most `most`, and all but the last as many."""
    step = -(-total // -(-total // most))
    return [min(step, total - start) for start in range(0, total, step)]


def cut(value: Any, rows: Sequence[int], axis: int = 0) -> Partitioned:
    """Return a value's blocks of so many rows.

    Each travels with the task that hands it on, so that a worker's end loses none; those of a file
    that is mapped are read from it.
    """
    parts = None
    if isinstance(value, np.memmap) and not axis:
        parts = _blocks_of_file(value, rows)
    if parts is None:
        delayed = loaded().delayed
        whole = [delayed(piece, pure=False, traverse=False) for piece in pieces(value, rows, axis)]
        parts = persisted(*whole)
    nnz = int(value.nnz) if hasattr(value, "tocsr") else None
    layout = "dense" if nnz is None else value.format
    return Partitioned(
        parts,
        rows,
        value.shape,
        value.dtype,
        axis=axis,
        layout=layout,
        nnz=nnz,
        source=value,
    )


def _blocks_of_file(value: Any, rows: Sequence[int]) -> list[Any] | None:
    """Return a memmap's blocks of rows, each read from its file; None where the file has others.

    What was written to the array and not flushed is in the file for processes of this machine, but
    where the array is mapped as a copy.
    """
    root = value
    while isinstance(root.base, np.memmap):
        root = root.base
    if root.filename is None or root.mode == "c" or not value.flags.c_contiguous:
        return None
    start = root.offset + value.ctypes.data - root.ctypes.data
    row = value.nbytes // value.shape[0]
    read = loaded().delayed(_read_rows, pure=False)
    blocks = []
    for count in rows:
        shape = (count, *value.shape[1:])
        blocks.append(read(str(root.filename), value.dtype.str, start, shape))
        start += count * row
    return blocks


def _read_rows(path: str, dtype: str, offset: int, shape: tuple[int, ...]) -> Any:
    """Return an array that lies in a file, read-only; its pages are read when they are needed."""
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def persisted(*parts: Any) -> list[Any]:
    """Start computing delayed values, and hold them where they are computed."""
    with warnings.catch_warnings():
        # Blocks cut here do travel in the graph; so they outlive the worker that holds them.
        warnings.filterwarnings("ignore", message="Sending large graph")
        return list(loaded().persist(*parts))


def pieces(value: Any, rows: Sequence[int], axis: int = 0) -> list[Any]:
    """Return a value's blocks as copies."""
    copies = []
    for start, count in zip(itertools.accumulate(rows, initial=0), rows, strict=False):
        window = (slice(None),) * axis + (slice(start, start + count),)
        copies.append(value[window].copy())
    return copies


def aligned(value: Partitioned, rows: Sequence[int]) -> Partitioned:
    """Return a value in blocks of so many rows."""
    if value.rows == tuple(rows):
        return value
    if value.source is not None:
        return cut(value.source, rows, value.axis)
    if value.layout != "dense":
        raise BlocksError("sparse values in blocks of different rows: give them alike")
    whole = value.as_dask().rechunk({value.axis: tuple(rows)})
    parts = whole.to_delayed().reshape(-1)
    return Partitioned(
        parts, rows, value.shape, value.dtype, axis=value.axis, original=value.original
    )


def cut_shape(shape: Sequence[int], axis: int, rows: int) -> tuple[int, ...]:
    """Return the shape of a block of so many rows along an axis."""
    return (*shape[:axis], rows, *shape[axis + 1 :])


def loaded() -> Any:
    """Return the module dask; raise BlocksError where it isn't installed."""
    try:
        import dask
    except ImportError as error:
        raise BlocksError("values in blocks need Dask: pip install 'tensolog[dask]'") from error
    return dask
