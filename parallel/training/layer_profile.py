"""Measured times of layers: forward and backward, by processor, tensor parallelism and batch."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..devices import ClusterError

_MS, _MIB = 1e-3, float(2**20)
_NAME = re.compile(r"DeviceType\.(\w+?)_tp(\d+)_bs(\d+)\.json")
# Metis counts the optimizer's measured time twice.
_UPDATES = 2.0


@dataclass(frozen=True)
class Run:
    """A microbatch through all layers, each on as many devices as the run's tensor parallelism.

    `layer_s` and `memory_bytes` (weights, gradients and states of the optimizer included, on each
    device) are by layer. `turn_s` is what the last stage waits between forward and backward.
    """

    layer_s: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    turn_s: float = 0.0


@dataclass(frozen=True)
class LayerProfile:
    """What was measured of a stack of layers.

    `runs` are by processor, devices that share a layer, and samples of a microbatch.
    `parameter_bytes` are by layer; `activation_bytes`, of one sample, are sent behind it.
    `update_s` is what updating all weights on one device takes, `batch_s` what preparing a
    microbatch does.
    """

    parameter_bytes: tuple[float, ...]
    runs: Mapping[tuple[str, int, int], Run]
    update_s: float = 0.0
    batch_s: float = 0.0
    activation_bytes: float = 0.0

    def __post_init__(self) -> None:
        """Raise ClusterError unless each run has a time and a size for each layer."""
        if not self.runs or not self.parameter_bytes:
            raise ClusterError("a profile of layers needs at least one run of at least one layer")
        count = len(self.parameter_bytes)
        for (processor, tensor, samples), run in self.runs.items():
            if len(run.layer_s) != count or len(run.memory_bytes) != count:
                raise ClusterError(
                    f"the run on {processor} of {samples} samples by {tensor} has "
                    f"{len(run.layer_s)} times and {len(run.memory_bytes)} sizes of {count} layers"
                )

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.parameter_bytes)

    @cached_property
    def processors(self) -> frozenset[str]:
        """The processors that runs were measured on."""
        return frozenset(processor for processor, _, _ in self.runs)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """The numbers of devices that shared a layer, in order."""
        return tuple(sorted({tensor for _, tensor, _ in self.runs}))

    def slices(self, processor: str, tensor: int, samples: int) -> tuple[Run, ...] | None:
        """Return measured runs that together have so many samples; None where there are none.

        What was not measured as a whole is run in powers of two, one after the other.
        """
        whole = self.runs.get((processor, tensor, samples))
        if whole is not None:
            return (whole,)
        parts = [1 << bit for bit in range(samples.bit_length()) if samples >> bit & 1]
        runs = [self.runs.get((processor, tensor, part)) for part in parts]
        measured_runs = tuple(run for run in runs if run is not None)
        return measured_runs if measured_runs and len(measured_runs) == len(parts) else None


def read_metis(folder: str | Path, *, activation_bytes: float = 0.0) -> LayerProfile:
    """Read the profiles of Metis (Um et al. 2024): files `DeviceType.A100_tp2_bs4.json`.

    The optimizer's and the batch's times are those of the smallest run. Activations' sizes are in
    none of the files. Raises ClusterError where a file is damaged, or there is none.
    """
    try:
        names = sorted(path for path in Path(folder).iterdir() if _NAME.search(path.name))
    except OSError as error:
        raise ClusterError(f"{folder} can't be read: {error.strerror}") from error
    if not names:
        raise ClusterError(f"{folder} holds no file like DeviceType.A100_tp1_bs1.json")
    runs: dict[tuple[str, int, int], Run] = {}
    smallest: tuple[int, int, Path] | None = None
    parameters: tuple[float, ...] = ()
    update_s = batch_s = 0.0
    for path in names:
        match = _NAME.search(path.name)
        assert match is not None
        tensor, samples = int(match[2]), int(match[3])
        facts = _facts(path)
        times = _numbers(facts, path, "execution_time", "layer_compute_total_ms")
        total = _number(facts, path, "execution_time", "forward_backward_time_ms")
        sizes = _numbers(facts, path, "execution_memory", "layer_memory_total_mb")
        runs[match[1], tensor, samples] = Run(
            tuple(time * _MS for time in times),
            tuple(size * _MIB for size in sizes),
            max(total - sum(times), 0.0) * _MS,
        )
        if smallest is None or (tensor, samples, path) < smallest:
            smallest = tensor, samples, path
            parameters = _numbers(facts, path, "model", "parameters", "parameters_per_layer_bytes")
            optimizer_ms = _number(facts, path, "execution_time", "optimizer_time_ms")
            update_s = _UPDATES * optimizer_ms * tensor * _MS
            batch_s = _number(facts, path, "execution_time", "batch_generator_time_ms") * _MS
    return LayerProfile(parameters, runs, update_s, batch_s, activation_bytes)


def _facts(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClusterError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ClusterError(f"{path} is not JSON: {error}") from error


def _inside(facts: object, path: Path, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if not isinstance(facts, dict) or key not in facts:
            raise ClusterError(f"{path} lacks {'.'.join(keys)}")
        facts = facts[key]
    return facts


def _number(facts: object, path: Path, *keys: str) -> float:
    return _checked(_inside(facts, path, keys), path, keys)


def _numbers(facts: object, path: Path, *keys: str) -> tuple[float, ...]:
    numbers = _inside(facts, path, keys)
    if not isinstance(numbers, list):
        raise ClusterError(f"{path}: {'.'.join(keys)} is no list of numbers")
    return tuple(_checked(number, path, keys) for number in numbers)


def _checked(number: object, path: Path, keys: tuple[str, ...]) -> float:
    if (
        not isinstance(number, int | float)
        or isinstance(number, bool)
        or not 0 <= number < math.inf
    ):
        raise ClusterError(f"{path}: {'.'.join(keys)} is no number of at least 0: {number!r}")
    return float(number)
