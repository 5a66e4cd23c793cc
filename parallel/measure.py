"""This machine as devices and links: what each of several processes computes while all are busy.

Devices are processes on cores of their own, as instances of a model are. Links are what it adds
that a part of a model runs in the other process: a message, and reading what that one wrote. What a
stage takes beside its operators is measured on stages that compute something: code and weights that
a process comes back to are not in its cache any more.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ..catalog import Catalog
from ..profiles.control_groups import memory_limit_bytes
from ..profiles.kernel import Kernel, TensorSpec
from ..profiles.kernels.kernel_model import build_model
from ..profiles.machine import cores as usable_cores
from ..profiles.machine import identity, memory_bytes, processors
from ..profiles.sessions.session import BoundRun
from .choosing.serving_race import timed
from .device_rows import load_measured, store_cluster
from .devices import Cluster, ClusterError, Device, links_of_each_pair
from .partitioner import part
from .runnable_plan import Partition
from .serving.instance import Array, Instance, Start, time_together
from .serving.pinning import here, topology
from .serving.worker_group import Group, WorkerGroup, starts_of
from .simulation.placement import whole_on
from .simulation.tasks import Problem
from .simulation.times import Times
from .workload import read_workload

_MATRIX = 384  # as in profiles/machine.py, whose peak is that of one core with the others idle
# Larger than what caches hold, so that memory itself is measured.
_STREAMED_BYTES = 64 << 20
_COPIES = 16
_SECONDS, _RUNS = 0.2, 5
_LARGE_BYTES, _MEDIUM_BYTES, _SMALL_BYTES = 16 << 20, 1 << 20, 64
# Where a hop with so many bytes takes longer, larger ones are not sent.
_SLOW_S = 2e-3
_MOST_BYTES_PER_S = 1e12
# An even number of hops: the row ends where it begins, as it does without them.
_HOPS, _ROUNDS, _LEAST_ROUNDS, _LINK_S = 8, 15, 5, 3.0
# Products of so many rows in a row, each a stage of 20 to 50 us with weights of its own: together
# more than what a core's own cache holds, as those of a model are.
_STAGES, _ROWS, _WIDTH = 32, 64, 256
# Rows of so many products, of 1 to 64 MiB of weights, which so few rows are multiplied by.
_LENGTHS, _FEW_ROWS = (4, 16, 32, 64, 128, 256), 8
_LIMIT_S = 60.0
# No message is free: what the subtraction leaves is cut here.
LEAST_LATENCY_S = 1e-6

Tell = Callable[[str, int, int, str], None]
Places = tuple[tuple[int, ...], ...]
"""The processors of each process."""
StartGroup = Callable[[Partition, Path], Group]


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
    rates = measure_rates(threads, places, tell=tell)
    if tell is not None:
        tell("measuring", 1, 1, "links")
    hop_s, bytes_per_s = measure_link(_processes(places)) if processes > 1 else (0.0, 1.0)
    stage_s, contention_s = _stage(threads, places) if processes > 1 else (0.0, 0.0)
    memory = min(memory_limit_bytes() or memory_bytes(), memory_bytes())
    facts = identity()
    devices = tuple(
        Device(
            name=f"process{number}",
            cores=threads,
            memory_bytes=memory // processes,
            flops_per_s=rates["flops_per_s"],
            memory_bytes_per_s=rates["memory_bytes_per_s"],
            processor=facts.instruction_set,
            node=f"node{nodes.get(place[0], 0)}" if place else "",
            launch_s=rates["launch_s"],
            fingerprint=facts.fingerprint,
            stage_s=stage_s,
            contention_s_per_byte=contention_s,
        )
        for number, place in enumerate(places)
    )
    links = links_of_each_pair(devices, max(LEAST_LATENCY_S, hop_s - stage_s), bytes_per_s)
    return Cluster("this machine", devices, links)


def this_machine(catalog: Catalog | None) -> Cluster:
    """Return this machine as a process for each core: as the catalog knows it, else measured."""
    cluster = None
    if catalog is not None:
        cluster = load_measured(catalog, identity().fingerprint, usable_cores())
    if cluster is None:
        cluster = measure_machine()
        if catalog is not None:
            store_cluster(catalog, cluster)
    return cluster


def measure_rates(threads: int, places: Places, *, tell: Tell | None = None) -> dict[str, float]:
    """Return what a process computes while processes on all places do; keys are those of Device."""
    with tempfile.TemporaryDirectory(prefix="tensolog-measure-") as name:
        kernels = _kernels(Path(name))
        medians = {}
        for number, (kernel_name, (model, feeds)) in enumerate(kernels.items()):
            if tell is not None:
                tell("measuring", number, len(kernels) + 1, kernel_name)
            medians[kernel_name] = _busy(model, feeds, threads, places)
    several = (medians["more operators"] - medians["one operator"]) / (_COPIES - 1)
    return {
        "flops_per_s": 2.0 * _MATRIX**3 / medians["a matrix product"],
        "memory_bytes_per_s": 2.0 * _STREAMED_BYTES / medians["memory"],
        "launch_s": max(0.0, several),
    }


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
    for number, (kernel_name, (model, feeds)) in enumerate(built.items()):
        path = folder / f"{number}.onnx"
        path.write_bytes(model)
        written[kernel_name] = (path, feeds)
    return written


def _busy(model: Path, feeds: dict[str, Array], threads: int, places: Places) -> float:
    """Return the median seconds of a run while all processes run the model."""
    instances: list[Instance] = []
    try:
        for place in places:
            instances.append(Instance(Start(model, threads, place)))
        for instance in instances:
            instance.ready()
        for instance in instances:
            instance.load("", feeds, _LIMIT_S)
        times = time_together(instances, "", _SECONDS, _RUNS, _LIMIT_S)
    finally:
        for instance in instances:
            instance.close()
    return statistics.median(float(np.median(entry)) for entry in times) * 1e-9


def measure_link(start: StartGroup) -> tuple[float, float]:
    """Return what it adds in s that a stage runs elsewhere, and the bytes/s of what it reads there.

    `start(partition, folder)` starts a group of two devices, or of the first of them. Over slow
    links smaller tensors are sent, and fewer.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-link-") as name:
        folder = Path(name)
        small_s = measure_hop(start, folder, _SMALL_BYTES)
        size = _MEDIUM_BYTES
        larger_s = measure_hop(start, folder, size)
        if larger_s - small_s < _SLOW_S:
            size = _LARGE_BYTES
            larger_s = measure_hop(start, folder, size)
    # What lies in shared memory is not sent: it may take no time that can be measured.
    return max(0.0, small_s), size / max(size / _MOST_BYTES_PER_S, larger_s - small_s)


