"""Timing one kernel in ONNX Runtime: a probe that gives one sample at a time."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..kernel import Kernel, KernelError, TensorSpec
from ..sessions.session import AS_WRITTEN, BoundRun, Execution, open_session
from .blocked_convolution import may_be_blocked, without_reorders
from .kernel_model import build_model, draw_indices, index_inputs

Probe = Callable[[], float]
"""Takes one sample and returns nanoseconds per kernel."""

# A sample is the median of this many runs: a short kernel is repeated, a long one is not; three
# runs are enough to leave out one that lost its time slice.
_RUNS = 3
_ONCE_NS = 1_000_000
# Threads that have to be woken are up to half of a millisecond late: a tenth of a kernel of some
# milliseconds, and half of that where it runs twice. What two runs differ by varies more than that.
_LATE_NS = 20_000_000
# Other kernels have emptied the cache that cores share. It takes constants back in over five to
# eight runs. A model that fits finds most of its own there; a larger one finds few.
_RUNS_BEFORE, _RUNS_BEFORE_FITTING = 1, 2
# Before each run so many bytes a thread are read and written, about twice what a core's own cache
# holds: in a model the kernels between two runs of one have done the same to its constants.
_SWEPT_BYTES = 2 << 20
# A run has costs of its own: it begins with code and memory that are out of the caches, and with
# several threads it wakes the workers; inside a model all of this is done. So short kernels are
# timed as several copies in one run of about this length, and a run of one is taken off. A longer
# run would lose its time slice more often.
_MOST_COPIES = 12
_COPIES_NS = 300_000
# Their constants may fill the cache that cores share, as a model's do; what runs into one
# kernel comes from another, and is in it. Tables that rows are looked up in may take more: those of
# a model with one have many, and rows drawn anew are in no cache.
_COPIES_BYTES, _CONSTANT_BYTES, _TABLE_BYTES = 8 << 20, 32 << 20, 64 << 20
# No kernel is free: what the subtraction leaves is cut here.
_LEAST_NS = 50.0

REFERENCE = Kernel(
    "",
    "MatMul",
    13,
    (),
    (TensorSpec("float32", (32, 256)), TensorSpec("float32", (256, 256), constant=True)),
)
"""Runs in every round, to tell the quiet rounds from the disturbed ones."""


class Runner(Protocol):
    """What the cost model measures with; tests put a simulated one in its place."""

    def prepare(self, kernel: Kernel) -> Probe:
        """Return a probe for the kernel; KernelError where it can't run."""
        ...


def most_copies(kernel: Kernel) -> int:
    """Return in how many copies a kernel is timed at most, for the memory that they hold."""
    if kernel.is_view:  # timed on one element
        return _MOST_COPIES
    room = _TABLE_BYTES if index_inputs(kernel) else _CONSTANT_BYTES
    constants = room // max(1, kernel.constant_bytes)
    others = _COPIES_BYTES // max(1, kernel.input_bytes - kernel.constant_bytes)
    return max(1, min(_MOST_COPIES, constants, others))


def most_bytes(kernel: Kernel) -> int:
    """Return how many bytes all copies of a kernel read at most."""
    return 0 if kernel.is_view else kernel.input_bytes * most_copies(kernel)


class SessionRunner:
    """Runs kernels in ONNX Runtime sessions, what a run costs by itself subtracted."""

    def __init__(self, threads: int, configuration: str, constant_bytes: int = sys.maxsize) -> None:
        """Threads inside an operator; configuration as in session.LEVELS.

        `constant_bytes` are those of the model that kernels are timed for: what it reads between
        two runs of one. More than a cache holds where they are timed for any.
        """
        self._threads = threads
        fits = constant_bytes <= _CONSTANT_BYTES
        self._runs_before = _RUNS_BEFORE_FITTING if fits else _RUNS_BEFORE
        self._swept_bytes = min(constant_bytes, threads * _SWEPT_BYTES)
        self._configuration = configuration
        self._overhead: float | None = None
        self._sweep: BoundRun | None = None
        self._rng = np.random.default_rng(1)

    def prepare(self, kernel: Kernel) -> Probe:
        """Build, load and warm up a model of the kernel; KernelError with the runtime's reason."""
        overhead = self.overhead_ns()
        single = self._bound(kernel, 1)
        once = min(single.time() for _ in range(3))
        long = once > _ONCE_NS
        copies = self._copies(kernel, once)
        several = self._bound(kernel, copies) if copies > 1 else single
        if copies == 1 or long:
            runs = 1 if long else _RUNS
            return lambda: max(_LEAST_NS, (self._median(kernel, several, runs) - overhead) / copies)

        def probe() -> float:
            all_ns, one_ns = (self._median(kernel, run, _RUNS) for run in (several, single))
            return max(_LEAST_NS, (all_ns - one_ns) / (copies - 1))

        return probe

    def _median(self, kernel: Kernel, run: BoundRun, runs: int) -> float:
        """Return the median of some runs, each of which finds nothing in a core's own cache."""
        if runs > 1:
            run.time(self._runs_before)
        times = []
        for _ in range(runs):
            draw_indices(kernel, run.feeds, self._rng)
            self._sweeper().time()
            times.append(run.time())
        return statistics.median(times)

    def _copies(self, kernel: Kernel, once_ns: float) -> int:
        """Say in how many copies a kernel is timed that takes so long by itself."""
        if once_ns > _ONCE_NS:
            wakes = self._threads > 1 and once_ns < _LATE_NS
            return min(most_copies(kernel), 2) if wakes else 1
        return min(most_copies(kernel), 1 + math.ceil(_COPIES_NS / once_ns))

    def _sweeper(self) -> BoundRun:
        """Return a run that leaves nothing else in the caches of the cores that compute."""
        if self._sweep is None:
            # As many bytes are written as are read.
            elements = max(1, self._swept_bytes // 8)
            self._sweep = self._bound(
                Kernel("", "Abs", 13, (), (TensorSpec("float32", (elements,)),)), 1
            )
        return self._sweep

    def overhead_ns(self) -> float:
        """Return the time of a run of no operator: extrapolated from models of one and of nine.

        Without the operator's own dispatch, which it pays inside a model as well.
        """
        if self._overhead is None:
            tiny = Kernel("", "Identity", 13, (), (TensorSpec("float32", (1,)),))
            few, many = self._bound(tiny, 1), self._bound(tiny, 9)
            single = min(few.time(20) for _ in range(25))
            nine = min(many.time(20) for _ in range(25))
            self._overhead = max(0.0, single - (nine - single) / 8)
        return self._overhead

    def _bound(self, kernel: Kernel, copies: int) -> BoundRun:
        execution = Execution(self._configuration)
        blockable = may_be_blocked(kernel.op_type, self._configuration)
        constants: dict[str, np.ndarray[Any, Any]] = {}
        model, feeds = build_model(kernel, copies, None if blockable else constants)
        try:
            if blockable:
                blocked = without_reorders(model, feeds, self._threads)
                if blocked is not None:
                    (model, feeds), execution = blocked, AS_WRITTEN
            session = open_session(
                model, threads=self._threads, execution=execution, constants=constants
            )
            return BoundRun(session, feeds)
        except KernelError:
            raise
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            reason = " ".join(str(error).split())[:300]
            raise KernelError(f"{kernel.label()}: {reason}") from error
