"""Set-wise building blocks in numpy: growing columns, segments, keys, components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MASK = (1 << 64) - 1


class Column:
    """An int64 column that grows by doubling; `data` is a view, void after the next `extend`."""

    def __init__(self) -> None:
        self._buffer = np.empty(64, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def data(self) -> Ints:
        """The rows so far."""
        return self._buffer[: self._size]

    def extend(self, rows: NDArray[Any] | Sequence[int]) -> None:
        """Append rows."""
        size = self._size + len(rows)
        if size > len(self._buffer):
            grown = np.empty(max(size, 2 * len(self._buffer)), np.int64)
            grown[: self._size] = self.data
            self._buffer = grown
        self._buffer[self._size : size] = rows
        self._size = size

    def push(self, row: int) -> None:
        """Append one row."""
        if self._size == len(self._buffer):
            self.extend([row])
            return
        self._buffer[self._size] = row
        self._size += 1


def segments(starts: Ints, counts: Ints) -> Ints:
    """The positions of several runs of a flat column, one run after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return places


def mixed(numbers: NDArray[Any]) -> Keys:
    """Scatter integers over 64 bits (splitmix64: Steele, Lea, Flood, OOPSLA 2014)."""
    x = numbers.astype(np.int64).view(np.uint64) + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


def mixed_number(number: int) -> int:
    """What `mixed` makes of one integer."""
    x = (number + int(_GOLDEN)) & MASK
    x = ((x ^ (x >> 30)) * int(_FIRST)) & MASK
    x = ((x ^ (x >> 27)) * int(_SECOND)) & MASK
    return x ^ (x >> 31)


def summed(values: Keys, starts: Ints, counts: Ints) -> Keys:
    """The sums, modulo 2^64, of runs of a flat column."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Keys = total[starts + counts] - total[starts]
    return sums


def linked(leaders: Ints, a: Ints, b: Ints) -> Ints:
    """Unite a[i] with b[i], all at once; each class is led by its least member.

    `leaders` maps every member to its leader. Larger leaders are hooked onto smaller ones and
    paths are halved until nothing moves, as parallel algorithms for components do (Shiloach,
    Vishkin, J. Algorithms 3, 1982).
    """
    leaders = leaders.copy()
    while True:
        left, right = leaders[a], leaders[b]
        differs = left != right
        if not differs.any():
            return leaders
        a, b, left, right = a[differs], b[differs], left[differs], right[differs]
        np.minimum.at(leaders, np.maximum(left, right), np.minimum(left, right))
        while True:
            shorter = leaders[leaders]
            if np.array_equal(shorter, leaders):
                break
            leaders = shorter
