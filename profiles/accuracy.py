"""How well sums of kernel costs predict whole models: kernels and model timed in the same rounds.

The kernels are those that the runtime runs (as_run.py), each alone, weighed by how often it occurs.
Machines have moods, so nothing is compared over minutes: kernels are timed in small batches, the
model with each, and what is added up is each kernel's share of the model's time in its own rounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .as_run import kernels_run
from .denormals import flushed_denormals
from .kernel import Kernel, KernelError
from .session import DEFAULTS, BoundRun, Execution, open_session, trim_memory
from .statistics import swiftest
from .timing import Probe, SessionRunner

Array = np.ndarray[Any, Any]

_BATCH = 6
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
    """A model's measured nanoseconds, its kernels' shares, and those that can't run alone."""

    measured_ns: float
    shares: tuple[Share, ...]
    untimed: tuple[Kernel, ...]

    @property
    def ratio(self) -> float:
        """The sum of the kernels over the measured time."""
        return sum(share.part for share in self.shares)


def accuracy(
    source: Path | bytes,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    execution: Execution = DEFAULTS,
    rounds: int = 15,
    seed: int = 0,
) -> Accuracy:
    """Time a model and each kernel that runs for it, in the same rounds; raises what it raises."""
    kernels = [
        kernel for _, kernel in kernels_run(source, feeds, threads=threads, execution=execution)
    ]
    counts = Counter(kernel for kernel in kernels if not kernel.is_constant)
    touched = sum(
        spec.size_bytes for kernel in kernels for spec in kernel.inputs if spec is not None
    )
    runner = SessionRunner(threads, _AS_THEY_ARE, touched // threads)
    order = random.Random(seed)
    shares: list[Share] = []
    untimed: list[Kernel] = []
    measured: list[float] = []
    with flushed_denormals():
        whole = BoundRun(open_session(source, threads=threads, execution=execution), feeds)
        distinct = list(counts)
        for at in range(0, len(distinct), _BATCH):
            probes: dict[Kernel, Probe] = {}
            for kernel in distinct[at : at + _BATCH]:
                try:
                    probes[kernel] = runner.prepare(kernel)
                except KernelError:
                    untimed.append(kernel)
            times, wholes = _timed(probes, whole, rounds, order)
            measured += wholes
            for kernel, taken in times.items():
                part = counts[kernel] * swiftest(taken) / swiftest(wholes)
                shares.append(Share(kernel, counts[kernel], swiftest(taken), part))
            del probes
            trim_memory()
    shares.sort(key=lambda share: -share.part)
    return Accuracy(swiftest(measured), tuple(shares), tuple(untimed))


def _timed(
    probes: Mapping[Kernel, Probe], whole: BoundRun, rounds: int, order: random.Random
) -> tuple[dict[Kernel, list[float]], list[float]]:
    """Time a batch and the model, all in each round."""
    times: dict[Kernel, list[float]] = {kernel: [] for kernel in probes}
    wholes: list[float] = []
    batch: Sequence[Kernel] = list(probes)
    for _ in range(rounds):
        whole.time()  # the kernels have emptied the caches
        wholes.append(whole.time())
        for kernel in order.sample(batch, len(batch)):
            times[kernel].append(probes[kernel]())
    return times, wholes
