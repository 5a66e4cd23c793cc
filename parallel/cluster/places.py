"""Which worker of a cluster runs the part of each device, and what is done where one is lost.

A plan names a worker for each device. The worker of that address is taken, or the one of that name:
it was started again. Where neither is there, another one that has the memory for it, on the same
host if there is one. Who stands in stays until its group is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..runnable_plan import Partition, PlannedWorker
from .dask_engine import EngineError, Worker

# So long a lost worker is waited for where no other one can take its place.
WAIT_S, LOOK_S = 30.0, 0.5


@dataclass(frozen=True)
class Place:
    """Where the part of a device runs, with how many threads, and memory of its own.

    `memory_limit_bytes` 0: as much as there is.
    """

    worker: Worker
    threads: int
    memory_limit_bytes: int


@dataclass
class Places:
    """Assigns workers to the devices of all groups that run a plan.

    `planned` are by group and device; `needed_bytes` is what the part of a device takes at least.
    """

    partition: Partition
    planned: Sequence[Sequence[PlannedWorker]]
    needed_bytes: Sequence[int]
    # Addresses and bytes, by group.
    _taken: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def assign(self, group: int, alive: Sequence[Worker]) -> list[Place]:
        """Return the place of each device of a group, in place of what it had.

        Raises EngineError, with what is missing, where no worker can hold a device's part.
        """
        with self._lock:
            self._taken.pop(group, None)
            free = {worker.address: worker.memory_bytes for worker in alive}
            for address, size in (entry for rows in self._taken.values() for entry in rows):
                if address in free:
                    free[address] -= size
            place_of: dict[int, Place] = {}
            planned = self.planned[group]
            for device, wanted in enumerate(planned):
                worker = worker_of(wanted, alive)
                if worker is not None:
                    limit = self.partition.memory_bytes[device]
                    place_of[device] = self._place(device, worker, limit, free)
            for device, wanted in enumerate(planned):
                if device in place_of:
                    continue
                others = [w for w in alive if free[w.address] >= self.needed_bytes[device]]
                if not others:
                    raise EngineError(self._missing(device, wanted, alive, free))
                worker = max(others, key=lambda w: (w.host == wanted.host, free[w.address]))
                place_of[device] = self._place(device, worker, free[worker.address], free)
            places = [place_of[device] for device in range(len(planned))]
            self._taken[group] = [
                (place.worker.address, self.needed_bytes[device])
                for device, place in enumerate(places)
            ]
            return places

    def _place(self, device: int, worker: Worker, limit: int, free: dict[str, int]) -> Place:
        free[worker.address] -= self.needed_bytes[device]
        return Place(worker, min(self.partition.threads[device], worker.cores), limit)

    def _missing(
        self,
        device: int,
        wanted: PlannedWorker,
        alive: Sequence[Worker],
        free: Mapping[str, int],
    ) -> str:
        needed = self.needed_bytes[device] / 1e6
        rest = ", ".join(f"{w.name} {max(0, free[w.address]) / 1e6:.0f} MB" for w in alive)
        return (
            f"the worker {wanted.name} ({wanted.address}) is not there, and no other has the "
            f"{needed:.0f} MB that its stages take (free: {rest or 'no worker at all'}): start it "
            "again, or deploy the model over the workers that there are"
        )


def worker_of(wanted: PlannedWorker, alive: Sequence[Worker]) -> Worker | None:
    """Return the worker of the address that a plan names, or of that name, if it is there."""
    by_address = (worker for worker in alive if worker.address == wanted.address)
    by_name = (worker for worker in alive if worker.name == wanted.name)
    return next(by_address, None) or next(by_name, None)
