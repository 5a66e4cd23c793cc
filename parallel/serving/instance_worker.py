"""The process that runs an instance of a model: what is asked of it over a pipe, and its answers.

It is started by `instance.py`. Messages are small tuples; tensors lie in memory that both share.
It ends when the pipe is closed: no worker outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime

from ...catalog.errors import TensologError
from ...profiles.sessions.core_sharing import ask_for_short_slices
from ...profiles.sessions.deployed import open_deployed, spin_briefly
from ...profiles.sessions.session import BoundRun, Outputs, reason_of, resident_bytes
from .shared_memory import SharedMemory

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main(arguments: dict[str, Any]) -> None:
    """Open the model and answer until nobody asks any more."""
    run_server(arguments, Worker)


class Server(Protocol):
    """What a process has opened: it says what that is, and works until its pipe is closed."""

    def describe(self) -> dict[str, Any]:
        """Give plain values."""
        ...

    def serve(self, connection: Connection) -> None:
        """Do what is asked."""
        ...


def run_server(arguments: dict[str, Any], open_server: Callable[[dict[str, Any]], Server]) -> None:
    """Open something in this process, say that it is ready or why not, and let it serve."""
    connection = confine(arguments)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            server = open_server(arguments)
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            connection.send(("failed", line_of(error)))
            return
        connection.send(("ready", server.describe()))
        server.serve(connection)
    os._exit(0)  # nobody asks any more: to shut down takes long with so many libraries loaded


def confine(arguments: dict[str, Any]) -> Connection:
    """Take the processors and the memory that the process is to have; return its pipe."""
    _end_with_parent()
    # What a library of operators prints must not come between the lines of a program's output.
    os.dup2(2, 1)
    if arguments["processors"] and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # the container may have got fewer meanwhile
            os.sched_setaffinity(0, arguments["processors"])
    if arguments["memory_limit_bytes"]:
        limit = arguments["memory_limit_bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return Connection(arguments["pipe"])


def open_model(path: str, arguments: dict[str, Any]) -> onnxruntime.InferenceSession:
    """Open a model with the threads that the process is to have."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if arguments["threads"] > 1:
        ask_for_short_slices()  # with this thread, those of the session
    spins = str(int(arguments["spins"]))
    options.add_session_config_entry("session.intra_op.allow_spinning", spins)
    spin_briefly(options)  # sessions of other processes may want the same processors
    return open_deployed(Path(path), options)


class Worker:
    """A session, and the memory that its tensors come and go by."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        start = time.perf_counter()
        self._session = open_model(arguments["model"], arguments)
        self._open_s = time.perf_counter() - start
        self._inputs = SharedMemory(arguments["inputs"])
        self._outputs = SharedMemory(arguments["outputs"])
        self._names = [entry.name for entry in self._session.get_outputs()]
        self._bound: dict[str, BoundRun] = {}
        # By key, which stands for feeds of the same shapes.
        self._outputs_by_key: dict[str, Outputs | None] = {}

    def describe(self) -> dict[str, Any]:
        """Say what the model takes and gives, how long it took to open, and what memory it has."""
        return {
            "inputs": [_slot(entry) for entry in self._session.get_inputs()],
            "outputs": [_slot(entry) for entry in self._session.get_outputs()],
            "open_s": self._open_s,
            "resident_bytes": resident_bytes(),
        }

    def serve(self, connection: Connection) -> None:
        """Answer messages."""
        while True:
            connection.send(self._answer(connection.recv()))

    def _answer(self, message: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do what is asked; an error is an answer, too."""
        asked, *details = message
        try:
            return ("done", getattr(self, f"_{asked}")(*details))
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            return ("failed", line_of(error))

    def _run(self, places: dict[str, Any]) -> dict[str, Any]:
        """Run the model on the tensors that lie there; say where the outputs lie."""
        outputs = self._session.run(None, self._inputs.read(places))
        arrays = {
            name: [value]
            for name, value in zip(self._names, outputs, strict=True)
            if isinstance(value, np.ndarray)
        }
        if len(arrays) < len(outputs):
            raise TensologError("the model gives sequences or maps: only tensors can be served")
        return self._outputs.write(arrays)

    def _load(self, key: str, places: dict[str, Any]) -> int:
        """Bind the tensors that lie there, to be run again and again; say what memory it takes."""
        feeds = {name: array.copy() for name, array in self._inputs.read(places).items()}
        run = BoundRun(self._session, feeds, own_time=False, outputs=self._outputs_by_key.get(key))
        self._bound = {key: run}
        self._outputs_by_key[key] = run.outputs
        return resident_bytes()

    def _time(self, key: str, seconds: float, least_runs: int) -> list[float]:
        """Run the tensors bound for so long, and so often; nanoseconds of each run."""
        run = self._bound[key]
        times: list[float] = []
        end = time.monotonic() + seconds
        while len(times) < least_runs or time.monotonic() < end:
            times.append(run.time())
        return times


def _slot(entry: Any) -> tuple[str, str, tuple[int | str | None, ...]]:
    return entry.name, entry.type, tuple(entry.shape or ())


def line_of(error: Exception) -> str:
    """Say in a line why something failed."""
    return str(error) if isinstance(error, TensologError) else reason_of(error)


def _end_with_parent() -> None:
    """Have the system end this process with the one that started it, even while it is stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: who asks decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # it waited, see instance.py
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
