"""What sessions leave behind, and the kernels in the runtime's own layout."""

import gc
import signal
import subprocess
import sys
import weakref

import numpy as np
import onnx
import pytest
from tensolog.catalog.interruption import interruptible
from tensolog.optimizer.layouts.runtime import block_size
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernels.blocked_convolution import may_be_blocked, without_reorders
from tensolog.profiles.kernels.kernel_model import build_model
from tensolog.profiles.sessions import session
from tensolog.profiles.sessions.denormals import flushed_denormals, flushes
from tensolog.profiles.sessions.session import (
    AS_WRITTEN,
    BoundRun,
    open_session,
    release_memory,
    resident_bytes,
    run_session,
)

from tests.endless import endless_model, struck

PLACE = TensorSpec("float32", (1, 32, 12, 12))


def test_denormals_are_flushed_inside_of_the_block_only():
    assert not flushes()
    with flushed_denormals() as worked:
        assert flushes() == worked
        with flushed_denormals():
            assert flushes() == worked
        assert flushes() == worked
    assert not flushes()
    with pytest.raises(KeyError), flushed_denormals():
        raise KeyError
    assert not flushes()


class Cyclic:
    """An array that only the garbage collector frees."""

    def __init__(self, size_bytes):
        self.itself, self.array = self, np.ones(size_bytes, np.uint8)


@pytest.mark.skipif(not resident_bytes(), reason="the system does not say what is in use")
def test_garbage_is_looked_for_only_where_memory_has_grown(monkeypatch):
    monkeypatch.setattr(session, "_least_bytes", 0)
    gc.disable()
    try:
        release_memory()
        small = weakref.ref(Cyclic(1 << 10))
        release_memory()
        assert small() is not None
        large = weakref.ref(Cyclic(256 << 20))
        release_memory()
        assert small() is None and large() is None
    finally:
        gc.enable()


def test_the_first_session_of_a_process_leaves_denormals_alone():
    code = (
        "from tensolog.profiles.sessions.denormals import flushes\n"
        "from tensolog.profiles.machine import measure_peak\n"
        "assert measure_peak() > 0\n"
        "assert not flushes()\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def conv(channels):
    weight = TensorSpec("float32", (channels, 32, 3, 3), constant=True)
    return Kernel("", "Conv", 18, {"pads": [1, 1, 1, 1]}, (PLACE, weight))


@pytest.mark.parametrize("channels", [32, 40, 3])
def test_a_convolution_without_its_reorders_computes_the_same(channels):
    model, feeds = build_model(conv(channels))
    expected = open_session(model, threads=1).run(None, feeds)[0]
    stripped = without_reorders(model, feeds, threads=1)
    if stripped is None:
        pytest.skip("this processor has no blocked layout")
    blocked_model, blocked_feeds = stripped
    operators = {node.op_type for node in onnx.load_from_string(blocked_model).graph.node}
    assert operators.isdisjoint({"ReorderInput", "ReorderOutput"})
    session = open_session(blocked_model, threads=1, execution=AS_WRITTEN)
    got = session.run(None, blocked_feeds)[0]
    if got.shape != expected.shape or channels % 8 == 0:
        # [n, c, h, w] holds blocks [n, c / b, h, w, b]
        block = block_size()
        n, c, h, w = got.shape
        got = got.reshape(n, c // block, h, w, block).transpose(0, 1, 4, 2, 3)
        got = got.reshape(n, c, h, w)[:, :channels]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_other_operators_have_no_reorders():
    model, feeds = build_model(Kernel("", "Relu", 18, (), (PLACE,)))
    assert without_reorders(model, feeds, threads=1) is None
    assert may_be_blocked("Conv", "all") and not may_be_blocked("Conv", "extended")
    assert not may_be_blocked("Relu", "all")


FEEDS = {"x": np.zeros(4, np.float32)}


@pytest.mark.parametrize("kind", ["Loop", "While"])
@pytest.mark.parametrize("run", [run_session, BoundRun])
def test_an_interrupt_ends_a_run_without_end(kind, run):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        session = open_session(endless_model(kind).SerializeToString(), threads=1)
        with pytest.raises(KeyboardInterrupt), struck(), interruptible():
            run(session, FEEDS)
    finally:
        signal.signal(signal.SIGINT, before)


def test_runs_that_are_short_cost_what_they_cost_without_interrupts():
    """Options of a run take Python longer than a small model runs."""
    model = build_model(Kernel("", "Relu", 13, (), (TensorSpec("float32", (4,)),)), 1)[0]
    session = open_session(model, threads=1)
    feeds = {session.get_inputs()[0].name: FEEDS["x"]}
    calls = []

    class Spy:
        def __getattr__(self, name):
            return getattr(session, name)

        def run_with_iobinding(self, binding, options=None):
            calls.append(options)
            session.run_with_iobinding(binding, options)

    run = BoundRun(Spy(), feeds)
    calls.clear()
    run.time(3)
    assert calls == [None] * 3
