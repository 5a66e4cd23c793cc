"""The process that runs one device's stages of a partition.

It is started by `worker_group.py`. Tensors lie where the partition says, in memory that all workers
share: the runtime writes a stage's results right there, and reads them from there. A message of a
few bytes tells who waits for a stage that it is done. Of the stages that could run, one of the
oldest request runs first.
"""

from __future__ import annotations

import heapq
import os
import select
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnxruntime

from ...profiles.sessions.session import ort_value, resident_bytes
from ..runnable_plan import Partition
from ..typed_values import read_as
from .instance_worker import line_of, open_model, run_server
from .part_messages import FAILED, done_message, read_steps, step_message
from .shared_memory import SharedMemory


def main(arguments: dict[str, Any]) -> None:
    """Open the models of a device's stages and run them until nobody asks any more."""
    run_server(arguments, PartWorker)


class PartWorker:
    """The sessions of a device's stages, bound to the tensors of each slot."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        start = time.perf_counter()
        self._inbox: int = arguments["inbox"]
        self._inboxes: list[int] = arguments["inboxes"]  # by device
        self._callers: list[int] = arguments["callers"]  # by slot
        self._partition = partition = read_as(Partition, arguments["partition"])
        device = arguments["device"]
        self._stages = [n for n, stage in enumerate(partition.stages) if stage.device == device]
        folder = Path(arguments["model"]).parent
        slots = range(len(self._callers))
        # By owner of the tensors, the caller first.
        self._memories = [SharedMemory(descriptor) for descriptor in arguments["memories"]]
        self._sessions: dict[int, onnxruntime.InferenceSession] = {}
        self._bindings: dict[tuple[int, int], Any] = {}
        for stage in self._stages:
            path = str(folder / partition.stages[stage].model)
            self._sessions[stage] = open_model(path, arguments)
            for slot in slots:
                self._bindings[stage, slot] = self._bound(stage, slot)
        # Who waits for which stage, here and elsewhere, and what is to be reported to the caller.
        self._next: dict[int, list[int]] = {}
        self._inboxes_after: dict[int, list[int]] = {stage: [] for stage in self._stages}
        for number, other_stage in enumerate(partition.stages):
            inbox = self._inboxes[other_stage.device]
            for before in other_stage.after:
                if other_stage.device == device:
                    self._next.setdefault(before, []).append(number)
                elif before in self._inboxes_after and inbox not in self._inboxes_after[before]:
                    self._inboxes_after[before].append(inbox)
        self._reported = {number for number in self._stages if number in partition.reported}
        self._waits: dict[tuple[int, int], int] = {}
        self._failed: set[tuple[int, int]] = set()
        self._ready: list[tuple[int, int, int]] = []  # sequence, stage, slot
        self._open_s = time.perf_counter() - start

    def describe(self) -> dict[str, Any]:
        """Say how long it took to open the models, and what memory they have."""
        return {"open_s": self._open_s, "resident_bytes": resident_bytes()}

    def _bound(self, stage: int, slot: int) -> Any:
        binding = self._sessions[stage].io_binding()
        read = self._partition.stages[stage].reads
        for number in read:
            tensor = self._partition.tensors[number]
            binding.bind_ortvalue_input(tensor.name, self._value(number, slot))
        for number in self._partition.stages[stage].gives:
            tensor = self._partition.tensors[number]
            binding.bind_ortvalue_output(tensor.name, self._value(number, slot))
        return binding

    def _value(self, number: int, slot: int) -> Any:
        """Return a tensor of a slot as the runtime takes it: where it lies."""
        place = self._partition.place(number, slot)
        memory = self._memories[self._partition.tensors[number].owner + 1]
        return ort_value(memory.read({"": place})[""])

    def serve(self, connection: Connection) -> None:
        """Run stages as what they wait for is done, until the pipe is closed."""
        poll = select.poll()
        poll.register(self._inbox, select.POLLIN)
        poll.register(connection.fileno(), select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(0 if self._ready else None):
                if descriptor != self._inbox:
                    return
                for step in read_steps(self._inbox):
                    self._after(*step)
            if self._ready:
                self._run(*heapq.heappop(self._ready))

    def _after(self, done: int, slot: int, state: int, sequence: int) -> None:
        """Note that a stage is done, or failed; CALLER: that a request is there."""
        for number in self._next.get(done, ()):
            key = (number, slot)
            if state == FAILED:
                self._failed.add(key)
            after = self._partition.stages[number].after
            waits = self._waits[key] = self._waits.get(key, len(after)) - 1
            if not waits:
                del self._waits[key]
                heapq.heappush(self._ready, (sequence, number, slot))

    def _run(self, sequence: int, stage: int, slot: int) -> None:
        """Run a stage of a slot and tell who waits for it; what failed before is passed on."""
        state, reason = 0, ""
        if (stage, slot) in self._failed:
            self._failed.discard((stage, slot))
            state = FAILED
        else:
            try:
                self._sessions[stage].run_with_iobinding(self._bindings[stage, slot])
            except Exception as error:  # whatever the runtime raises is its reason to refuse
                state, reason = FAILED, line_of(error)
        step = step_message(stage, slot, state, sequence)
        for inbox in self._inboxes_after[stage]:
            os.write(inbox, step)
        if stage in self._reported:
            os.write(self._callers[slot], done_message(stage, slot, state, sequence, reason))
        self._after(stage, slot, state, sequence)
