"""This machine as devices and links: what each of several processes computes while all are busy.

Devices are processes on cores of their own, as instances of a model are. Links are what it adds
that a part of a model runs in the other process: a message, and reading what that one wrote.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..catalog import Catalog
from ..profiles.control_groups import memory_limit_bytes
from ..profiles.kernel import Kernel, TensorSpec
from ..profiles.kernels.kernel_model import build_model
from ..profiles.machine import cores as usable_cores
from ..profiles.machine import identity, memory_bytes, processors
from .device_rows import load_measured, store_cluster
from .devices import Cluster, ClusterError, Device, Link
from .partitioner import part
from .serving.instance import Array, Instance, Start
from .serving.pinning import here, topology
from .serving.worker_group import WorkerGroup, starts_of
from .simulation.placement import whole_on
from .simulation.tasks import Problem
from .simulation.times import Times
from .workload import read_workload

_MATRIX = 384  # as in profiles/machine.py, whose peak is that of one core with the others idle
# Larger than what caches hold, so that memory itself is measured.
_STREAMED_BYTES = 64 << 20
_COPIES = 16
_SECONDS, _RUNS = 0.2, 5
_LARGE_BYTES, _SMALL_BYTES = 16 << 20, 64
_HOPS, _ROUNDS = 7, 15
_LIMIT_S = 60.0

Tell = Callable[[str, int, int, str], None]


def measure_machine(
    processes: int | None = None, threads: int | None = None, *, tell: Tell | None = None
) -> Cluster:
    """Measure `processes` processes of `threads` threads each; by default one for each core.

    Rates are those of a process while all others are busy as well, so that they add up. Raises
    ClusterError where that asks for more cores than this process may use. Takes some seconds.
    """
    allowed = usable_cores()
    threads = threads or (max(1, allowed // processes) if processes else 1)
    processes = processes or allowed // threads
    if processes < 1 or threads < 1 or processes * threads > allowed:
        raise ClusterError(
            f"{max(1, processes)} processes of {threads} threads are more than the {allowed} cores "
            "that may be used: ask for fewer"
        )
    places = here(processes, threads)
    nodes = {processor.number: processor.node for processor in topology(processors())}
    with tempfile.TemporaryDirectory(prefix="tensolog-measure-") as name:
        folder = Path(name)
        kernels = _kernels(folder)
        medians = {}
        for number, (what, (model, feeds)) in enumerate(kernels.items()):
            if tell is not None:
                tell("measuring", number, len(kernels) + 1, what)
            medians[what] = _busy(model, feeds, threads, places)
        if tell is not None:
            tell("measuring", len(kernels), len(kernels) + 1, "links")
        latency_s, bytes_per_s = _link(folder, places) if processes > 1 else (0.0, 1.0)
    memory = min(memory_limit_bytes() or memory_bytes(), memory_bytes())
    several = (medians["more operators"] - medians["one operator"]) / (_COPIES - 1)
    facts = identity()
    devices = tuple(
        Device(
            name=f"process{number}",
            cores=threads,
            memory_bytes=memory // processes,
            flops_per_s=2.0 * _MATRIX**3 / medians["a matrix product"],
            memory_bytes_per_s=2.0 * _STREAMED_BYTES / medians["memory"],
            processor=facts.instruction_set,
            node=f"node{nodes.get(place[0], 0)}" if place else "",
            launch_s=max(0.0, several),
            fingerprint=facts.fingerprint,
        )
        for number, place in enumerate(places)
    )
    links = tuple(
        Link(source.name, target.name, latency_s, bytes_per_s)
        for source, target in itertools.permutations(devices, 2)
    )
    return Cluster("this machine", devices, links)


def this_machine(catalog: Catalog | None) -> Cluster:
    """Return this machine as a process for each core: as the catalog knows it, else measured."""
    known = None
    if catalog is not None:
        known = load_measured(catalog, identity().fingerprint, usable_cores())
    if known is None:
        known = measure_machine()
        if catalog is not None:
            store_cluster(catalog, known)
    return known


def _kernels(folder: Path) -> dict[str, tuple[Path, dict[str, Array]]]:
    """Write models of one kernel each: arithmetic, memory, and what an operator takes by itself."""
    square = (_MATRIX, _MATRIX)
    factors = (TensorSpec("float32", square), TensorSpec("float32", square, constant=True))
    stream = TensorSpec("float32", (_STREAMED_BYTES // 4,))
    tiny = Kernel("", "Abs", 13, (), (TensorSpec("float32", (1,)),))
    built = {
        "a matrix product": build_model(Kernel("", "MatMul", 13, (), factors)),
        "memory": build_model(Kernel("", "Abs", 13, (), (stream,))),
        "one operator": build_model(tiny),
        "more operators": build_model(tiny, _COPIES),
    }
    written = {}
    for number, (what, (model, feeds)) in enumerate(built.items()):
        path = folder / f"{number}.onnx"
        path.write_bytes(model)
        written[what] = (path, feeds)
    return written


def _busy(
    model: Path, feeds: dict[str, Array], threads: int, places: tuple[tuple[int, ...], ...]
) -> float:
    """Return the median seconds of a run while all processes run the model."""
    instances: list[Instance] = []
    try:
        for place in places:
            instances.append(Instance(Start(model, threads, place)))
        for instance in instances:
            instance.ready()
        for instance in instances:
            instance.load("", feeds, _LIMIT_S)
        for instance in instances:
            instance.start_timing("", _SECONDS, _RUNS)
        times = [instance.timed(_LIMIT_S) for instance in instances]
    finally:
        for instance in instances:
            instance.close()
    return statistics.median(float(np.median(entry)) for entry in times) * 1e-9


def _link(folder: Path, places: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
    """Return what it adds in s that a stage runs elsewhere, and the bytes/s of what it reads there.

    That is the time of a row of operators that two processes compute in turns, without that of
    one process that computes all of them.
    """
    small_s, large_s = (_hop(folder, size, places) for size in (_SMALL_BYTES, _LARGE_BYTES))
    return max(0.0, small_s), _LARGE_BYTES / max(1e-9, large_s - small_s)


def _hop(folder: Path, size: int, places: tuple[tuple[int, ...], ...]) -> float:
    """Return the seconds that each change of the process adds."""
    devices = tuple(
        Device(f"p{n}", memory_bytes=1, flops_per_s=1e9, memory_bytes_per_s=1e9) for n in range(2)
    )
    links = tuple(Link(a.name, b.name, 0.0, 1e9) for a, b in itertools.permutations(devices, 2))
    cluster = Cluster("two", devices, links)
    problem = Problem(read_workload(_row(size)), cluster, Times(cluster))
    groups: list[WorkerGroup] = []
    try:
        for number, other in enumerate((0, 1)):
            plan = tuple(whole_on(other * (place % 2)) for place in range(_HOPS + 1))
            parted = part(problem, plan)
            own = replace(parted.partition, memory_bytes=(0,) * len(parted.partition.devices))
            target = folder / f"row{size}-{number}"
            target.mkdir()
            parted.write(target)
            start = Start(target / "model.onnx", 1)
            pinned = (places[0][:1], places[-1][:1])[: len(own.devices)]
            groups.append(WorkerGroup(own, starts_of(own, start, pinned), 1))
        for group in groups:
            group.ready()
        lanes = [group.lane(0) for group in groups]
        array = np.zeros(max(1, size // 4), np.float32)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(_ROUNDS):
            for lane, found in zip(lanes, times, strict=True):
                start_s = time.perf_counter()
                lane.run({"x": [array]}, _LIMIT_S)
                found.append(time.perf_counter() - start_s)
        alone_s, apart_s = map(statistics.median, times)
        return (apart_s - alone_s) / _HOPS
    finally:
        for group in groups:
            group.close()


def _row(size: int) -> onnx.ModelProto:
    """Make a row of operators on a tensor of so many bytes."""
    names = ["x", *(f"v{n}" for n in range(_HOPS)), "y"]
    nodes = [helper.make_node("Neg", [a], [b], name=b) for a, b in itertools.pairwise(names)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (max(1, size // 4),)) for n in "xy"]
    graph = helper.make_graph(nodes, "row", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
