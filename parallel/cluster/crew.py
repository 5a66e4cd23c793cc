"""The workers of a described cluster, while a model is deployed over them: opens what races."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from ..calibration import calibrate_each, pieces_of
from ..devices import Cluster, ClusterError
from ..runnable_plan import Partition, PlannedWorker, RemoteWorkers
from ..serving.instance import Array
from ..simulation.tasks import Problem
from ..simulation.times import Calibration
from .cluster_group import ClusterGroup, StageFiles, UnreachableError
from .dask_engine import Engine, EngineError, Worker
from .piece_times import light_models, piece_times
from .places import LOOK_S, WAIT_S, Place, worker_of

_TIMING_S = 300.0


class ClusterCrew:
    """A context manager; each device of the description has its worker."""

    def __init__(self, cluster: Cluster) -> None:
        """Connect to the scheduler. Raises ClusterError where a device's worker is not there."""
        self._cluster = cluster
        self._engine = Engine(cluster.scheduler)
        try:
            self._workers = self._described()
        except BaseException:
            self._engine.close()
            raise

    def _described(self) -> dict[str, Worker]:
        alive, worker_by_device = self._engine.workers(), {}
        for device in self._cluster.devices:
            worker = worker_of(PlannedWorker(device.name, device.address), alive)
            if worker is None:
                raise ClusterError(
                    f"the worker {device.name} ({device.address}) of {self._cluster.name} is not "
                    "there: start it again, or measure the cluster that is, with "
                    f"tensolog devices measure --cluster {self._cluster.scheduler}"
                )
            worker_by_device[device.name] = worker
        return worker_by_device

    def groups(
        self, partitions: Sequence[Partition], folder: Path
    ) -> Sequence[Callable[[], ClusterGroup]]:
        """Return what starts the group of each partition, whose models lie in a folder."""
        return [partial(self._group, partition, folder) for partition in partitions]

    def _group(self, partition: Partition, folder: Path) -> ClusterGroup:
        """Start a group; a worker that was lost is waited for, and has another address then."""
        end = time.monotonic() + WAIT_S
        while True:
            try:
                self._workers = self._described()
                places = [
                    Place(self._workers[name], threads, memory)
                    for name, threads, memory in zip(
                        partition.devices, partition.threads, partition.memory_bytes, strict=True
                    )
                ]
                files = StageFiles(partition, folder)
                return ClusterGroup(self._engine, files, places, partition.slots)
            except (ClusterError, UnreachableError):
                if time.monotonic() >= end:
                    raise
                time.sleep(LOOK_S)

    def calibration(
        self, problem: Problem, model: Path, feeds: dict[str, Array], folder: Path
    ) -> Calibration | None:
        """Time the pieces of a model on all workers at once; None where it has none.

        Raises EngineError where a worker can't.
        """
        pieces = pieces_of(problem, feeds, folder)
        if pieces.parted is None:
            return None
        models = light_models(pieces)
        addresses = [self._workers[device.name].address for device in self._cluster.devices]
        asked = {
            address: [models, pieces.piece_feeds, device.cores]
            for address, device in zip(addresses, self._cluster.devices, strict=True)
        }
        answers = self._engine.run_each(piece_times, asked, _TIMING_S)
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                reason = str(answer) or type(answer).__name__
                raise EngineError(f"the worker at {address} can't time the model: {reason}")
        return calibrate_each(pieces, [answers[address] for address in addresses])

    def remote(
        self, partitions: Sequence[Partition], folder: Path, runtime_bytes: int
    ) -> RemoteWorkers:
        """Say which workers run the instances of a plan, and what each part takes at least.

        `runtime_bytes` is what a process takes that runs hardly anything.
        """
        first = partitions[0]
        files = StageFiles(first, folder)
        return RemoteWorkers(
            self._cluster.scheduler,
            tuple(
                tuple(
                    PlannedWorker(name, self._workers[name].address) for name in partition.devices
                )
                for partition in partitions
            ),
            tuple(
                files.size_bytes(n) + first.slot_bytes[n + 1] * first.slots + runtime_bytes
                for n in range(len(first.devices))
            ),
        )

    def __enter__(self) -> Self:
        """Give the crew."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Leave the cluster."""
        self._engine.close()
