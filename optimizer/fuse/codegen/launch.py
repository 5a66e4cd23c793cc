"""How a kernel is called: its arguments, its threads, and what is left when its chunks are done.

The arguments are one array of 64-bit integers, whose head is the same for all kernels:

    0 the next chunk, counted up by all threads     4 columns
    1 chunks                                        5 address of the chunks' partial results
    2 rows (or cells) in a chunk                    6 doubles of a chunk there
    3 rows (or cells)                               7 not 0: memory ran out

Sizes and views follow; a view is four integers (common.h). Threads run one kernel together: each
calls it, and all take chunks from one counter. They are threads of C (pool.h), which hold no lock
of Python's and are there within microseconds; where those can't be compiled, as on Windows,
Python's do it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from threading import Lock
from typing import Any

import numpy as np

from ....catalog.terms.index_notation import Apply, Read, Term
from ....catalog.terms.term_evaluator import TermEvaluator
from ....profiles.machine import processors
from ... import codegen
from ...codegen.compiler import FLAGS, CompilerError, find_compiler, library
from ...codegen.expressions import LoweringError, Reduction
from ..program.dag import Node, Program
from .statements import kernel_dtype

# More than there are ever threads wanted; they start when there is something to do for them.
_MOST = 256

_lock = Lock()
_pool: ThreadPoolExecutor | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel: called with the address of its arguments, and where it lies."""

    call: Callable[[int], object]
    address: int


def together(function: Function, arguments: int, threads: int) -> None:
    """Run a kernel in as many threads, this one among them; return when all are done."""
    native = _native()
    if native is not None:
        native(function.address, arguments, threads)
        return
    pool = _threads()
    helpers = [pool.submit(function.call, arguments) for _ in range(min(threads, _MOST) - 1)]
    function.call(arguments)
    for helper in helpers:
        helper.result()


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(processors())


@cache
def _native() -> Callable[[int, int, int], object] | None:
    """Return the threads of C; None where there are none."""
    compiler = find_compiler()
    if compiler is None or os.name == "nt":
        return None
    text = resources.files(codegen).joinpath("pool.h").read_text(encoding="utf-8")
    try:
        function = library(text, compiler, (*FLAGS, "-pthread")).together
    except (CompilerError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function.restype = None
    called: Callable[[int, int, int], object] = function
    return called


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_MOST, "tensolog-kernel")
        return _pool


def _forget() -> None:
    """A forked process has none of the threads."""
    global _pool, _lock
    _pool, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def over_chunks(end: str, inside: Sequence[str], done: str = "return") -> list[str]:
    """Return the loop in which a thread takes one chunk after the other, up to `end`.

    `inside` is computed for each, `done` said after the last.
    """
    return [
        "  for (;;) {",
        "    const i64 chunk = __atomic_fetch_add(a, 1, __ATOMIC_RELAXED);",
        f"    if (chunk >= a[1]) {done};",
        f"    const i64 {end} = LEAST((chunk + 1) * a[2], a[3]);",
        *(f"    {line}" for line in inside),
        "  }",
    ]


Array = Any  # an ndarray of a known dtype

# The codes of runtime.h's CONVERT.
CODES: Mapping[str, int] = {
    "float32": 1,
    "float64": 2,
    "uint8": 3,
    "bool": 3,
    "int8": 4,
    "uint16": 5,
    "int16": 6,
    "uint32": 7,
    "int32": 8,
    "uint64": 9,
    "int64": 10,
}


# Codes of the types that kernels hold, where an array has to be copied all the same.
FROM: Mapping[str, int] = {"float32": 1, "float64": 2, "bool": 3}

# What a view of a sparse matrix says of it (common.h).
DISTINCT, WIDE = 1, 2

# To compare with: asking a dtype for its name takes NumPy several microseconds.
DTYPES: Mapping[str, Any] = {name: np.dtype(name) for name in CODES}


