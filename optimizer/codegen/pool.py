"""Threads that run one kernel together: each calls it, and all take chunks from one counter.

A call of C holds no lock of Python's. The threads are kept, as many as were ever asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_lock = Lock()
_pool: ThreadPoolExecutor | None = None
_size = 0


def together(call: Callable[[], object], threads: int) -> None:
    """Run `call` in as many threads, this one among them; return when all are done."""
    helpers = [_helpers(threads - 1).submit(call) for _ in range(threads - 1)]
    call()
    for helper in helpers:
        helper.result()


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _helpers(wanted: int) -> ThreadPoolExecutor:
    global _pool, _size
    with _lock:
        if _pool is None or _size < wanted:
            # the old pool ends what it was given, then its threads end
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool, _size = ThreadPoolExecutor(wanted, "tensolog-kernel"), wanted
        return _pool


def _forget() -> None:
    """A forked process has none of the threads."""
    global _pool, _size, _lock
    _pool, _size, _lock = None, 0, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
