"""This machine as devices and links: what each of several processes computes while all are busy.

Devices are processes on cores of their own, as instances of a model are. Links are what a tensor
takes from one to the other: it is written into shared memory, read, and written on.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..profiles.control_groups import memory_limit_bytes
from ..profiles.kernel import Kernel, TensorSpec
from ..profiles.kernels.kernel_model import build_model
from ..profiles.machine import cores as usable_cores
from ..profiles.machine import identity, memory_bytes, processors
from .devices import Cluster, ClusterError, Device, Link
from .serving.instance import Array, Instance, Start
from .serving.pinning import here, topology

_MATRIX = 384  # as in profiles/machine.py, whose peak is that of one core with the others idle
# Larger than what caches hold, so that memory itself is measured.
_STREAMED_BYTES = 64 << 20
_COPIES = 16
_SECONDS, _RUNS = 0.2, 5
_LARGE_BYTES, _SMALL_BYTES = 16 << 20, 64
_ECHOES = 15
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
        model, _ = kernels["one operator"]
        latency_s, bytes_per_s = _link(model, places)
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


def _link(model: Path, places: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
    """Return the latency in s of a message and the bytes/s of a large one, there and back."""
    instance = Instance(Start(model, 1, places[-1]))
    try:
        instance.ready()
        small_s, large_s = (
            _echo(instance, np.zeros(size, np.uint8)) for size in (_SMALL_BYTES, _LARGE_BYTES)
        )
    finally:
        instance.close()
    return small_s, _LARGE_BYTES / max(1e-9, large_s - small_s)


def _echo(instance: Instance, array: Array) -> float:
    times = []
    for _ in range(_ECHOES):
        start = time.perf_counter()
        instance.echo({"x": array}, _LIMIT_S)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