def prepared(array: Array, node: Node) -> Array:
    """Return an array in the machine's byte order; raise LoweringError if it isn't the node's.

    A kernel is made for types and shapes; others must not reach it.
    """
    if array.shape == node.shape and array.dtype == DTYPES.get(node.dtype):
        return array
    if array.shape != node.shape or array.dtype.name != node.dtype:
        raise LoweringError(
            f"%{node.id} is {array.dtype.name} {array.shape}, "
            f"but was planned as {node.dtype} {node.shape}"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def code(array: Array, node: Node) -> int:
    """Return 0 for an array that a kernel reads where it lies, else what it is converted from."""
    if array.dtype == DTYPES[kernel_dtype(node)] and array.flags.aligned:
        return 0
    return CODES[array.dtype.name]


def _told_address(array: Array) -> int:
    data: int = array.ctypes.data
    return data


_pointer = ctypes.c_void_p.from_address


def _read_address(array: Array) -> int:
    return _pointer(id(array) + _HEAD).value or 0


# An array's own pointer follows the head of an object, in the struct that NumPy's headers publish.
# Asking NumPy takes ten times as long; what is read is compared with what it tells once.
_HEAD = object.__basicsize__


def _agree() -> bool:
    base = np.arange(12.0).reshape(3, 4)
    return ctypes.sizeof(ctypes.c_void_p) + _HEAD <= np.ndarray.__basicsize__ and all(
        _read_address(array) == _told_address(array)
        for array in (base, base[1:, ::2], base.T, base[:0])
    )


# Return where an array's first element lies.
address = _read_address if sys.implementation.name == "cpython" and _agree() else _told_address


def contiguous(array: Array, dtype: str) -> Array:
    """Return an array in C's order, aligned, of a kernel's type."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype == DTYPES[dtype]:
        return array
    return np.require(array, dtype=dtype, requirements=["C", "A"])


def prepared_sparse(matrix: Array, node: Node) -> Array:
    """Return a sparse matrix; raise LoweringError if it isn't the node's, as `prepared` does."""
    if matrix.shape != node.shape or matrix.dtype != DTYPES.get(node.dtype):
        raise LoweringError(f"%{node.id} is {matrix.dtype.name} {matrix.shape}, not as planned")
    return matrix


def sparse_view(matrix: Array, dtype: str, used: list[Array]) -> tuple[int, int, int, int]:
    """Return the view of a sparse matrix by rows, or by columns; its arrays are added to `used`.

    The last number is WIDE if 64 bits tell where rows begin: SciPy has 32 for it unless there are
    too many entries, or the caller chose otherwise.
    """
    wide = matrix.indptr.dtype.itemsize > 4
    parts = (
        contiguous(matrix.data, dtype),
        contiguous(matrix.indptr, "int64" if wide else "int32"),
        contiguous(matrix.indices, "int32"),
    )
    used += parts
    data, begins, columns = map(address, parts)
    return data, begins, columns, WIDE if wide else 0


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
    chunk_width = -(-max(1, total) // _LINE) * _LINE
    memory = np.zeros(chunks * chunk_width + _LINE)
    first = -(address(memory) // 8) % _LINE
    return memory[first : first + chunks * chunk_width].reshape(chunks, chunk_width)


def start(function: Function, numbers: Sequence[int], threads: int) -> None:
    """Run a kernel to its end, in up to `threads` threads; raise MemoryError where it can't."""
    arguments = array("q", numbers)  # made in a third of the time that ctypes takes
    address = arguments.buffer_info()[0]
    threads = min(threads, numbers[1])
    if threads <= 1:
        function.call(address)
    else:
        together(function, address, threads)
    if arguments[7]:
        raise MemoryError("no memory for the tiles of a kernel")


def exported(library: ctypes.CDLL, name: str) -> Function:
    """Return a kernel of a library."""
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p]
    function.restype = None
    return Function(function, ctypes.cast(function, ctypes.c_void_p).value or 0)


@dataclass(frozen=True)
class Finish:
    """A reduction's chunks, made one: by `kind`, then `last` of that, in the node's shape."""

    node: int
    kind: str
    last: Term
    shape: tuple[int, ...]
    dtype: str

    def apply(self, partial: Array, count: int) -> Array:
        """Return the value from the chunks' along the first axis, of `count` elements in all.

        The caller turns NumPy's warnings off. Raises ValueError for the least or greatest of
        nothing, as NumPy does.
        """
        if self.kind in ("max", "min") and not count:
            raise ValueError("zero-size array to reduction operation which has no identity")
        whole = partial[0] if len(partial) == 1 else _REDUCE[self.kind].reduce(partial, axis=0)
        array: Array = np.array(self._last(whole), dtype=DTYPES[self.dtype])
        if array.shape != self.shape:
            array.shape = self.shape
        return array

    @cached_property
    def _last(self) -> Callable[[Array], Array]:
        return _LastStep().value(self.last)


_REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def finish(program: Program, reduction: Reduction) -> Finish:
    """Return how a reduction ends; raise LoweringError where that isn't known."""
    node = program.nodes[reduction.node]
    if reduction.kind == "none":
        raise LoweringError("a reduction of nothing")
    finish = Finish(node.id, reduction.kind, reduction.last, node.shape, node.dtype)
    _ = finish._last  # refused now, not when it runs
    return finish


def finishes(program: Program, reductions: Mapping[int, Reduction | None]) -> Mapping[int, Finish]:
    """Return how the reductions among a kernel's results end, by node."""
    return {
        number: finish(program, reduction)
        for number, reduction in reductions.items()
        if reduction is not None
    }


class _LastStep(TermEvaluator[Callable[[Array], Array]]):
    """What a term makes of the reduced value, which it reads."""

    def refusal(self, term: Term) -> LoweringError:
        return LoweringError(f"{term} after a reduction")

    def constant(self, value: float) -> Callable[[Array], Array]:
        scalar: Array = np.float64(value)
        return lambda _: scalar

    def read(self, element: Read) -> Callable[[Array], Array]:
        return lambda whole: whole

    def apply(
        self, function: str, arguments: Sequence[Callable[[Array], Array]]
    ) -> Callable[[Array], Array]:
        ufunc = {"sqrt": np.sqrt, "log": np.log, "/": np.divide}.get(function)
        if ufunc is None:
            raise self.refusal(Apply(function, ()))
        return lambda whole: ufunc(*[argument(whole) for argument in arguments])
