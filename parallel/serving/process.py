"""A process that runs models for this one: how it is started, spoken to, and ended.

It ends when its pipe is closed: no worker outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from ...catalog.errors import TensologError
from .shared_memory import anonymous_file

# Arguments come in a file: those of a command have room for 128 KiB, and a partition may have more.
_CODE = (
    "import json, os, sys\n"
    "with os.fdopen(int(sys.argv[1]), 'rb') as file: arguments = json.load(file)\n"
    "sys.path[:] = arguments.pop('path')\n"
    "from {package}.{module} import main; main(arguments)"
)
_END_S = 2.0
# numpy's own library of linear algebra would start a thread for each processor of the machine.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class InstanceError(TensologError):
    """An instance is gone: its process died, or did not answer in time and was ended."""


class RunError(TensologError):
    """The runtime refused to run the model on what it was given; the instance is well."""


class WorkerProcess:
    """A process that runs `main` of a module of this package, and a pipe to it."""

    def __init__(
        self, module: str, arguments: Mapping[str, Any], descriptors: Iterable[int]
    ) -> None:
        """Start it, without waiting for it; it inherits the descriptors."""
        if os.name == "nt":
            raise TensologError(
                "instances are processes that inherit descriptors, which Windows does not know: "
                "use tensolog.open_session here"
            )
        here, there = socket.socketpair()
        path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
        arguments_json = json.dumps({**arguments, "path": path, "pipe": there.fileno()})
        code = _CODE.format(package=__package__, module=module)
        try:
            with there, os.fdopen(anonymous_file(), "wb") as file, _interrupts_wait():
                file.write(arguments_json.encode())
                file.seek(0)
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code, str(file.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(there.fileno(), file.fileno(), *descriptors),
                    env={**os.environ, **_ONE_THREAD},
                )
        except OSError as error:
            here.close()
            raise InstanceError(f"no process could be started: {error.strerror}") from error
        self._connection = Connection(here.detach())

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of the pipe, which is hung up when the process ends."""
        return self._connection.fileno()

    def send(self, *message: Any) -> None:
        """Say something. Raises InstanceError where nobody is there."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise InstanceError(self.ending()) from error

    def receive(self, limit_s: float) -> Any:
        """Wait for an answer. Raises RunError with a reason it gives, InstanceError without one."""
        try:
            if not self._connection.poll(limit_s):
                self.kill()
                raise InstanceError(f"an instance had not answered after {limit_s:.3g} s")
            kind, content = self._connection.recv()
        except (EOFError, OSError) as error:
            raise InstanceError(self.ending()) from error
        if kind == "failed":
            raise RunError(content)
        return content

    def leave(self) -> None:
        """Tell the process that nobody asks any more; `close` waits until it has ended."""
        self._connection.close()

    def close(self) -> None:
        """End the process, by force if it is busy."""
        self.leave()
        try:
            self._process.wait(_END_S if self._process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process at once, also one that is stopped."""
        self._process.kill()
        self._process.wait()

    def ending(self) -> str:
        """Say how the process ended, which is about to if it has not yet."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "an instance closed its pipe"
        ended = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return f"the process of an instance ended {ended}"


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Start a process in which Ctrl-C waits, as long as it can't say yet what it makes of it.

    Ctrl-C reaches all processes of a terminal; one that loads Python would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
