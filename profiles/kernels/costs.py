"""The cost model: what a kernel costs on this machine, measured once and kept, or its bound."""

from __future__ import annotations

import datetime
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ...catalog import Catalog
from ..kernel import Kernel, KernelError
from ..machine import Machine, load_machine
from ..races.statistics import median_and_spread, quiet
from ..sessions.denormals import flushed_denormals
from ..sessions.session import LEVELS, RUNTIME, runtime_version, trim_memory
from .roofline import bound_ns
from .timing import REFERENCE, Probe, Runner, SessionRunner, most_bytes

Progress = Callable[[int, int, str], None]
"""Called with (done, total, label)."""

# Kernels that share their rounds. Few enough that a round is short beside a machine's moods.
_BATCH = 8
_BATCH_BYTES = 256 << 20  # of all copies: their sessions are alive at the same time
_LEAST_SAMPLES, _MOST_SAMPLES = 5, 9
_KEPT_SAMPLES = 3  # a kernel stopped by the budget or an interrupt is kept from here on
_KERNEL_NS = 15e6  # sum of one kernel's samples from which the least number is enough
# A round is calm if the reference took at most this many times the least it ever took. Where few
# rounds are calm, up to this many times as many are run; on a machine that stays busy the
# quieter half of them is taken.
_CALM = 1.25
_PATIENCE = 2


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of one run, spread as 1.4826 median absolute deviations; 0 if not measured.

    The interval of a predicted time is that times or divided by `factor`.
    """

    ns: float
    spread_ns: float
    source: Literal["measured", "predicted", "bound"]
    factor: float = 1.0

    @property
    def least_ns(self) -> float:
        """The lower end of the interval."""
        return self.ns / self.factor

    @property
    def most_ns(self) -> float:
        """The upper end of the interval; infinite for a bound, above which anything may lie."""
        return math.inf if self.source == "bound" else self.ns * self.factor


class Predictions(Protocol):
    """What kernels that nobody measured would take (learning/kernel_costs.py)."""

    def cost(self, kernel: Kernel) -> Cost | None:
        """Predict a kernel; None where nothing is known of such."""

    def learn(self, measured: Iterable[tuple[Kernel, float]]) -> None:
        """Take kernels that were measured on this machine, in ns."""


@dataclass(frozen=True)
class _Row:
    """A stored measurement; `ns` is None where the kernel could not run."""

    ns: float | None
    spread_ns: float
    failure: str | None


class CostModel:
    """Costs of kernels for one machine, runtime version, thread count and configuration."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        threads: int,
        configuration: str = "all",
        measure: bool = True,
        runner: Runner | None = None,
        clock: Callable[[], float] = time.monotonic,
        seed: int = 0,
        predictions: Predictions | None = None,
    ) -> None:
        """Read the stored measurements; `configuration` is a key of session.LEVELS.

        With measure=False nothing is ever timed. `predictions` stand for what is not measured.
        `runner` and `clock` (seconds) are for tests.
        """
        if configuration not in LEVELS:
            known = ", ".join(LEVELS)
            raise ValueError(f"unknown configuration {configuration!r}; known: {known}")
        self._catalog = catalog
        self.threads = threads
        self.configuration = configuration
        self._measures = measure
        self._runner: Runner = runner or SessionRunner(threads, configuration)
        self._clock = clock
        self._random = random.Random(seed)
        self.device: Machine = load_machine(catalog)
        self.predictions = predictions
        self._rows = self._load()
        self._bounds: dict[str, float] = {}
        self._least_reference = self._load_reference()

    def predict(self, kernels: Iterable[Kernel]) -> dict[Kernel, Cost]:
        """Return each kernel's stored measurement, else what is predicted, else its bound."""
        return {kernel: self.cost(kernel) for kernel in kernels}

    def cost(self, kernel: Kernel) -> Cost:
        """Return one kernel's cost; 0 for one of constants only, which the runtime folds."""
        if kernel.is_constant:
            return Cost(0.0, 0.0, "bound")
        row = self._rows.get(kernel.hash)
        if row is not None and row.ns is not None:
            return Cost(row.ns, row.spread_ns, "measured")
        if self.predictions is not None and row is None:
            predicted = self.predictions.cost(kernel)
            if predicted is not None:
                return predicted
        if kernel.hash not in self._bounds:
            self._bounds[kernel.hash] = bound_ns(kernel, self.device, self.threads)
        return Cost(self._bounds[kernel.hash], 0.0, "bound")

    def failure(self, kernel: Kernel) -> str | None:
        """Return why a kernel could not be measured; None if it was, or was not tried."""
        row = self._rows.get(kernel.hash)
        return None if row is None else row.failure

    def unmeasured(self, kernels: Iterable[Kernel]) -> list[Kernel]:
        """Return the kernels that `measure` would time, each once, in the order given."""
        unmeasured: dict[str, Kernel] = {}
        for kernel in kernels:
            if kernel.hash not in self._rows and not kernel.is_constant:
                unmeasured.setdefault(kernel.hash, kernel)
        return list(unmeasured.values())

    def measure(
        self, kernels: Iterable[Kernel], *, budget_s: float, progress: Progress | None = None
    ) -> int:
        """Time the kernels that have no row yet, in the order given, for up to `budget_s` seconds.

        Returns the number of rows written, failures included. Each row is committed; a
        KeyboardInterrupt keeps the kernels that have enough samples and is raised again.
        """
        todo = self.unmeasured(kernels) if self._measures else []
        if not todo or budget_s <= 0:
            return 0
        deadline = self._clock() + budget_s
        report = _Report(progress, len(todo))
        with flushed_denormals():
            reference = self._runner.prepare(REFERENCE)
            if (
                REFERENCE.hash not in self._rows
            ):  # on record, to know the machine's best from now on
                reference_report = report if REFERENCE in todo else _Report(None, 1)
                self._measure_batch([REFERENCE], reference, deadline, reference_report)
            for batch in _batches(kernel for kernel in todo if kernel != REFERENCE):
                if self._clock() >= deadline:
                    break
                self._measure_batch(batch, reference, deadline, report)
                trim_memory()
        return report.done

    def adapt(self, kernels: Iterable[Kernel]) -> None:
        """Adapt predictions to those of some kernels that are measured."""
        if self.predictions is not None:
            rows = [(kernel, self._rows.get(kernel.hash)) for kernel in kernels]
            self.predictions.learn(
                (kernel, row.ns) for kernel, row in rows if row is not None and row.ns is not None
            )

    def _measure_batch(
        self, batch: Sequence[Kernel], reference: Probe, deadline: float, report: _Report
    ) -> None:
        """Time a batch in interleaved rounds of random order, and store what has enough samples."""
        timed: list[_Timed] = []
        references: list[float] = []
        try:
            for kernel in batch:
                if self._clock() >= deadline:
                    break
                try:
                    timed.append(_Timed(kernel, self._runner.prepare(kernel)))
                except KernelError as error:
                    self._store(kernel, None, str(error))
                    report(kernel)
            while open_ := [entry for entry in timed if not entry.finished(self._calm(references))]:
                if self._clock() >= deadline:
                    break
                references.append(reference())
                self._least_reference = min(self._least_reference, references[-1])
                self._random.shuffle(open_)
                for entry in open_:
                    if self._clock() >= deadline:
                        break
                    entry.samples.append((len(references) - 1, entry.probe()))
        finally:
            for entry in timed:
                if len(entry.samples) >= _KEPT_SAMPLES:
                    summary = entry.summary(references, self._calm(references))
                    self._store(entry.kernel, summary, None)
                    report(entry.kernel)

    def _calm(self, references: Sequence[float]) -> list[bool]:
        """Mark the rounds in which the machine was about as fast as it ever was."""
        return [taken <= _CALM * self._least_reference for taken in references]

    def _store(self, kernel: Kernel, summary: _Summary | None, failure: str | None) -> None:
        """Commit one row, and remember it."""
        spread = 0.0 if summary is None else summary.spread_ns
        row = _Row(None if summary is None else summary.median_ns, spread, failure)
        if not self._catalog.read_only:
            connection = self._catalog.connection
            connection.execute(
                "INSERT OR IGNORE INTO kernel VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    kernel.hash,
                    kernel.domain,
                    kernel.op_type,
                    kernel.opset,
                    kernel.attributes_json(),
                    kernel.inputs_json(),
                    str(kernel.outputs),
                ],
            )
            connection.execute(
                "INSERT INTO measurement (device_id, kernel_hash, runtime, runtime_version,"
                " configuration, threads, median_ns, spread_ns, minimum_ns, samples, failure,"
                " measured_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    self.device.device_id,
                    kernel.hash,
                    RUNTIME,
                    runtime_version(),
                    self.configuration,
                    self.threads,
                    row.ns,
                    None if summary is None else summary.spread_ns,
                    None if summary is None else summary.minimum_ns,
                    0 if summary is None else summary.samples,
                    failure,
                    datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
                ],
            )
        self._rows[kernel.hash] = row

    def _load_reference(self) -> float:
        """Return the least time of the reference kernel on record, infinity if there is none."""
        rows = self._catalog.connection.execute(
            "SELECT min(minimum_ns) FROM measurement WHERE kernel_hash = ? AND device_id = ?"
            " AND runtime = ? AND runtime_version = ? AND configuration = ? AND threads = ?",
            [REFERENCE.hash, *self._key()],
        ).fetchall()
        return math.inf if rows[0][0] is None else float(rows[0][0])

    def _key(self) -> list[object]:
        """Return what a stored measurement must agree with, beside its kernel."""
        return [
            self.device.device_id,
            RUNTIME,
            runtime_version(),
            self.configuration,
            self.threads,
        ]

    def _load(self) -> dict[str, _Row]:
        """Read this machine's rows; the newest of several for one kernel stands."""
        rows = self._catalog.connection.execute(
            "SELECT kernel_hash, median_ns, spread_ns, failure FROM measurement"
            " WHERE device_id = ? AND runtime = ? AND runtime_version = ?"
            " AND configuration = ? AND threads = ? ORDER BY measurement_id",
            self._key(),
        ).fetchall()
        return {key: _Row(median, spread or 0.0, failure) for key, median, spread, failure in rows}


