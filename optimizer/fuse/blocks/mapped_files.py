"""Rows of a file that is mapped: read by the tasks that need them, from the file."""

from __future__ import annotations

from typing import Any

import numpy as np


def blocks_of_file(value: Any, rows: tuple[int, ...], dask: Any) -> list[Any] | None:
    """Return a memmap's blocks of rows, each read from its file; None where the file has others.

    What was written to the array and not flushed is in the file for processes of this machine, but
    where the array is mapped as a copy.
    """
    root = value
    while isinstance(root.base, np.memmap):
        root = root.base
    if root.filename is None or root.mode == "c" or not value.flags.c_contiguous:
        return None
    start = root.offset + _address(value) - _address(root)
    row = value.nbytes // value.shape[0]
    read = dask.delayed(read_rows, pure=False)
    blocks = []
    for count in rows:
        shape = (count, *value.shape[1:])
        blocks.append(read(str(root.filename), value.dtype.str, start, shape))
        start += count * row
    return blocks


def read_rows(path: str, dtype: str, offset: int, shape: tuple[int, ...]) -> Any:
    """Return an array that lies in a file, read-only; its pages are read when they are needed."""
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def _address(array: Any) -> int:
    data: int = array.__array_interface__["data"][0]
    return data
