"""An instance of a model: a process with a session, and what is said to it.

`Instance` starts a worker (instance_worker.py), asks it, and ends it. A worker that has died raises
InstanceError, as does one that doesn't answer in time, which is ended: both can be replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog.errors import ModelError
from ..runnable_plan import Slot, dtype_of
from .process import RunError, WorkerProcess
from .shared_memory import SharedMemory

Array = np.ndarray[Any, Any]

# Opening a model of gigabytes takes minutes on a slow disk.
START_S = 300.0


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

    def arguments(self) -> dict[str, Any]:
        """Give plain values, as the process reads them."""
        return {**asdict(self), "model": os.fspath(self.model.absolute())}


class Instance:
    """A worker process; `ready` waits until it has opened the model."""

    def __init__(self, start: Start) -> None:
        """Start the process, without waiting for it."""
        self._model = start.model
        self._inputs, self._outputs = SharedMemory(), SharedMemory()
        memories = {"inputs": self._inputs.descriptor, "outputs": self._outputs.descriptor}
        self._process = WorkerProcess(
            "instance_worker", {**start.arguments(), **memories}, memories.values()
        )
        self.inputs: tuple[Slot, ...] = ()
        self.outputs: tuple[Slot, ...] = ()
        self.open_s = 0.0
        self.resident_bytes = 0

    @property
    def pids(self) -> list[int]:
        """Number the process."""
        return [self._process.pid]

    @property
    def is_lost(self) -> bool:
        """Tell whether it is known to be no more: who runs it is told so."""
        return False

    def ready(self) -> None:
        """Wait until the model is open; ModelError where the runtime refuses it."""
        try:
            details = self._process.receive(START_S)
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

    def load(self, key: str, feeds: Mapping[str, Array], limit_s: float) -> None:
        """Bind tensors to be timed, and run them; see `start_timing`.

        `key` stands for tensors of certain shapes: they are run twice the first time, then once.
        """
        places = self._inputs.write({name: [array] for name, array in feeds.items()})
        self.resident_bytes = self._call("load", limit_s, key, places)

    def start_timing(self, key: str, seconds: float, least_runs: int) -> None:
        """Have what was loaded run for so long, at least so many times; `timed` waits for it."""
        self._process.send("time", key, seconds, least_runs)

    def timed(self, limit_s: float) -> list[float]:
        """Wait for the nanoseconds of each run that `start_timing` began."""
        times: list[float] = self._process.receive(limit_s)
        return times

    def leave(self) -> None:
        """Tell the process that nobody asks any more; `close` waits until it has ended."""
        self._process.leave()

    def close(self) -> None:
        """End the process, by force if it is busy; nothing of it is left."""
        self._process.close()
        for memory in (self._inputs, self._outputs):
            with contextlib.suppress(OSError):  # closed already
                memory.close()

    def kill(self) -> None:
        """End the process at once, also one that is stopped."""
        self._process.kill()

    def _call(self, asked: str, limit_s: float, *details: Any) -> Any:
        self._process.send(asked, *details)
        return self._process.receive(limit_s)


def time_together(
    instances: Sequence[Instance], key: str, seconds: float, least_runs: int, limit_s: float
) -> list[list[float]]:
    """Have instances run what was loaded into each at the same time, for so many seconds.

    Returns the nanoseconds of each run of each instance. Raises RunError, InstanceError.
    """
    for instance in instances:
        instance.start_timing(key, seconds, least_runs)
    return [instance.timed(limit_s) for instance in instances]
