"""Tensors in memory that two processes share: each is written there once, and nothing is pickled.

The memory has no name in the file system, only a descriptor that the worker inherits: it is gone
with the last process that has it open, however that ends, so none of it can leak.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# (dtype, shape, offset), or the array itself where it holds Python objects, such as strings.
Place = tuple[str, tuple[int, ...], int] | Array

_ALIGNMENT = 64  # bytes: what the runtime's vector instructions load at once
_LEAST_BYTES = 1 << 16


class SharedMemory:
    """A stretch of memory behind a descriptor; it grows, and never shrinks."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Make one, or open what another process made."""
        self.descriptor = anonymous_file() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None

    def write(self, arrays: Mapping[str, Sequence[Array]]) -> dict[str, Place]:
        """Put arrays there, in the place of what was; say where each lies.

        Several arrays of a name are joined along their first axis.
        """
        joined = {name: _joined(parts) for name, parts in arrays.items()}
        places: dict[str, Place] = {}
        size = 0
        for name, (dtype, shape) in joined.items():
            if dtype.hasobject or dtype.kind in "SU":
                places[name] = np.concatenate(arrays[name]) if shape else arrays[name][0]
                continue
            places[name] = (dtype.str, shape, size)
            size += -(-dtype.itemsize * _count(shape) // _ALIGNMENT) * _ALIGNMENT
        memory = self._mapped(size, grow=True)
        for name, place in places.items():
            if isinstance(place, tuple):
                target = _view(memory, place)
                parts = arrays[name]
                if len(parts) == 1:
                    target[...] = parts[0]
                else:
                    np.concatenate(parts, out=target)
        return places

    def read(self, places: Mapping[str, Place]) -> dict[str, Array]:
        """Give the arrays as views, which are overwritten by the next ones."""
        ends = [
            place[2] + np.dtype(place[0]).itemsize * _count(place[1])
            for place in places.values()
            if isinstance(place, tuple)
        ]
        memory = self._mapped(max(ends, default=0), grow=False)
        return {
            name: _view(memory, place) if isinstance(place, tuple) else place
            for name, place in places.items()
        }

    def reserve(self, size_bytes: int) -> None:
        """Make room for so many bytes, before others open it."""
        self._mapped(size_bytes, grow=True)

    def close(self) -> None:
        """Let go of it; views that are still used keep the memory."""
        self._map = None
        os.close(self.descriptor)

    def _mapped(self, size: int, *, grow: bool) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            if grow:
                room = max(_LEAST_BYTES, 1 << (size - 1).bit_length() if size else 0)
                os.ftruncate(self.descriptor, room)
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return self._map


def anonymous_file() -> int:
    """Open a file that has no name, and is gone with the last descriptor of it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tensolog")
    with tempfile.TemporaryFile() as file:  # it has no name by now
        return os.dup(file.fileno())


def _joined(parts: Sequence[Array]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    first = parts[0]
    if len(parts) == 1:
        return first.dtype, first.shape
    return first.dtype, (sum(part.shape[0] for part in parts), *first.shape[1:])


def _view(memory: mmap.mmap, place: tuple[str, tuple[int, ...], int]) -> Array:
    dtype, shape, offset = place
    return np.frombuffer(memory, np.dtype(dtype), _count(shape), offset).reshape(shape)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
