"""Workers that run the parts of a model together: a process for each device of a partition.

Several requests are under way at a time, each in a slot: a place for its tensors in the memory that
all workers share. What a worker gives is written there once, and read there by who needs it. Where
one worker is lost, none of them can go on: the group is ended as a whole, and can be replaced.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...catalog.errors import ModelError
from ..runnable_plan import CALLER, Partition
from .instance import START_S, Array, Start
from .part_messages import FAILED, read_done, step_message
from .process import InstanceError, RunError, WorkerProcess
from .shared_memory import SharedMemory


class Group(ABC):
    """What runs the stages of a partition, wherever that is; `lane` gives what runs requests.

    In this process are the memory of each owner of tensors, the caller first, and for each slot a
    pipe that tells what is done. Who begins is told by writing to `_first`.
    """

    def __init__(self, partition: Partition, slots: int) -> None:
        """Make the caller's pipes; memory is up to who knows where the owners are."""
        self.partition = partition
        self.is_lost = False
        self.open_s = 0.0
        self.resident_bytes = 0
        self._lock = threading.Lock()
        self._sequence = itertools.count()
        self._open_lanes = 0
        self._memories: list[SharedMemory] = []
        self._callers = [os.pipe() for _ in range(slots)]
        self._first: list[int] = []

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """Number the processes of this machine."""

    @abstractmethod
    def ready(self) -> None:
        """Wait until all stages are open; ModelError where the runtime refuses one."""

    @abstractmethod
    def kill(self) -> None:
        """End all that runs at once; all that is under way is lost."""

    @abstractmethod
    def close(self) -> None:
        """End all that runs; no lane may be used any more."""

    @abstractmethod
    def channels(self, slot: int) -> tuple[int, list[int]]:
        """Return the descriptor of what is done in a slot, and those that tell of lost workers."""

    @abstractmethod
    def lost(self, descriptors: Collection[int]) -> str:
        """End the group of which some workers hung up; say how the first of these ended."""

    def lane(self, slot: int) -> Lane:
        """Return what runs requests in a slot, to be closed once; InstanceError if all is lost."""
        with self._lock:
            if self.is_lost:
                raise InstanceError("the workers were ended")
            self._open_lanes += 1
            return Lane(self, slot)

    def lanes(self) -> list[Lane]:
        """Return what runs requests, for all slots."""
        return [self.lane(slot) for slot in range(len(self._callers))]

    def leave(self) -> None:
        """Have a lane less; with the last one the processes end."""
        with self._lock:
            self._open_lanes -= 1
            if self._open_lanes:
                return
            self.is_lost = True
        self.close()

    def begin(self, slot: int) -> int:
        """Tell who begins that the request in a slot is there; return its sequence number."""
        sequence = next(self._sequence)
        try:
            for inbox in self._first:
                os.write(inbox, step_message(CALLER, slot, 0, sequence))
        except OSError as error:
            self.kill()
            raise InstanceError("an instance closed its pipe") from error
        return sequence

    def views(self, slot: int, tensors: Sequence[int]) -> list[Array]:
        """Return tensors of a slot where they lie."""
        views = []
        for number in tensors:
            memory = self._memories[self.partition.tensors[number].owner + 1]
            views.append(memory.read({"": self.partition.place(number, slot)})[""])
        return views

    def _let_go(self) -> None:
        """Close memory and pipes; what is closed already stays so."""
        for memory in self._memories:
            with contextlib.suppress(OSError):
                memory.close()
        for descriptor in itertools.chain(*self._callers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._callers, self._memories, self._first = [], [], []


class WorkerGroup(Group):
    """Processes of this machine for the devices of a partition."""

    def __init__(self, partition: Partition, starts: Sequence[Start], slots: int) -> None:
        """Start the processes, without waiting for them; `starts` are by device.

        A start's model is any file in the folder of the stages' models.
        """
        super().__init__(partition, slots)
        self._memories = [SharedMemory() for _ in partition.slot_bytes]
        for memory, size in zip(self._memories, partition.slot_bytes, strict=True):
            memory.reserve(size * slots)
        self._used = sorted({stage.device for stage in partition.stages})
        inboxes = {device: os.pipe() for device in self._used}
        self._inboxes = {device: write for device, (_, write) in inboxes.items()}
        first = [stage.device for stage in partition.stages if CALLER in stage.after]
        self._first = [self._inboxes[device] for device in dict.fromkeys(first)]
        self._processes: dict[int, WorkerProcess] = {}
        try:
            self._processes = start_workers(
                partition,
                {n: replace(starts[n], threads=partition.threads[n]) for n in self._used},
                {device: read for device, (read, _) in inboxes.items()},
                [self._inboxes.get(n, -1) for n in range(len(partition.devices))],
                [write for _, write in self._callers],
                self._memories,
            )
        except BaseException:
            self.close()
            raise
        finally:
            for read, _ in inboxes.values():
                os.close(read)

    @property
    def pids(self) -> list[int]:
        """Number the processes."""
        return [process.pid for process in self._processes.values()]

    def ready(self) -> None:
        """Wait until all stages are open; ModelError where the runtime refuses one."""
        for device, process in self._processes.items():
            try:
                details = process.receive(START_S)
            except RunError as error:
                raise ModelError(
                    f"ONNX Runtime can't open the part of device {device}: {error}"
                ) from error
            self.open_s = max(self.open_s, details["open_s"])
            self.resident_bytes += details["resident_bytes"]

    def kill(self) -> None:
        """End all processes at once; all that is under way is lost."""
        with self._lock:
            self.is_lost = True
            for process in self._processes.values():
                process.kill()

    def close(self) -> None:
        """End all processes, by force if they are busy; no lane may be used any more."""
        self.is_lost = True
        for process in self._processes.values():
            process.leave()
        for process in self._processes.values():
            process.close()
        for descriptor in self._inboxes.values():
            with contextlib.suppress(OSError):  # closed already
                os.close(descriptor)
        self._inboxes = {}
        self._let_go()

    def channels(self, slot: int) -> tuple[int, list[int]]:
        """Return the descriptor of what is done in a slot, and those that tell of lost workers."""
        return self._callers[slot][0], [process.fileno() for process in self._processes.values()]

    def lost(self, descriptors: Collection[int]) -> str:
        """End the group of which some workers hung up; say how the first of these ended."""
        text = next(p.ending() for p in self._processes.values() if p.fileno() in descriptors)
        self.kill()
        return text


class Lane:
    """A slot of a group: runs one request at a time, beside those of other lanes."""

    def __init__(self, group: Group, slot: int) -> None:
        self._group, self._slot = group, slot
        partition = group.partition
        names = [partition.tensors[number].name for number in partition.inputs]
        self._inputs = dict(zip(names, group.views(slot, partition.inputs), strict=True))
        self._outputs: dict[str, list[tuple[tuple[slice, ...], Array]]] = {}
        self._types = {output.name: (output.dtype, output.shape) for output in partition.outputs}
        for output in partition.outputs:
            arrays = group.views(slot, [piece.tensor for piece in output.pieces])
            self._outputs[output.name] = [
                (tuple(map(slice, piece.begin, np.add(piece.begin, array.shape).tolist())), array)
                for piece, array in zip(output.pieces, arrays, strict=True)
            ]
        self._reports = len(partition.reported)
        self._done, workers = group.channels(slot)
        self._poll = select.poll()
        for descriptor in (self._done, *workers):
            self._poll.register(descriptor, select.POLLIN)

    @property
    def pids(self) -> list[int]:
        """Number the processes of the group."""
        return self._group.pids

    @property
    def is_lost(self) -> bool:
        """Tell whether the group is no more."""
        return self._group.is_lost

    def run(self, feeds: Mapping[str, Sequence[Array]], limit_s: float) -> dict[str, Array]:
        """Run the model; outputs may be views, good until the next run.

        Several arrays of an input are joined along their first axis. Raises RunError,
        InstanceError.
        """
        for name, target in self._inputs.items():
            parts = feeds[name]
            if len(parts) == 1:
                target[...] = parts[0]
            else:
                np.concatenate(parts, out=target)
        if self._group.is_lost:
            raise InstanceError("the instance was ended")
        sequence = self._group.begin(self._slot)
        failure = self._wait(sequence, limit_s)
        if failure is not None:
            raise RunError(failure)
        return {name: self._whole(name, pieces) for name, pieces in self._outputs.items()}

    def _wait(self, sequence: int, limit_s: float) -> str | None:
        """Wait for all stages that give outputs; return why one failed."""
        failure: str | None = None
        missing = self._reports
        end = time.monotonic() + limit_s
        while missing:
            events = dict(self._poll.poll(max(0.0, end - time.monotonic()) * 1e3))
            if not events:
                self._group.kill()
                raise InstanceError(f"an instance had not answered after {limit_s:.3g} s")
            if self._done not in events:
                raise InstanceError(self._group.lost(events))
            _, _, state, answered, reason = read_done(self._done)
            assert answered == sequence
            missing -= 1
            if state == FAILED:
                failure = failure or reason
        return failure

    def _whole(self, name: str, pieces: Sequence[tuple[tuple[slice, ...], Array]]) -> Array:
        if len(pieces) == 1:
            return pieces[0][1]
        dtype, shape = self._types[name]
        whole: Array = np.empty(shape, dtype)
        for place, array in pieces:
            whole[place] = array
        return whole

    def kill(self) -> None:
        """End the group at once."""
        self._group.kill()

    def close(self) -> None:
        """Leave the group, which ends with its last lane."""
        self._group.leave()


def start_workers(
    partition: Partition,
    starts: Mapping[int, Start],
    reads: Mapping[int, int],
    inboxes: Sequence[int],
    callers: Sequence[int],
    memories: Sequence[SharedMemory],
) -> dict[int, WorkerProcess]:
    """Start the processes of some devices, without waiting for them; all by device.

    `reads` are descriptors by which each hears that a stage is done, `inboxes` those by which each
    device of the partition is told (-1: by none), and `callers`, by slot, who asks. `memories` are
    those of the caller, then by device.
    """
    descriptors = [memory.descriptor for memory in memories]
    shared = {
        "partition": partition.to_json(),
        "inboxes": list(inboxes),
        "callers": list(callers),
        "memories": descriptors,
    }
    passed = {*inboxes, *callers, *descriptors} - {-1}
    processes: dict[int, WorkerProcess] = {}
    try:
        for device, start in starts.items():
            arguments = {**start.arguments(), **shared, "device": device, "inbox": reads[device]}
            processes[device] = WorkerProcess("part_worker", arguments, [reads[device], *passed])
    except BaseException:
        for process in processes.values():
            process.close()
        raise
    return processes


def starts_of(partition: Partition, start: Start, places: Sequence[tuple[int, ...]]) -> list[Start]:
    """Return how the worker of each device is started; `places` are processors, by device.

    A limit of memory in `start` holds for each of them, instead of the partition's own.
    """
    return [
        replace(
            start,
            threads=threads,
            processors=tuple(place),
            memory_limit_bytes=start.memory_limit_bytes or limit_bytes,
        )
        for threads, limit_bytes, place in zip(
            partition.threads, partition.memory_bytes, places, strict=True
        )
    ]
