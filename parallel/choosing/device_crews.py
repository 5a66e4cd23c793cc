"""Who runs the parts of a model while plans race: processes of this machine that stand for devices.

Workers of a cluster do as well (cluster/crew.py).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import onnx
from onnx import TensorProto, helper

from ...profiles.machine import cores as usable_cores
from ..calibration import calibrate
from ..devices import Cluster, ClusterError
from ..runnable_plan import Partition, RemoteWorkers
from ..serving.instance import Array, Instance, Start
from ..serving.pinning import here_each
from ..serving.worker_group import Group, WorkerGroup, starts_of
from ..simulation.tasks import Problem
from ..simulation.times import Calibration


class Crew(Protocol):
    """Starts groups that run the instances of a plan."""

    def groups(
        self, partitions: Sequence[Partition], folder: Path
    ) -> Sequence[Callable[[], Group]]:
        """Return what starts the group of each partition, whose models lie in a folder."""
        ...

    def calibration(
        self, problem: Problem, model: Path, feeds: dict[str, Array], folder: Path
    ) -> Calibration | None:
        """Time the model in a file, or its pieces, on the devices; None where that can't be.

        `problem` has the times of its kernels, and `folder` all that lies beside the model.
        """
        ...

    def remote(
        self, partitions: Sequence[Partition], folder: Path, runtime_bytes: int
    ) -> RemoteWorkers | None:
        """Say which workers of a cluster run the partitions; None for processes of this machine.

        `runtime_bytes` is what a process takes that runs hardly anything.
        """
        ...


class ProcessCrew:
    """A process of this machine for each device of each partition, pinned to its own cores."""

    def groups(
        self, partitions: Sequence[Partition], folder: Path
    ) -> Sequence[Callable[[], Group]]:
        """Return what starts the group of each partition; these are of devices that are alike."""
        first, width = partitions[0], len(partitions[0].devices)
        places = here_each(list(first.threads) * len(partitions))
        start = Start(folder / "model.onnx", 1)
        return [
            partial(WorkerGroup, first, starts_of(first, start, places[n : n + width]), first.slots)
            for n in range(0, len(places), width)
        ]

    def calibration(
        self, problem: Problem, model: Path, feeds: dict[str, Array], folder: Path
    ) -> Calibration | None:
        """Time the model alone and on all devices at a time, and its pieces."""
        return calibrate(problem, model, feeds, folder)

    def remote(
        self, partitions: Sequence[Partition], folder: Path, runtime_bytes: int
    ) -> RemoteWorkers | None:
        """Return None: nobody else takes part."""
        return None


def check_devices(cluster: Cluster) -> None:
    """Raise ClusterError unless this machine can stand for the devices."""
    asked, allowed = sum(device.cores for device in cluster.devices), usable_cores()
    other = next((device.name for device in cluster.devices if device.kind != "cpu"), None)
    if other is not None:
        raise ClusterError(
            f"{other} is no processor of this machine: tensolog.parallel.plan plans for devices of "
            "other kinds, and models are deployed on this one"
        )
    if asked > allowed:
        raise ClusterError(
            f"{cluster.name} has {asked} cores in all, and this process may use {allowed}: "
            "deploy on devices that are here, as tensolog devices measure describes them"
        )


@cache
def runtime_bytes() -> int:
    """Return the bytes of its own that a process has which runs hardly anything; 0 if unknown."""
    node = helper.make_node("Identity", ["x"], ["y"])
    slots = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1,)) for name in "xy"]
    graph = helper.make_graph([node], "least", slots[:1], slots[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with tempfile.TemporaryDirectory(prefix="tensolog-least-") as folder:
        file = Path(folder) / "least.onnx"
        onnx.save(model, file)
        instance = Instance(Start(file, 1))
        try:
            instance.ready()
            status = Path(f"/proc/{instance.pids[0]}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        finally:
            instance.close()
    match = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) << 10 if match else 0
