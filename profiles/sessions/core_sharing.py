"""Sessions of a process that together ask for more cores than there are: none is to starve.

Linux gives each thread that computes as much time as any other. Two things make that unfair for
sessions. A thread that is bound to a processor has half of it where another one comes, and others
may be idle meanwhile: so pools let go of their processors as long as the sessions of their process
ask for more cores than there are (`Demand`). And threads that wait for each other after each
operator lose far more than their time where one that is woken has to wait for the end of another's
time slice: so those of a session of several threads ask for short slices
(`ask_for_short_slices`), which is how one tells the system that latency counts for them (Linux
6.12; older ones ignore it).

To run whole sessions in turns was tried and was worse, as the weights of each leave the caches and
processors idle while runs hand over.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import onnxruntime

from ..machine import cores

# A tenth of the default or less; the kernel's least is 0.1 ms.
_SLICE_NS = 100_000
# Of sched_setattr and the one behind it, sched_getattr.
_CALLS = {"x86_64": 314, "aarch64": 274}
# struct sched_attr: size, policy, flags, nice, priority; runtime, which is the slice of threads
# that have no deadline; deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_USUAL_POLICIES = (0, 3)  # SCHED_OTHER, SCHED_BATCH: others are somebody's choice


class Demand:
    """How many threads a session has that compute at the same time; it counts until `leave`."""

    def __init__(self, threads: int, shares_cores: Callable[[bool], object] | None = None) -> None:
        """Count a session; `shares_cores` is told whether all ask for too many, now and later.

        It is called from the thread of the session that opens or leaves.
        """
        key = id(self)
        self.leave = weakref.finalize(self, _leave, key)
        self.leave.atexit = False
        with _lock:
            _threads[key] = threads
            if shares_cores is not None:
                _listeners[key] = shares_cores
            _tell()


_lock = threading.RLock()  # a session may be collected while another one is counted
_threads: dict[int, int] = {}
_listeners: dict[int, Callable[[bool], object]] = {}
_is_shared = False


def are_cores_shared() -> bool:
    """Tell whether the sessions of this process have more threads than it has cores.

    As it was when the last of them opened or left: each run asks, and to count the cores takes
    files of the system, 0.2 ms and more.
    """
    return _is_shared


def will_cores_be_shared(threads: int) -> bool:
    """Tell whether it would be so with one more session of so many threads."""
    with _lock:
        return sum(_threads.values()) + threads > cores()


def _leave(key: int) -> None:
    with _lock:
        del _threads[key]
        _listeners.pop(key, None)
        _tell()


def _tell() -> None:
    global _is_shared
    _is_shared = sum(list(_threads.values())) > cores()
    for tell in list(_listeners.values()):
        tell(_is_shared)


class SharingSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # has no types
    """A session of ONNX Runtime of several threads, which ask for short time slices."""

    def __init__(self, model: str, options: onnxruntime.SessionOptions, **details: Any) -> None:
        """Open it as ONNX Runtime does, which raises what it raises."""
        threads = options.intra_op_num_threads or cores()
        with short_slices(threads > 1):  # which its threads inherit
            super().__init__(model, options, **details)
        self._demand = Demand(threads)
        self._is_parallel = threads > 1

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        """Run it; see onnxruntime.InferenceSession."""
        self._prepare()
        return super().run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:
        """Run it on values of the runtime; see onnxruntime.InferenceSession."""
        self._prepare()
        return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run it on what is bound; see onnxruntime.InferenceSession."""
        self._prepare()
        super().run_with_iobinding(iobinding, run_options)

    def _prepare(self) -> None:
        """Let the calling thread, which computes as well, be as those that it waits for."""
        if self._is_parallel and not getattr(_here, "has_asked", False) and are_cores_shared():
            _here.has_asked = True
            ask_for_short_slices()


_here = threading.local()


@contextlib.contextmanager
def short_slices(wanted: bool) -> Iterator[None]:
    """Let threads that are started meanwhile have short time slices."""
    before = _slice_ns() if wanted else None
    try:
        if before is not None:
            ask_for_short_slices()
        yield
    finally:
        if before is not None:
            _set_slice(before)


def ask_for_short_slices() -> None:
    """Ask for short time slices for this thread, and those that it starts, where there are such.

    It has as much time as before, in more pieces.
    """
    _set_slice(_SLICE_NS)


def _slice_ns() -> int | None:
    attributes = _attributes()
    return None if attributes is None else attributes[5]


def _set_slice(slice_ns: int) -> None:
    attributes = _attributes()
    if attributes is not None:
        changed = _ATTRIBUTES.pack(_ATTRIBUTES.size, *attributes[1:5], slice_ns, 0, 0)
        _call(0, ctypes.c_char_p(changed), 0)


def _attributes() -> tuple[int, ...] | None:
    """Return how this thread is scheduled; None where that is unknown, or nothing to be changed."""
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _call(1, buffer, _ATTRIBUTES.size, 0):
        return None
    attributes: tuple[int, ...] = _ATTRIBUTES.unpack(buffer.raw)
    return attributes if attributes[1] in _USUAL_POLICIES else None


def _call(number: int, *arguments: Any) -> int:
    """Call the system on this thread; not 0 where it can't be."""
    first = _CALLS.get(platform.machine())
    if sys.platform != "linux" or first is None:
        return -1
    return int(ctypes.CDLL(None).syscall(first + number, 0, *arguments))
