"""Threads that run one kernel together: each calls it, and all take chunks from one counter.

A call of C holds no lock of Python's. The threads are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

# More than there are ever threads wanted; they start when there is something to do for them.
_MOST = 256

_lock = Lock()
_pool: ThreadPoolExecutor | None = None


def together(call: Callable[[], object], threads: int) -> None:
    """Run `call` in as many threads, this one among them; return when all are done."""
    pool = _threads()
    helpers = [pool.submit(call) for _ in range(min(threads, _MOST) - 1)]
    call()
    for helper in helpers:
        helper.result()


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


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
