"""Threads that run a kernel together: each chunk is done once, whoever asks for it."""

import ctypes
import os
import sys
import threading

import pytest
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import library
from tensolog.optimizer.fuse.codegen import launch
from tensolog.optimizer.fuse.codegen.launch import exported, start

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")

# Counts up each chunk's own number.
_COUNTING = """
#include <stdint.h>
__attribute__((visibility("default"))) void count(int64_t *a) {
  for (;;) {
    const int64_t chunk = __atomic_fetch_add(a, 1, __ATOMIC_RELAXED);
    if (chunk >= a[1]) return;
    volatile double x = 1;
    for (int i = 0; i < 200; i++) x = x / 3;
    __atomic_fetch_add((int64_t *)a[2] + chunk, 1, __ATOMIC_RELAXED);
  }
}
"""


@pytest.fixture(params=["C", "Python"])
def counted(request, monkeypatch):
    """A function that runs chunks in threads, and returns how often each was run."""
    if request.param == "Python":
        monkeypatch.setattr(launch, "_native", lambda: None)
    elif os.name == "nt":
        pytest.skip("its threads are Python's")
    else:
        assert launch._native() is not None
    function = exported(library(_COUNTING, find_compiler()), "count")

    def run(chunks, threads):
        counts = (ctypes.c_int64 * chunks)()
        start(function, (0, chunks, ctypes.addressof(counts), 0, 0, 0, 0, 0), threads)
        return list(counts)

    return run


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_each_chunk_is_run_once(counted, threads):
    for chunks in (1, 2, 5, 64):
        for _ in range(20):
            assert counted(chunks, threads) == [1] * chunks


def test_callers_share_the_threads(counted):
    wrong = []

    def call():
        for _ in range(100):
            if counted(16, 4) != [1] * 16:
                wrong.append(threading.get_ident())

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes aren't forked here")
@pytest.mark.skipif(sys.platform == "darwin", reason="the system's libraries don't outlive a fork")
def test_a_forked_process_has_its_own(counted):
    assert counted(16, 3) == [1] * 16
    child = os.fork()
    if not child:
        ends = 0 if all(counted(16, 3) == [1] * 16 for _ in range(10)) else 1
        os._exit(ends)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert counted(16, 3) == [1] * 16