def measure_hop(start: StartGroup, folder: Path, size: int) -> float:
    """Return the seconds that each change of the device adds, for a tensor of `size` bytes.

    That is the time of a row of operators that two devices compute in turns, without that of one
    device that computes all of them.
    """
    feeds = {"x": np.zeros(max(1, size // 4), np.float32)}
    with _alone_and_apart(folder / f"row{size}", _row(size), _HOPS + 1, start) as groups:
        alone_s, apart_s = _latencies(groups, feeds)
    return (apart_s - alone_s) / _HOPS


def _processes(places: Places) -> StartGroup:
    """Return what starts a group of processes on the first and the last of the places."""

    def start(partition: Partition, folder: Path) -> WorkerGroup:
        pinned = (places[0], places[-1])[: len(partition.devices)]
        starts = starts_of(partition, Start(folder / "model.onnx", 1), pinned)
        return WorkerGroup(partition, starts, partition.slots)

    return start


def _stage(threads: int, places: Places) -> tuple[float, float]:
    """Return what running a stage takes a device in s, and by how much a byte of weights longer.

    The first from a row of products that two processes compute in turns, for several requests at a
    time, so that both are always busy, against the same in one stage. The second is what one stage
    takes longer while all processes compute it.
    """
    with _products_on_disk() as (file, model, feeds):
        busy_s, alone_s = (_busy(file, feeds, threads, some) for some in (places, places[:1]))
        period_s = _period(model, feeds, file.parent / "row", places)
    contention_s = max(0.0, busy_s - alone_s)
    # Half of the stages are on each of the two devices, which are both busy.
    stage_s = (2 * period_s - alone_s - contention_s / 2) / _STAGES
    return max(0.0, stage_s), contention_s / (4 * _STAGES * _WIDTH**2)


def measure_weights(threads: int) -> tuple[tuple[float, float], ...]:
    """Return pairs of bytes of weights, and what one of so many takes longer than one of few, in s.

    By rows of products of few rows, each longer than the one before: from some length on their
    weights are in no cache any more when a run comes back to them. Ascending in both.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    runs = []
    for count in _LENGTHS:
        model, feeds = _products(count, _FEW_ROWS)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        runs.append(BoundRun(session, feeds))
    rounds = [
        [
            run.time(max(2, _LENGTHS[-1] // count)) / count
            for count, run in zip(_LENGTHS, runs, strict=True)
        ]
        for _ in range(_ROUNDS)
    ]
    seconds = np.median(rounds, axis=0) * 1e-9
    weights = 4 * _WIDTH**2
    longer = np.maximum.accumulate((seconds - seconds[0]) / weights).tolist()
    return tuple(
        (float(count * weights), longer_s) for count, longer_s in zip(_LENGTHS, longer, strict=True)
    )


def measure_stage(place: tuple[int, ...]) -> float:
    """Return what running a stage takes in s, by two processes that share a processor.

    For who may have no second one: all that they do is then done one after the other.
    """
    with _products_on_disk() as (file, model, feeds):
        alone_s = _busy(file, feeds, 1, (place,))
        period_s = _period(model, feeds, file.parent / "row", (place, place))
    return max(0.0, (period_s - alone_s) / _STAGES)


@contextlib.contextmanager
def _products_on_disk() -> Iterator[tuple[Path, onnx.ModelProto, dict[str, Array]]]:
    """Write a row of products; give its file, the model and what it is given."""
    model, feeds = _products()
    with tempfile.TemporaryDirectory(prefix="tensolog-stage-") as name:
        file = Path(name) / "products.onnx"
        file.write_bytes(model.SerializeToString())
        yield file, model, feeds


def _period(model: onnx.ModelProto, feeds: dict[str, Array], folder: Path, places: Places) -> float:
    """Return the seconds between answers of a row that two processes compute in turns."""
    with _alone_and_apart(folder, model, _STAGES, _processes(places)) as (_, apart_group):
        busy = timed(apart_group.lanes(), feeds, _SECONDS, _RUNS, _LIMIT_S)
    return 1e-9 / sum(1 / float(np.median(times)) for times in busy)


@contextlib.contextmanager
def _alone_and_apart(
    folder: Path, model: onnx.ModelProto, operators: int, start: StartGroup
) -> Iterator[list[Group]]:
    """Open a row of operators on one device, and on two that compute them in turns."""
    devices = tuple(
        Device(f"p{n}", memory_bytes=1, flops_per_s=1e9, memory_bytes_per_s=1e9) for n in range(2)
    )
    cluster = Cluster("two", devices, links_of_each_pair(devices, 0.0, 1e9))
    problem = Problem(read_workload(model), cluster, Times(cluster))
    groups: list[Group] = []
    try:
        for number, other in enumerate((0, 1)):
            plan = tuple(whole_on(other * (place % 2)) for place in range(operators))
            parted = part(problem, plan)
            partition = replace(parted.partition, memory_bytes=(0,) * len(parted.partition.devices))
            target = folder / str(number)
            target.mkdir(parents=True)
            parted.write(target)
            groups.append(start(partition, target))
        for group in groups:
            group.ready()
        yield groups
    finally:
        for group in groups:
            group.close()


def _latencies(groups: Sequence[Group], feeds: dict[str, Array]) -> list[float]:
    """Return the median seconds of a request in each group, timed in turns."""
    lanes = [group.lane(0) for group in groups]
    request = {name: [array] for name, array in feeds.items()}
    times: list[list[float]] = [[] for _ in groups]
    end_s = time.perf_counter() + _LINK_S
    for number in range(_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() > end_s:
            break
        for lane, times_of_lane in zip(lanes, times, strict=True):
            start_s = time.perf_counter()
            lane.run(request, _LIMIT_S)
            times_of_lane.append(time.perf_counter() - start_s)
    return [statistics.median(times_of_lane) for times_of_lane in times]


def _products(count: int = _STAGES, rows: int = _ROWS) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Make a row of products, and what it is given."""
    draw = np.random.default_rng(0)
    names = [f"v{n}" for n in range(count + 1)]
    nodes, weights = [], []
    for number, (source, target) in enumerate(itertools.pairwise(names)):
        # Of a length that keeps values as large as they are.
        array = draw.standard_normal((_WIDTH, _WIDTH)).astype(np.float32) / math.sqrt(_WIDTH)
        weights.append(numpy_helper.from_array(array, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [source, f"w{number}"], [target], name=target))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (rows, _WIDTH))
        for name in (names[0], names[-1])
    ]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    feeds = {names[0]: draw.standard_normal((rows, _WIDTH)).astype(np.float32)}
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def _row(size: int) -> onnx.ModelProto:
    """Make a row of operators on a tensor of so many bytes."""
    names = ["x", *(f"v{n}" for n in range(_HOPS)), "y"]
    nodes = [helper.make_node("Neg", [a], [b], name=b) for a, b in itertools.pairwise(names)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (max(1, size // 4),)) for n in "xy"]
    graph = helper.make_graph(nodes, "row", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
