"""How well sums of kernel costs predict whole models: kernels and model timed in the same rounds.

The kernels are those that the runtime runs (runtime_kernels.py), each alone, weighed by how often
it occurs. Machines have moods, so nothing is compared over minutes: kernels are timed in small
batches, the model with each, and what is added up is each kernel's share of the model's time in its
own rounds.
The model is timed as races time it, in laps after a warm-up; since the speed of small models
depends on where a session's memory lies, these and their kernels are opened several times.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..kernel import Kernel, KernelError
from ..races.heats import warm
from ..sessions.denormals import flushed_denormals
from ..sessions.session import DEFAULTS, BoundRun, Execution, open_session, trim_memory
from .runtime_kernels import runtime_kernels
from .timing import Probe, SessionRunner

Array = np.ndarray[Any, Any]

_BATCH = 6
# How often a batch and a model are opened, if it is so fast that where it lies makes a difference.
# A slower one has more rounds instead, as its long kernels are run once in each.
_OPENINGS, _LONGER = 7, 3
_FAST_NS = 10e6
# As an optimized model is run: its kernels are what they are.
_AS_THEY_ARE = "disabled"


@dataclass(frozen=True)
class Share:
    """A kernel, how often it runs, the nanoseconds of one run, and its part of the model's time."""

    kernel: Kernel
    count: int
    ns: float
    part: float


@dataclass(frozen=True)
class Accuracy:
    """A model's measured nanoseconds, its kernels' shares, and those that can't run alone.

    `empty` is the part of the time that a run of no operator takes.
    """

    measured_ns: float
    shares: tuple[Share, ...]
    untimed: tuple[Kernel, ...]
    empty: float

    @property
    def ratio(self) -> float:
        """The sum of the kernels, and of what a run takes beside them, over the measured time."""
        return self.empty + sum(share.part for share in self.shares)


def accuracy(
    source: Path | bytes,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    execution: Execution = DEFAULTS,
    rounds: int = 5,
) -> Accuracy:
    """Time a model and each kernel that runs for it, in the same rounds; raises what it raises.

    So many rounds are run of each opening, and more where a model is opened once.
    """
    run = runtime_kernels(source, feeds, threads=threads, execution=execution)
    counts = run.counts
    runner = SessionRunner(threads, _AS_THEY_ARE, run.constant_bytes)
    order = random.Random(0)
    shares: list[Share] = []
    untimed: list[Kernel] = []
    measured: list[float] = []
    with flushed_denormals():
        distinct = list(counts)
        opened = BoundRun(open_session(source, threads=threads, execution=execution), feeds)
        fast = min(opened.time() for _ in range(3)) < _FAST_NS
        openings, rounds = (_OPENINGS, rounds) if fast else (1, _LONGER * rounds)
        del opened
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            taken: dict[Kernel, list[tuple[float, float]]] = {kernel: [] for kernel in batch}
            for _ in range(openings):
                probes = _prepared(runner, [kernel for kernel in batch if kernel not in untimed])
                untimed += [kernel for kernel in batch if kernel not in (*probes, *untimed)]
                whole = BoundRun(open_session(source, threads=threads, execution=execution), feeds)
                whole_ns, times = _timed(probes, whole, rounds, order)
                measured.append(whole_ns)
                for kernel, ns in times.items():
                    taken[kernel].append((ns, ns / whole_ns))
                del probes, whole
                trim_memory()
            for kernel, pairs in taken.items():
                if pairs:
                    ns, part = np.median(pairs, axis=0).tolist()
                    shares.append(Share(kernel, counts[kernel], ns, counts[kernel] * part))
        shares.sort(key=lambda share: -share.part)
        whole_ns = median(measured)
        empty = runner.overhead_ns() / whole_ns
    return Accuracy(whole_ns, tuple(shares), tuple(untimed), empty)


def _prepared(runner: SessionRunner, batch: Sequence[Kernel]) -> dict[Kernel, Probe]:
    """Open the kernels that can be run alone."""
    probes: dict[Kernel, Probe] = {}
    for kernel in batch:
        with suppress(KernelError):
            probes[kernel] = runner.prepare(kernel)
    return probes


def _timed(
    probes: Mapping[Kernel, Probe], whole: BoundRun, rounds: int, order: random.Random
) -> tuple[float, dict[Kernel, float]]:
    """Time the model and a batch, all in each round; medians in nanoseconds."""
    times: dict[Kernel, list[float]] = {kernel: [] for kernel in probes}
    wholes: list[float] = []
    batch: Sequence[Kernel] = list(probes)
    runs, _ = warm(whole)
    for _ in range(rounds):
        whole.time()  # the kernels have emptied the caches
        wholes += [whole.time() for _ in range(runs)]
        for kernel in order.sample(batch, len(batch)):
            times[kernel].append(probes[kernel]())
    return median(wholes), {kernel: median(taken) for kernel, taken in times.items()}
