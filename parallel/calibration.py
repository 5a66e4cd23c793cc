"""A model as it runs on one device, against the sum of its kernels.

Kernels are measured one by one. Within a model the runtime fuses some of them, and each finds other
things in the caches, so that a model takes 0.8 to 1.2 times what its kernels do; pieces of a model
differ as well. So the whole is timed, alone and while all devices run it, and its pieces, the
stages of a pipeline. Stages have copies of weights, which together may be more than caches hold: so
it is timed what a byte of weights takes among more and more of them. That takes some seconds, once
for a model. Of devices that are workers of a cluster the pieces are timed there, on all at once
(cluster/piece_times.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime

from ..profiles.sessions.deployed import open_deployed
from .devices import Cluster, links_of_each_pair
from .measure import measure_weights
from .partitioner import Parted, part
from .runnable_plan import CALLER
from .search.goals import PlanError
from .search.pipelines import even_pipeline
from .serving.instance import Array, Instance, Start, time_together
from .serving.pinning import here_each
from .simulation.placement import Config
from .simulation.tasks import Problem
from .simulation.times import Calibration

_PIECES = 8
_ROUNDS, _SECONDS, _RUNS = 4, 0.06, 3
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Pieces:
    """A model as the stages of a pipeline whose kernels take about equally long.

    `configs` has the piece of each operator, as the number of a device. `parted` are the stages,
    which lie in `folder`, and `piece_feeds` is what each is given for a request; none of both where
    what is between pieces can't be passed on.
    """

    problem: Problem
    configs: tuple[Config, ...]
    folder: Path
    parted: Parted | None
    piece_feeds: tuple[dict[str, Array], ...]

    def kernels_s(self, device: int) -> list[float]:
        """Return what the kernels of each operator take on a device."""
        operators = self.problem.workload.operators
        return [self.problem.times.operator(operator.kernel, device) for operator in operators]

    def of_average(self, stages_s: Sequence[float], device: int) -> tuple[float, ...]:
        """Return by operator how many times the ratio of the whole its piece's is.

        That of what was measured of stages on a device to the sum of kernels; empty where there is
        nothing to compare.
        """
        kernels_s = self.kernels_s(device)
        total_s = sum(kernels_s)
        if self.parted is None or min(stages_s, default=0.0) <= 0 or total_s <= 0:
            return ()
        by_piece, kernels_by_piece = [0.0] * _PIECES, [0.0] * _PIECES
        names = self.parted.partition.devices
        for stage, seconds in zip(self.parted.partition.stages, stages_s, strict=True):
            by_piece[int(names[stage.device])] += seconds
        for config, seconds in zip(self.configs, kernels_s, strict=True):
            kernels_by_piece[config.devices[0]] += seconds
        shares = [
            (piece_s / sum(by_piece)) / (kernels / total_s) if kernels > 0 and piece_s > 0 else 1.0
            for piece_s, kernels in zip(by_piece, kernels_by_piece, strict=True)
        ]
        return tuple(shares[config.devices[0]] for config in self.configs)


def pieces_of(problem: Problem, feeds: dict[str, Array], folder: Path) -> Pieces:
    """Write the pieces of a model into a folder, and run them once; `feeds` are of a request.

    In the folder lies all that the model has beside it.
    """
    configs = even_pipeline(problem, _PIECES)
    parted = _parted(problem, configs)
    piece_feeds: list[dict[str, Array]] = []
    if parted is not None:
        parted.write(folder)
        piece_feeds = _passed(parted, folder, feeds, problem.cluster.devices[0].cores)
    return Pieces(problem, configs, folder, parted, tuple(piece_feeds))


def calibrate(problem: Problem, model: Path, feeds: dict[str, Array], folder: Path) -> Calibration:
    """Time a model and its pieces on the first device; `feeds` are those of a request.

    `problem` has the times of its kernels. Pieces are written into `folder`, in which all lies that
    the model has beside it. Raises ModelError where the runtime refuses the model.
    """
    pieces = pieces_of(problem, feeds, folder)
    threads = [device.cores for device in problem.cluster.devices]
    places = here_each(threads)
    with contextlib.ExitStack() as stack:

        def opened(path: Path, device: int, arrays: dict[str, Array]) -> Instance:
            instance = Instance(Start(path, threads[device], places[device]))
            stack.callback(instance.close)
            instance.ready()
            instance.load("", arrays, _LIMIT_S)
            return instance

        whole = [opened(model, device, feeds) for device in range(len(threads))]
        stages = [] if pieces.parted is None else pieces.parted.partition.stages
        separate = [
            opened(folder / stage.model, 0, arrays)
            for stage, arrays in zip(stages, pieces.piece_feeds, strict=True)
        ]
        alone_s, beside_s, stages_s = _times(whole, separate)
    copies = _beyond(measure_weights(threads[0]), len(threads) * _weight_bytes(problem))
    total_s = sum(pieces.kernels_s(0))
    bytes_ = sum(operator.kernel.constant_bytes for operator in problem.workload.operators)
    contention = max(0.0, beside_s - alone_s) / bytes_ if bytes_ else 0.0
    factor = alone_s / total_s if total_s > 0 else 1.0
    return Calibration(factor, pieces.of_average(stages_s, 0), contention, copies)


def calibrate_each(pieces: Pieces, stages_s: Sequence[Sequence[float]]) -> Calibration | None:
    """Return what devices of machines of their own take, by the seconds of the stages on each.

    Nothing slows the one down while others compute. None where there is nothing to compare.
    """
    devices = pieces.problem.cluster.devices
    of_average = [pieces.of_average(seconds, n) for n, seconds in enumerate(stages_s)]
    if not all(of_average):
        return None
    factors = [sum(seconds) / sum(pieces.kernels_s(n)) for n, seconds in enumerate(stages_s)]
    # Times of devices that are alike are the same.
    by_device = [
        float(
            np.mean([f for f, other in zip(factors, devices, strict=True) if other.model == model])
        )
        for model in (device.model for device in devices)
    ]
    return Calibration(
        1.0, tuple(np.mean(of_average, axis=0).tolist()), 0.0, by_device=tuple(by_device)
    )


def _weight_bytes(problem: Problem) -> int:
    """Return the bytes of all weights, each counted once."""
    values = problem.workload.values
    return sum(value.size_bytes for v, value in values.items() if v not in problem.sent)


def _beyond(
    weights: Sequence[tuple[float, float]], usual_bytes: int
) -> tuple[tuple[float, float], ...]:
    """Return by how much a byte takes longer than where a node goes through as many as usual.

    That is where each device runs the model: it is in what they take from each other.
    """
    sizes, seconds = zip(*weights, strict=True)
    usual_s = float(np.interp(usual_bytes, sizes, seconds))
    return tuple((size, max(0.0, weight - usual_s)) for size, weight in weights)


def _parted(problem: Problem, configs: tuple[Config, ...]) -> Parted | None:
    """Write the pieces as models; None where what is between them can't be passed on."""
    first = problem.cluster.devices[0]
    devices = tuple(replace(first, name=str(number), address="") for number in range(_PIECES))
    links = links_of_each_pair(devices, 0.0, 1e9)
    try:
        return part(
            Problem(problem.workload, Cluster("pieces", devices, links), problem.times), configs
        )
    except PlanError:
        return None


