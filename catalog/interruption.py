"""Work in native code that a signal ends: ONNX Runtime's runs, DuckDB's queries, Z3's questions.

Python runs a signal's handler between two bytecodes of the main thread, and so not while that is
inside of native code, for ever if that never returns. The system's own handler writes a byte to a
socket at once, though. A thread reads it and tells all that may be running to end, which makes the
native call return with an error; then the handler runs, and what it raises goes up as ever. Nothing
is done as long as no signal comes.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

Resource = TypeVar("Resource")

# What is between two native calls takes so long to reach the handler by itself; and a call that
# begins in that moment forgets that it was told to end, so all are told again and again.
_AGAIN_S = 0.05
# Native code that can't be ended, such as a session that is being opened, is waited for so long.
_PATIENCE_S = 1.5

_endable: weakref.WeakKeyDictionary[Any, Callable[[Any], object]] = weakref.WeakKeyDictionary()
_watches: list[Watch] = []  # the one that hears comes last
_lock = threading.RLock()  # a handler may run while the main thread has it


def endable(resource: Resource, end: Callable[[Resource], object]) -> Resource:
    """Have a signal call `end`, in another thread, with a resource as long as that lives.

    It has to do no harm to a resource that is idle. Returns the resource.
    """
    with _lock:
        _endable[resource] = end
    return resource


def end_all() -> None:
    """Tell all that may be running to end."""
    with _lock:
        known = list(_endable.items())
    for resource, end in known:
        with suppress(Exception):  # it is closed already
            end(resource)


class Watch:
    """A thread that hears of signals while the main thread is inside of native code.

    The first of the signals `numbers` ends what runs there, until the handler calls `reach`.
    `force` is called, in the thread, with the first signal's number where a second one comes, or
    where the handler isn't reached in time.
    """

    def __init__(
        self, numbers: Collection[int], force: Callable[[int], object] | None = None
    ) -> None:
        """Raises ValueError where this isn't the main thread: others never get signals."""
        self._reached = threading.Event()
        self.is_answered = False
        # Signals to come that the process sends to itself, and that count for nothing.
        self.expected = 0
        self._numbers, self._force = numbers, force
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        try:
            self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        except ValueError:
            self._writer.close()
            self._reader.close()
            raise
        self._thread = threading.Thread(target=self._watch, name="tensolog-signals", daemon=True)
        self._thread.start()
        _watches.append(self)

    def reach(self) -> None:
        """Say that Python's handler runs, in the main thread.

        That may be a native call's own doing: DuckDB looks for signals, and then waits for its
        other threads, which go on until they are told.
        """
        self._reached.set()
        end_all()

    @property
    def is_reached(self) -> bool:
        """Whether a signal has come and its handler was run."""
        return self._reached.is_set()

    def answer(self) -> None:
        """Say that the signal was done justice to: it is not raised again."""
        self.is_answered = True

    def close(self) -> None:
        """Hear nothing any more; who heard before does again."""
        _watches.remove(self)
        signal.set_wakeup_fd(self._before)
        self._writer.close()
        self._thread.join(_AGAIN_S)

    def _watch(self) -> None:
        first, since = 0, 0.0
        while True:
            waits = first and not self.is_reached
            self._reader.settimeout(_AGAIN_S if waits else None)
            try:
                data = self._reader.recv(64)
            except TimeoutError:
                end_all()
                if self._force is not None and time.monotonic() - since > _PATIENCE_S:
                    self._force(first)
                continue
            if not data:
                self._reader.close()
                return
            self._pass_on(data)
            for number in data:
                if number not in self._numbers:
                    continue
                if self.expected:
                    self.expected -= 1
                elif not first:
                    first, since = number, time.monotonic()
                elif self._force is not None:
                    self._force(first)

    def _pass_on(self, data: bytes) -> None:
        """Let who heard of signals before, such as an event loop, hear of them as well."""
        if self._before != -1 and os.name == "posix":
            with suppress(OSError):
                os.write(self._before, data)


def interrupted() -> Watch | None:
    """Return the watch that has heard of a signal which nobody has answered yet."""
    open_ = (watch for watch in _watches if watch.is_reached and not watch.is_answered)
    return next(open_, None)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what the block runs in native code, and raise KeyboardInterrupt.

    Nothing changes outside of the main thread, and where SIGINT has another handler than Python's:
    whether that means to end the work nobody else can know.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    watch = Watch({signal.SIGINT})

    def interrupt(number: int, frame: FrameType | None) -> None:
        watch.reach()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if watch.is_reached and not watch.is_answered:  # DuckDB makes a RuntimeError of it
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        watch.close()
    if watch.is_reached and not watch.is_answered:  # somebody took it for a passing failure
        raise KeyboardInterrupt
