"""Threads that run one kernel together: each calls it, and all take chunks from one counter.

They are threads of C (pool.h), which hold no lock of Python's and are there within microseconds.
Where those can't be compiled, as on Windows, Python's do it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import resources
from threading import Lock

from .compiler import FLAGS, CompilerError, find_compiler, library

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
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@cache
def _native() -> Callable[[int, int, int], object] | None:
    """Return the threads of C; None where there are none."""
    compiler = find_compiler()
    if compiler is None or os.name == "nt":
        return None
    text = resources.files(__package__).joinpath("pool.h").read_text(encoding="utf-8")
    try:
        found = library(text, compiler, (*FLAGS, "-pthread")).together
    except (CompilerError, OSError):
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    found.restype = None
    called: Callable[[int, int, int], object] = found
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
