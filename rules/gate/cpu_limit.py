"""A limit of processor time on all that is done of a rule, whatever it is busy with.

What a proof may take is counted (prover/work_clock.py), so that no verdict depends on the machine;
that is no bound on what is not counted: writing out cases, drawing instances, running them. This
is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# All that a rule may take, in processor time, for each second that its proof may, and besides: the
# proof with a counterexample and conditions, then the measurement in floating point.
PROOF_TIMES, PROOF_MORE_S = 1.5, 5.0
FLOATING_TIMES, FLOATING_MORE_S = 0.5, 5.0


class OutOfTimeError(BaseException):
    """The time is over; no Exception, so that nothing on the way takes it for its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError after so many seconds of processor time of this process.

    What a solver is asked is answered first. Where the system has no such timer, or another thread
    than the main one asks, there is no limit: prover_pool.py ends workers by real time.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not _MAIN:
        yield
        return
    running = True

    def end(number: int, frame: FrameType | None) -> None:
        if running:
            raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


_MAIN = threading.main_thread()
