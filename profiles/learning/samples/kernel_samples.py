"""Measured kernels of models: what costs of kernels are learned from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ....catalog import Catalog
from ...kernel import Kernel
from ...machine import Machine, load_machine
from ...sessions.session import RUNTIME, runtime_version
from .archive import CostGraph
from .examples import Example, example_of
from .kernel_graphs import PRIOR_FEATURE, Configuration, graph_of_kernel


@dataclass(frozen=True)
class Sample:
    """A kernel of an architecture, how often it is called there, and its measured time in ns."""

    architecture: str
    kernel: Kernel
    calls: int
    time_ns: float
    spread_ns: float
    samples: int


def measured_samples(
    catalog: Catalog, architecture: str, kernels: Iterable[tuple[str, Kernel]], threads: int
) -> list[Sample]:
    """Return the kernels (node, Kernel) of a model that were measured on this machine, each once.

    Those of constants only, which run when the model is loaded, are left out.
    """
    calls: Counter[str] = Counter()
    distinct: dict[str, Kernel] = {}
    for _, kernel in kernels:
        if not kernel.is_constant:
            calls[kernel.hash] += 1
            distinct[kernel.hash] = kernel
    rows = catalog.connection.execute(
        "SELECT kernel_hash, median_ns, spread_ns, samples FROM measurement"
        " WHERE device_id = ? AND runtime = ? AND runtime_version = ? AND configuration = 'all'"
        " AND threads = ? AND median_ns > 0 AND kernel_hash IN (SELECT unnest(?::VARCHAR[]))"
        " ORDER BY measurement_id",  # of several the newest stands
        [load_machine(catalog).device_id, RUNTIME, runtime_version(), threads, list(distinct)],
    ).fetchall()
    newest = {key: (time_ns, spread_ns or 0.0, count) for key, time_ns, spread_ns, count in rows}
    return [
        Sample(architecture, kernel, calls[key], *newest[key])
        for key, kernel in distinct.items()
        if key in newest
    ]


def examples_of(samples: Iterable[Sample], machine: Machine, threads: int) -> list[Example]:
    """Return measured kernels as a graph network reads them, a graph of one configuration each."""
    examples = []
    for sample in samples:
        times = {(threads, "all"): sample.time_ns}
        graph = graph_of_kernel(sample.kernel, sample.architecture, times, machine)
        described = example_of(graph, prior=PRIOR_FEATURE)
        examples.append(replace(described, architecture=sample.architecture))
    return examples


def measured_graphs(
    catalog: Catalog, architecture: str, kernels: Iterable[tuple[str, Kernel]]
) -> list[CostGraph]:
    """Return the kernels of a model as graphs, with all configurations measured on this machine."""
    distinct = {kernel.hash: kernel for _, kernel in kernels if not kernel.is_constant}
    machine = load_machine(catalog)
    rows = catalog.connection.execute(
        "SELECT kernel_hash, threads, configuration, median_ns FROM measurement"
        " WHERE device_id = ? AND runtime = ? AND runtime_version = ? AND median_ns > 0"
        " AND kernel_hash IN (SELECT unnest(?::VARCHAR[])) ORDER BY measurement_id",
        [machine.device_id, RUNTIME, runtime_version(), list(distinct)],
    ).fetchall()
    times: dict[str, dict[Configuration, float]] = {}
    for key, threads, level, time_ns in rows:  # of several the newest stands
        times.setdefault(key, {})[threads, level] = time_ns
    return [
        graph_of_kernel(distinct[key], architecture, times[key], machine) for key in sorted(times)
    ]
