"""What a step of training takes as a pipeline of stages: Metis' sums (Um et al. 2024, section 3.3).

A batch is divided into microbatches, which pass the stages one behind the other. In a stage, groups
of devices share each layer (tensor parallelism), and the groups share a microbatch's samples (data
parallelism). A step takes

    (microbatches - 1) x the slowest stage + all stages once + transfers between stages
    + microbatches x (preparing one + the turn from forward to backward in the last stage)
    + the slowest update of weights + the slowest sum of gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..devices import Cluster, ClusterError, Device
from .layer_profile import LayerProfile, Run


@dataclass(frozen=True)
class Stage:
    """Layers from `first` to before `end`, on numbered devices, `tensor` of them to a group."""

    first: int
    end: int
    devices: tuple[int, ...]
    tensor: int = 1

    def __post_init__(self) -> None:
        """Raise ClusterError unless there are layers, and devices in groups of equal size."""
        if self.first >= self.end:
            raise ClusterError("a stage has no layers")
        if self.tensor < 1 or not self.devices or len(self.devices) % self.tensor:
            raise ClusterError(f"{len(self.devices)} devices make no groups of {self.tensor}")

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each group."""
        firsts = range(0, len(self.devices), self.tensor)
        return tuple(self.devices[n : n + self.tensor] for n in firsts)