def _batches(kernels: Iterable[Kernel]) -> Iterator[list[Kernel]]:
    """Cut kernels into batches of bounded number and bytes, the order kept."""
    batch: list[Kernel] = []
    batch_bytes = 0
    for kernel in kernels:
        size = most_bytes(kernel)
        if batch and (len(batch) == _BATCH or batch_bytes + size > _BATCH_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(kernel)
        batch_bytes += size
    if batch:
        yield batch


@dataclass(frozen=True)
class _Summary:
    median_ns: float
    spread_ns: float
    minimum_ns: float
    samples: int


class _Timed:
    """A kernel being timed: its probe and its samples, each with the number of its round."""

    def __init__(self, kernel: Kernel, probe: Probe) -> None:
        self.kernel = kernel
        self.probe = probe
        self.samples: list[tuple[int, float]] = []

    def finished(self, calm: Sequence[bool]) -> bool:
        """Say whether there are enough samples of calm rounds, or it takes too long to get them."""
        spent = sum(ns for _, ns in self.samples)
        count = len(self.samples)
        calm_count = sum(calm[number] for number, _ in self.samples)
        for samples, factor in ((calm_count, 1), (count, _PATIENCE)):
            if samples >= _MOST_SAMPLES * factor:
                return True
            if samples >= _LEAST_SAMPLES * factor and spent >= _KERNEL_NS * factor:
                return True
        return False

    def summary(self, references: Sequence[float], calm: Sequence[bool]) -> _Summary:
        """Summarize the samples of the calm rounds, or of the quiet ones where few were calm."""
        rounds = [number for number, _ in self.samples]
        times = np.array([ns for _, ns in self.samples])
        chosen = np.array([calm[number] for number in rounds])
        if chosen.sum() < _KEPT_SAMPLES:
            chosen = quiet([references[number] for number in rounds])
        kept = times[chosen]
        median, spread = median_and_spread(kept)
        return _Summary(median, spread, float(times.min()), len(kept))


class _Report:
    """Counts stored rows and passes them on to the caller's progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self.done = 0
        if progress is not None:
            progress(0, total, "")

    def __call__(self, kernel: Kernel) -> None:
        self.done += 1
        if self._progress is not None:
            self._progress(self.done, self._total, kernel.label())
