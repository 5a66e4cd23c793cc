"""An instance of a model: a process with a session, and what is said to it.

`Instance` starts a worker (worker.py), asks it, and ends it. A worker that has died raises
InstanceError, as does one that doesn't answer in time, which is ended: both can be replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog.errors import ModelError, TensologError
from .shared_memory import SharedMemory

Array = np.ndarray[Any, Any]

_CODE = (
    "import json, sys; arguments = json.loads(sys.argv[1]); sys.path[:] = arguments.pop('path')\n"
    "from {package}.worker import main; main(arguments)"
)
# Opening a model of gigabytes takes minutes on a slow disk.
START_S = 300.0
_END_S = 2.0
# numpy's own library of linear algebra would start a thread for each processor of the machine.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class InstanceError(TensologError):
    """An instance is gone: its process died, or did not answer in time and was ended."""


class RunError(TensologError):
    """The runtime refused to run the model on what it was given; the instance is well."""


@dataclass(frozen=True)
class Slot:
    """An input or output of a model: name, dtype as numpy names it, and sizes, free ones by name.

    `dtype` is "" for what is no tensor of a type that numpy has.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for a type that no tensor has here."""
        if self.dtype and self.dtype not in _DTYPES.values():
            raise ValueError(f"{self.name!r} has the type {self.dtype!r}")


@dataclass(frozen=True)
class Start:
    """How an instance is started.

    `processors` are those it is pinned to, where the system can do that; empty: any. `spins` says
    whether its threads wait for each other busily. `memory_limit_bytes` is what it may have of
    its own, not mapped from files; 0: all that there is.
    """

    model: Path
    threads: int
    processors: tuple[int, ...] = ()
    spins: bool = True
    memory_limit_bytes: int = 0


class Instance:
    """A worker process; `ready` waits until it has opened the model."""

    def __init__(self, start: Start) -> None:
        """Start the process, without waiting for it."""
        if os.name == "nt":
            raise TensologError(
                "instances are processes that inherit descriptors, which Windows does not know: "
                "use tensolog.open_session here"
            )
        self._model = start.model
        self._inputs, self._outputs = SharedMemory(), SharedMemory()
        here, there = socket.socketpair()
        passed = (there.fileno(), self._inputs.descriptor, self._outputs.descriptor)
        arguments = {
            "path": [entry or os.getcwd() for entry in sys.path],  # noqa: PTH109
            "model": os.fspath(start.model.absolute()),
            "threads": start.threads,
            "processors": list(start.processors),
            "spins": start.spins,
            "memory_limit_bytes": start.memory_limit_bytes,
            **dict(zip(("pipe", "inputs", "outputs"), passed, strict=True)),
        }
        code = _CODE.format(package=__package__)
        try:
            with there, _interrupts_wait():
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code, json.dumps(arguments)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    env={**os.environ, **_ONE_THREAD},
                )
        except OSError as error:
            here.close()
            raise InstanceError(f"no process could be started: {error.strerror}") from error
        self._connection = Connection(here.detach())
        self.inputs: tuple[Slot, ...] = ()
        self.outputs: tuple[Slot, ...] = ()
        self.open_s = 0.0
        self.resident_bytes = 0

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def ready(self) -> None:
        """Wait until the model is open; ModelError where the runtime refuses it."""
        try:
            details = self._receive(START_S)
        except RunError as error:
            self.close()
            raise ModelError(f"ONNX Runtime can't open {self._model}: {error}") from error
        self.inputs, self.outputs = (
            tuple(Slot(name, dtype_of(type_), shape) for name, type_, shape in details[side])
            for side in ("inputs", "outputs")
        )
        self.open_s, self.resident_bytes = details["open_s"], details["resident_bytes"]

    def run(self, feeds: Mapping[str, Sequence[Array]], limit_s: float) -> dict[str, Array]:
        """Run the model; outputs are views, good until the next run.

        Several arrays of an input are joined along their first axis. Raises RunError,
        InstanceError.
        """
        return self._outputs.read(self._call("run", limit_s, self._inputs.write(feeds)))

    def echo(self, feeds: Mapping[str, Array], limit_s: float) -> dict[str, Array]:
        """Send tensors there and back."""
        places = self._inputs.write({name: [array] for name, array in feeds.items()})
        return self._outputs.read(self._call("echo", limit_s, places))

    def load(self, key: str, feeds: Mapping[str, Array], limit_s: float) -> None:
        """Bind tensors to be timed, and run them twice; see `start_timing`."""
        places = self._inputs.write({name: [array] for name, array in feeds.items()})
        self.resident_bytes = self._call("load", limit_s, key, places)

    def start_timing(self, key: str, seconds: float, least_runs: int) -> None:
        """Have what was loaded run for so long, at least so many times; `timed` waits for it."""
        self._send("time", key, seconds, least_runs)

    def timed(self, limit_s: float) -> list[float]:
        """Wait for the nanoseconds of each run that `start_timing` began."""
        times: list[float] = self._receive(limit_s)
        return times

    def leave(self) -> None:
        """Tell the process that nobody asks any more; `close` waits until it has ended."""
        self._connection.close()

    def close(self) -> None:
        """End the process, by force if it is busy; nothing of it is left."""
        self.leave()
        try:
            self._process.wait(_END_S if self._process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            self.kill()
        for memory in (self._inputs, self._outputs):
            with contextlib.suppress(OSError):  # closed already
                memory.close()

    def kill(self) -> None:
        """End the process at once, also one that is stopped."""
        self._process.kill()
        self._process.wait()

    def _call(self, asked: str, limit_s: float, *details: Any) -> Any:
        self._send(asked, *details)
        return self._receive(limit_s)

    def _send(self, *message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise InstanceError(self._ending()) from error

    def _receive(self, limit_s: float) -> Any:
        try:
            if not self._connection.poll(limit_s):
                self.kill()
                raise InstanceError(f"an instance had not answered after {limit_s:.3g} s")
            kind, content = self._connection.recv()
        except (EOFError, OSError) as error:
            raise InstanceError(self._ending()) from error
        if kind == "failed":
            raise RunError(content)
        return content

    def _ending(self) -> str:
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


_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    "string": "object",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def dtype_of(type_: str) -> str:
    """Translate the runtime's name of a tensor type to numpy's; "" where numpy has none."""
    inside = type_.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(inside, "") if type_.startswith("tensor(") else ""