def _passed(
    parted: Parted, folder: Path, feeds: dict[str, Array], threads: int
) -> list[dict[str, Array]]:
    """Run the pieces one after the other; return what each is given."""
    partition = parted.partition
    arrays = {
        number: feeds[tensor.name]
        for number, tensor in enumerate(partition.tensors)
        if tensor.owner == CALLER
    }
    piece_feeds = []
    for stage in partition.stages:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = open_deployed(folder / stage.model, options)
        reads = {partition.tensors[number].name: arrays[number] for number in stage.reads}
        names = [partition.tensors[number].name for number in stage.gives]
        arrays |= dict(zip(stage.gives, session.run(names, reads), strict=True))
        piece_feeds.append(reads)
    return piece_feeds


def _times(
    whole: Sequence[Instance], pieces: Sequence[Instance]
) -> tuple[float, float, list[float]]:
    """Return the least of the median seconds of the model alone, on all devices, and of pieces."""

    def run(instances: Sequence[Instance]) -> float:
        times = time_together(instances, "", _SECONDS, _RUNS, _LIMIT_S)
        return 1e-9 * float(np.mean([np.median(runs) for runs in times]))

    rounds = [
        [run(whole[:1]), run(whole), *(run([piece]) for piece in pieces)] for _ in range(_ROUNDS)
    ]
    alone_s, beside_s, *pieces_s = np.min(rounds, axis=0).tolist()
    return alone_s, beside_s, pieces_s