@dataclass(frozen=True)
class Pipeline:
    """Stages in order, which so many microbatches of a batch pass."""

    microbatches: int
    stages: tuple[Stage, ...]

    def text(self, devices: Sequence[Device]) -> str:
        """Say which layers are where, a line for each stage."""
        lines = [f"{self.microbatches} microbatches"]
        for stage in self.stages:
            names = ", ".join(devices[number].name for number in stage.devices)
            lines.append(
                f"  layers {stage.first} to {stage.end - 1}: data in {len(stage.groups)}, "
                f"tensors in {stage.tensor} on {names}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class StepTime:
    """What a step takes, and a microbatch in each stage, in seconds; bytes on a stage's devices."""

    seconds: float
    stages_s: tuple[float, ...]
    memory_bytes: tuple[float, ...]


@dataclass(frozen=True)
class Share:
    """The samples of a microbatch that a group of a stage computes, and the runs that it does."""

    samples: int
    runs: tuple[Run, ...]

    def seconds(self, first: int, end: int) -> float:
        """Return what layers take."""
        return sum(sum(run.layer_s[first:end]) for run in self.runs)

    def memory_bytes(self, first: int, end: int) -> float:
        """Return what layers need on a device."""
        return max((sum(run.memory_bytes[first:end]) for run in self.runs), default=0.0)

    @property
    def turn_s(self) -> float:
        """Time between forward and backward where the last layers are here."""
        return sum(run.turn_s for run in self.runs)


class Machine:
    """A profile on a cluster: what stages, transfers and sums take."""

    def __init__(self, profile: LayerProfile, cluster: Cluster) -> None:
        """Raise ClusterError where the profile has no run on any device of the cluster."""
        self.profile, self.cluster = profile, cluster
        self.processors = [device.processor for device in cluster.devices]
        if not profile.processors & set(self.processors):
            raise ClusterError(
                f"layers were measured on {', '.join(sorted(profile.processors))}, "
                f"and no device of {cluster.name} has such a processor"
            )
        self.shares = lru_cache(maxsize=None)(self._shares)
        self.slowest_s = lru_cache(maxsize=None)(self._slowest_s)

    def _shares(
        self, groups: tuple[tuple[str, ...], ...], samples: int
    ) -> tuple[Share, ...] | None:
        """Divide samples among groups of processors, so that the slowest takes least.

        Each group gets as many as it can within the shortest time that suffices for all; of more
        groups than samples, some get none. None where nothing of the kind was measured.
        """
        options = [self._options(group, samples) for group in groups]
        times = sorted({time for option in options for time, _ in option})
        counts: list[int] | None = None
        low, high = 0, len(times)
        while low < high:  # more can be computed in more time
            middle = (low + high) // 2
            within = _divided(options, times[middle], samples)
            if within is None:
                low = middle + 1
            else:
                counts, high = within, middle
        if counts is None:
            return None
        shares = []
        for group, count in zip(groups, counts, strict=True):
            runs = self._runs(group, count)
            assert runs is not None
            shares.append(Share(count, runs))
        return tuple(shares)

    def _options(self, group: tuple[str, ...], samples: int) -> list[tuple[float, int]]:
        options = []
        for count in range(1, samples + 1):
            runs = self._runs(group, count)
            if runs is not None:
                options.append((Share(count, runs).seconds(0, self.profile.layers), count))
        return options

    def _runs(self, group: tuple[str, ...], samples: int) -> tuple[Run, ...] | None:
        """Return the runs of the group's slowest processor."""
        if samples == 0:
            return ()
        processor_runs = [self.profile.slices(p, len(group), samples) for p in set(group)]
        measured_runs = [runs for runs in processor_runs if runs is not None]
        if len(measured_runs) < len(processor_runs):
            return None
        return max(measured_runs, key=lambda runs: sum(sum(run.layer_s) for run in runs))

    def stage_shares(self, stage: Stage, samples: int) -> tuple[Share, ...] | None:
        """Return what each group of a stage does of a microbatch."""
        groups = tuple(tuple(self.processors[n] for n in group) for group in stage.groups)
        return self.shares(groups, samples)

    def fits(self, stage: Stage, shares: Sequence[Share]) -> bool:
        """Tell whether each device holds what the stage needs on it."""
        for group, share in zip(stage.groups, shares, strict=True):
            needed = share.memory_bytes(stage.first, stage.end)
            if any(self.cluster.devices[n].memory_bytes < needed for n in group):
                return False
        return True

    def transfer_s(self, source: Stage, target: Stage, samples: int) -> float:
        """Return what sending a group's activations to the next stage takes, by the slowest link.

        Groups of equal numbers and sizes send to their likes; others, to all.
        """
        most = -(-samples // len(source.groups))
        return self.slowest_s(_pairs(source, target), self.profile.activation_bytes * most)

    def gradients_s(self, stage: Stage) -> float:
        """Return what a ring of groups takes to add up gradients."""
        count = len(stage.groups)
        if count == 1:
            return 0.0
        size = sum(self.profile.parameter_bytes[stage.first : stage.end]) / stage.tensor
        pairs = tuple(
            (a, b)
            for here in stage.groups
            for there in stage.groups
            if here is not there
            for a, b in zip(here, there, strict=True)
        )
        return 2 * (count - 1) * self.slowest_s(pairs, size / count)

    def update_s(self, stage: Stage) -> float:
        """Return what updating the stage's weights takes: by its share of the layers."""
        share = (stage.end - stage.first) / self.profile.layers
        return self.profile.update_s * share / stage.tensor

    def _slowest_s(self, pairs: tuple[tuple[int, int], ...], size_bytes: float) -> float:
        names = self.cluster.devices
        return max(
            (
                self.cluster.link(names[a].name, names[b].name).seconds(size_bytes)
                for a, b in pairs
                if a != b
            ),
            default=0.0,
        )


def _divided(
    options: Sequence[Sequence[tuple[float, int]]], time: float, samples: int
) -> list[int] | None:
    """Give each group a number of samples that it computes within a time; None if they can't all.

    An option is the time that a number of samples takes.
    """
    reachable: list[dict[int, int]] = [{0: 0}]  # samples of the groups so far: the last one's
    for option in options:
        counts = [0, *(count for needed, count in option if needed <= time)]
        here: dict[int, int] = {}
        for before in reachable[-1]:
            for count in counts:
                if before + count <= samples:
                    here.setdefault(before + count, count)
        reachable.append(here)
    if samples not in reachable[-1]:
        return None
    pieces = []
    for here in reversed(reachable[1:]):
        pieces.append(here[samples])
        samples -= here[samples]
    return pieces[::-1]


def _pairs(source: Stage, target: Stage) -> tuple[tuple[int, int], ...]:
    if (len(source.devices), source.tensor) == (len(target.devices), target.tensor):
        return tuple(zip(source.devices, target.devices, strict=True))
    return tuple((a, b) for a in source.devices for b in target.devices)


def step_time(profile: LayerProfile, cluster: Cluster, batch: int, pipeline: Pipeline) -> StepTime:
    """Return what a step takes, and what it needs on devices; whether they have it isn't asked.

    Raises ClusterError where the microbatches don't divide the batch, the stages don't hold all
    layers in order on devices of their own, or runs that are needed were not measured.
    """
    machine = Machine(profile, cluster)
    _check(profile, cluster, batch, pipeline)
    samples = batch // pipeline.microbatches
    stages = pipeline.stages
    every = []
    for stage in stages:
        shares = machine.stage_shares(stage, samples)
        if shares is None:
            raise ClusterError(
                f"layers were not measured as {samples} samples by {len(stage.groups)} groups of "
                f"{stage.tensor} devices need it"
            )
        every.append(shares)
    slowest = tuple(
        max(share.seconds(stage.first, stage.end) for share in shares)
        for stage, shares in zip(stages, every, strict=True)
    )
    transfers = sum(
        machine.transfer_s(here, there, samples) for here, there in itertools.pairwise(stages)
    )
    turn = max(share.turn_s for share in every[-1]) * pipeline.microbatches
    update = max(map(machine.update_s, stages))
    gradients = max(map(machine.gradients_s, stages))
    return StepTime(
        (pipeline.microbatches - 1) * max(slowest)
        + sum(slowest)
        + transfers
        + turn
        + update
        + gradients
        + pipeline.microbatches * profile.batch_s,
        slowest,
        tuple(
            max(share.memory_bytes(stage.first, stage.end) for share in shares)
            for stage, shares in zip(stages, every, strict=True)
        ),
    )


def _check(profile: LayerProfile, cluster: Cluster, batch: int, pipeline: Pipeline) -> None:
    if pipeline.microbatches < 1 or batch < 1 or batch % pipeline.microbatches:
        raise ClusterError(f"{pipeline.microbatches} microbatches don't divide a batch of {batch}")
    bounds = [0, *(stage.end for stage in pipeline.stages)]
    starts = [*(stage.first for stage in pipeline.stages), profile.layers]
    if bounds != starts:
        raise ClusterError(f"the stages don't hold the {profile.layers} layers in order")
    used = [number for stage in pipeline.stages for number in stage.devices]
    if len(set(used)) < len(used) or not all(0 <= n < len(cluster.devices) for n in used):
        raise ClusterError("stages share a device, or name one that there is not")
