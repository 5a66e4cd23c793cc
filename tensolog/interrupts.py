"""Ctrl-C and its kin: the first one ends the command cleanly, wherever it strikes; the second one
ends it at once."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from .catalog.interruption import Watch

_caught: list[KeyboardInterrupt] = []

# An interrupt that strikes while a module is loaded comes again after so long, and so many times:
# native modules, such as DuckDB's, abort the process where loading them raises anything.
_LATER_S = 0.02
_MOST_TIMES = 500
# What a command that is ended by force has to remove its temporary files.
_REMOVING_S = 0.3
# Exit codes of what was interrupted; the last one where the best so far was written all the same.
INTERRUPTED, TERMINATED, WRITTEN = 130, 143, 3
NOTHING_WRITTEN = "nothing was written"
# What the blocks of `on_interrupt` say that are under way, the outer ones first.
_states: list[str] = []


class Interrupted(KeyboardInterrupt):
    """SIGINT. Not KeyboardInterrupt itself: once that has passed through exec(), CPython 3.11 ends
    the process by the signal, whatever exit code it was given."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: cleans up on the same path as Ctrl-C."""


@contextmanager
def one_interrupt(*, last: bool = False) -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into an exception, also inside of native code.

    More of them are ignored while cleaning up. `last`: the process ends after the block, and they
    stay ignored. What is done is done then, and an interpreter that shuts down would end by the
    signal, whatever its exit code is. In the block a second signal ends such a process at once, as
    does the first one where native code can't be ended.
    """

    times, waits = 0, False
    watch: Watch | None = None

    def again(number: int) -> None:
        nonlocal waits
        waits = False
        if watch is not None:
            watch.expected += 1
        if hasattr(signal, "pthread_kill"):  # what the main thread waits for ends, too
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:
            signal.raise_signal(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal times, waits
        if waits or _caught:
            return
        if times < _MOST_TIMES and _is_loading(frame):
            times, waits = times + 1, True
            later = threading.Timer(_LATER_S, again, (number,))
            later.daemon = True
            later.start()
            return
        if watch is not None:
            watch.reach()
        if not last:  # else a second one is to be heard
            for handled in before:
                signal.signal(handled, signal.SIG_IGN)
        _caught.append(Interrupted() if number == signal.SIGINT else Terminated())
        raise _caught[0]

    before = {}
    _caught.clear()
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            # A script's shell starts what it leaves in the background with SIGINT ignored: whoever
            # sends one means it. A hangup is ignored where `nohup` says so.
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, interrupt)
        watch = Watch(before, _end_now if last else None)
    except ValueError:
        pass  # not the main thread: whoever runs us keeps the signals
    try:
        yield
    finally:
        if watch is not None:
            watch.close()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)


def describe(kind: type[BaseException], state: str) -> tuple[str, int]:
    """Return the line that an interrupted command ends with, and its exit code."""
    if issubclass(kind, Terminated):
        return f"terminated; {state}", TERMINATED
    return f"interrupted; {state}", INTERRUPTED


def _end_now(number: int) -> None:
    """End the process, from a thread of its own: the main thread may never come back."""
    kind = Interrupted if number == signal.SIGINT else Terminated
    line, code = describe(kind, _states[-1] if _states else NOTHING_WRITTEN)
    # Not through sys.stderr: the main thread may be writing to it.
    shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # progress hides the cursor
    with suppress(OSError):
        os.write(2, f"{shown}{line}\n".encode())
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process; temporary files are removed, as far as that is done soon."""
    removing = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    removing.start()
    removing.join(_REMOVING_S)
    os._exit(code)


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a module is being loaded where a signal struck."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap_external>":
            return True
        frame = frame.f_back
    return False


def caught() -> KeyboardInterrupt | None:
    """Give the interrupt that struck, even where a library has made another error of it.

    DuckDB does: an interrupted query ends in a RuntimeError.
    """
    return _caught[0] if _caught else None


def answer() -> None:
    """Say that what struck was done justice to: it neither ends anything nor is the exit code."""
    _caught.clear()


def stop_if_interrupted() -> None:
    """Raise the interrupt again, in case that somebody below took it for a passing failure."""
    if _caught:
        raise _caught[0]


@contextmanager
def on_interrupt(state: str) -> Iterator[None]:
    """Have an interrupt of the block say `state`; what an inner block says goes first."""
    _states.append(state)
    try:
        yield
    except BaseException:
        if (interrupt := caught()) is not None:
            interrupt.add_note(state)
        raise
    finally:
        _states.pop()
