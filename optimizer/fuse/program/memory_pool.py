"""Memory for results: what an array that is gone lay in serves the next one of its size.

A page that a process touches for the first time is dear, as dear on some machines as computing what
goes there, and a C library that gives memory back to the system as it is freed has a loop touch the
same pages anew in each turn. So memory is lent: an array lies in a lease, which outlives all arrays
over it, views too, and leaves its memory here as it goes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Bytes below which C libraries keep what is freed; of one array that is kept, and of all.
_LEAST = 1 << 17
_LARGEST = 1 << 24
_KEPT = 1 << 25

# Memory that nobody has, by its size. Taking one and leaving one are single steps of a list, so
# that threads, and a lease that goes while another is taken, need no lock.
_spare: dict[int, list[_Memory]] = {}


class _Memory(np.ndarray[Any, Any]):
    """Bytes that own themselves."""


class _Lease(np.ndarray[Any, Any]):
    """Memory while there are arrays over it: NumPy has them hold what is of another type."""

    def __del__(self) -> None:
        if type(self.base) is _Memory:  # and not a view of a lease, which somebody made
            _leave(self.base)


def is_lent(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape may be lent, whatever its type."""
    return bool(shape) and math.prod(shape) >= _LEAST // 8


def is_alone(array: np.ndarray[Any, Any]) -> bool:
    """Whether no array but its views lies in an array's memory: it has its own, or was lent it."""
    return array.base is None or type(array.base) is _Lease


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array in C's order with whatever it held before."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if not _LEAST <= size <= _LARGEST:
        return np.empty(shape, dtype)
    try:
        memory = _spare[size].pop()
    except (KeyError, IndexError):
        memory = _Memory(size, np.uint8)
    return np.ndarray(shape, dtype, memory.view(_Lease))


def _leave(memory: _Memory) -> None:
    size = memory.nbytes
    if sum(block_bytes * len(kept) for block_bytes, kept in tuple(_spare.items())) + size > _KEPT:
        _spare.clear()  # of sizes that may not come again
    _spare.setdefault(size, []).append(memory)
