"""Timing one kernel in ONNX Runtime: a probe that gives one sample at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .kernel import Kernel, KernelError, TensorSpec
from .kernel_model import build_model
from .layout import may_be_blocked, without_reorders
from .session import AS_WRITTEN, BoundRun, Execution, open_session

Probe = Callable[[], float]
"""Takes one sample and returns nanoseconds per kernel."""

# A sample is the median of this many runs: a short kernel is repeated, a long one is not, and in
# between three runs are enough to leave out one that lost its time slice.
_SAMPLE_NS = 50_000
_MOST_RUNS = 30
_ONCE_NS = 1_000_000
# With several threads each run first wakes the workers, inside a model they are awake already:
# short kernels are therefore timed as several copies in one run of about this length. A longer
# run would lose its time slice more often.
_MOST_COPIES = 6
_COPIES_NS = 150_000
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


class SessionRunner:
    """Runs kernels in ONNX Runtime sessions, the time of an empty run subtracted."""

    def __init__(self, threads: int, configuration: str) -> None:
        """Threads inside an operator; configuration as in session.LEVELS."""
        self._threads = threads
        self._configuration = configuration
        self._overhead: float | None = None

    def prepare(self, kernel: Kernel) -> Probe:
        """Build, load and warm up a model of the kernel; KernelError with the runtime's reason."""
        overhead = self.overhead_ns()
        run = self._bound(kernel, 1)
        copies = 1
        once = min(run.time() for _ in range(3))
        if self._threads > 1 and not kernel.is_view:
            copies = max(1, min(_MOST_COPIES, round(_COPIES_NS / once)))
        if copies > 1:
            run = self._bound(kernel, copies)
            once = min(run.time() for _ in range(3))
        fewest = 3 if once < _ONCE_NS else 1
        runs = max(fewest, min(_MOST_RUNS, round(_SAMPLE_NS / once)))

        def probe() -> float:
            if runs > 1:
                run.time()
            return max(_LEAST_NS, (run.time(runs) - overhead) / copies)

        return probe

    def overhead_ns(self) -> float:
        """Return the time of a run of no operator: extrapolated from models of one and of nine.

        Without the operator's own dispatch, which it pays inside a model as well.
        """
        if self._overhead is None:
            tiny = Kernel("", "Identity", 13, (), (TensorSpec("float32", (1,)),))
            few, many = self._bound(tiny, 1), self._bound(tiny, 9)
            one = min(few.time(20) for _ in range(25))
            nine = min(many.time(20) for _ in range(25))
            self._overhead = max(0.0, one - (nine - one) / 8)
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
