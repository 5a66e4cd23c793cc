"""How a kernel is called: one array of 64-bit integers, whose head is the same for all kernels.

    0 the next chunk, counted up by all threads     4 columns
    1 chunks                                        5 address of the chunks' partial results
    2 rows (or cells) in a chunk                    6 doubles of a chunk there
    3 rows (or cells)                               7 not 0: memory ran out

Sizes and views follow; a view is four integers (common.h).
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence

import numpy as np

from .arrays import Array, address
from .pool import Function, together

HEADER = 8
VIEW = 4

# The most chunks of a run: enough to share evenly, few enough to add up in one go.
MOST_CHUNKS = 64
# The most doubles that the partial results of all chunks together take.
_PARTIALS = 1 << 22
# Chunks that are always made of what is large, and the numbers that make one of partial results
# worth while.
_ENOUGH = 16
_WORTH = 64
# Numbers that are added where they belong in the time that a number of partial results costs.
DEAR = 8
# Doubles of two lines of the caches, which processors fetch together.
_LINE = 16


def chunked(
    count: int, least: int = 1 << 14, unit: int = 1 << 10, partial: int = 0, work: int = 1
) -> tuple[int, int]:
    """Return how many chunks there are, and how much is in each but the last.

    Both depend on the size alone, so that results don't depend on the number of threads. `partial`
    is how many doubles a chunk keeps until all are added up: the more, the fewer chunks, and so
    where each element, `work` numbers of its own, brings little work beside them.
    """
    most = max(4, min(MOST_CHUNKS, _PARTIALS // max(1, partial)))
    step = max(least, -(-count // most))
    most = max(_ENOUGH, count * work // max(1, _WORTH * partial))
    step = max(step, -(-count // most))
    step = -(-step // unit) * unit
    return max(1, -(-count // step)), step


def partials(chunks: int, total: int) -> Array:
    """Return memory for `total` doubles of each chunk: zeros, each chunk's where a line begins.

    Two chunks have no line in common, and what is scattered by rows of a few lies in one line each.
    """
    if total <= _LINE and chunks == 1:
        return np.zeros((1, max(1, total)))
    apart = -(-max(1, total) // _LINE) * _LINE
    memory = np.zeros(chunks * apart + _LINE)
    first = -(address(memory) // 8) % _LINE
    return memory[first : first + chunks * apart].reshape(chunks, apart)


def start(function: Function, given: Sequence[int], threads: int) -> None:
    """Run a kernel to its end, in up to `threads` threads; raise MemoryError where it can't."""
    arguments = array("q", given)  # made in a third of the time that ctypes takes
    at = arguments.buffer_info()[0]
    threads = min(threads, given[1])
    if threads <= 1:
        function.call(at)
    else:
        together(function, at, threads)
    if arguments[7]:
        raise MemoryError("no memory for the tiles of a kernel")


def exported(library: ctypes.CDLL, name: str) -> Function:
    """Return a kernel of a library."""
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p]
    function.restype = None
    return Function(function, ctypes.cast(function, ctypes.c_void_p).value or 0)
