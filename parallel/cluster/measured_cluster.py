"""The workers of a cluster as devices: what each computes while all do, and the links between them.

Each worker is measured as a process of this machine is (measure.py), in a process that it starts;
links by groups of two workers, as they pass tensors when they serve.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..devices import Cluster, Device, Link
from ..measure import LEAST_LATENCY_S, Tell, measure_link, measure_rates, measure_stage
from ..runnable_plan import Partition
from ..serving.processor_claims import claim_processors
from .cluster_group import ClusterGroup, StageFiles
from .dask_engine import Engine, EngineError, Worker
from .places import Place

_MEASURING_S = 300.0
# That it is above 0 says that a device hands over what it gives at the end of a stage.
_LEAST_STAGE_S = 1e-6


async def rates_here(threads: int, dask_worker: Any = None) -> dict[str, float]:
    """Measure the machine of a worker, in which this runs, beside what the worker does."""
    return await asyncio.to_thread(_rates, threads)


def _rates(threads: int) -> dict[str, float]:
    """Return rates of a worker's processor and what a stage takes there; keys are a Device's."""
    rates = measure_rates(threads, ((),))
    claim = claim_processors([1])
    try:
        return {**rates, "stage_s": max(_LEAST_STAGE_S, measure_stage(claim.places[0][:1]))}
    finally:
        claim.release()


def measure_cluster(address: str, *, tell: Tell | None = None) -> Cluster:
    """Measure all workers of the cluster whose scheduler has an address, and their links.

    Rates are those of a worker while all others are measured as well. Links are measured in rounds
    of pairs that have no worker in common, so a cluster of n workers takes some n times 5 s. Raises
    EngineError where the cluster or a worker of it can't be used.
    """
    with Engine(address) as engine:
        workers = engine.workers()
        if not workers:
            raise EngineError(
                f"the cluster at {address} has no worker: start some with `dask worker {address}`"
            )
        rounds = list(tournament(len(workers)))
        if tell is not None:
            tell("measuring", 0, len(rounds) + 1, f"{len(workers)} workers")
        asked = {worker.address: [worker.cores] for worker in workers}
        rates = engine.run_each(rates_here, asked, _MEASURING_S)
        for worker in workers:
            if isinstance(error := rates[worker.address], BaseException):
                reason = str(error) or type(error).__name__
                raise EngineError(f"the worker {worker.name} can't be measured: {reason}")
        devices = [
            Device(
                name=worker.name,
                cores=worker.cores,
                memory_bytes=worker.memory_bytes,
                processor=worker.processor,
                node=worker.host,
                fingerprint=worker.fingerprint,
                address=worker.address,
                **rates[worker.address],
            )
            for worker in workers
        ]
        links: dict[tuple[int, int], tuple[float, float]] = {}
        with ThreadPoolExecutor(max(1, len(workers) // 2)) as pool:
            for number, pairs in enumerate(rounds):
                if tell is not None:
                    tell("measuring", number + 1, len(rounds) + 1, "links")
                measured_links = pool.map(
                    lambda pair: _link(engine, [workers[n] for n in pair]), pairs
                )
                links |= dict(zip(pairs, measured_links, strict=True))
        return Cluster(
            f"workers of {address}",
            tuple(devices),
            tuple(
                _as_link(devices[i], devices[j], *links[min(i, j), max(i, j)])
                for i, j in itertools.permutations(range(len(devices)), 2)
            ),
            address,
        )


def _as_link(source: Device, target: Device, hop_s: float, bytes_per_s: float) -> Link:
    """Return a link whose latency is what a hop adds beyond the stage that runs after it."""
    latency_s = max(LEAST_LATENCY_S, hop_s - target.stage_s)
    return Link(source.name, target.name, latency_s, bytes_per_s)


def tournament(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield rounds of disjoint pairs, in which each of `count` meets each other one once."""
    others = list(range(count + count % 2))
    for _ in range(len(others) - 1):
        half = len(others) // 2
        pairs = zip(others[:half], reversed(others[half:]), strict=True)
        yield [(min(pair), max(pair)) for pair in pairs if max(pair) < count]
        others[1:] = [others[-1], *others[1:-1]]


def _link(engine: Engine, pair: Sequence[Worker]) -> tuple[float, float]:
    def start(partition: Partition, folder: Path) -> ClusterGroup:
        places = [Place(worker, 1, 0) for worker in pair[: len(partition.devices)]]
        return ClusterGroup(engine, StageFiles(partition, folder), places, 1)

    return measure_link(start)
