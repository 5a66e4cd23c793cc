"""The pipeline that takes least: all of them are looked through, bounded from below.

Stages are on devices that follow each other, in each order of the processors. A plan grows stage by
stage; of those that have the same layers behind them, the same devices, and the same last stage,
one that is no better in any part of the sum is dropped, and so is one that can't become better than
the best so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..devices import Cluster, ClusterError
from ..search.goals import PlanError
from .layer_profile import LayerProfile
from .pipeline import Machine, Pipeline, Stage, StepTime, step_time

# Steps of the search, before it is cut.
MOST_STEPS = 2_000_000
# Orders of processors are factorial in their number.
_MOST_PROCESSORS = 5


@dataclass(frozen=True)
class PipelineSearch:
    """The best pipeline found, and what it takes; `exact` says that none takes less."""

    pipeline: Pipeline
    time: StepTime
    exact: bool


@dataclass(frozen=True, slots=True)
class _Partial:
    """The first stages of a pipeline: their times added up, and the slowest of each kind."""

    stages: tuple[Stage, ...]
    once_s: float = 0.0
    slowest_s: float = 0.0
    update_s: float = 0.0
    gradients_s: float = 0.0

    @property
    def parts(self) -> tuple[float, float, float, float]:
        return self.once_s, self.slowest_s, self.update_s, self.gradients_s


@dataclass
class _Search:
    machine: Machine
    batch: int
    steps: int = 0
    best_s: float = math.inf
    best: Pipeline | None = None

    def order(self, order: tuple[int, ...], microbatches: int) -> None:
        """Look through the stages on devices in this order."""
        profile = self.machine.profile
        samples = self.batch // microbatches
        rest_s = self._rest_s(samples)
        if rest_s is None:
            return
        fronts: dict[tuple[int, int], dict[object, list[_Partial]]] = {
            (0, 0): {None: [_Partial(())]}
        }
        for done, used in itertools.product(range(profile.layers), range(len(order))):
            for front in fronts.pop((done, used), {}).values():
                for partial in front:
                    for following in self._longer(partial, done, order[used:], samples):
                        self.steps += 1
                        if self.steps > MOST_STEPS:
                            return
                        end = following.stages[-1].end
                        if self._least_s(following, microbatches, rest_s[end]) >= self.best_s:
                            continue
                        if end == profile.layers:
                            self._finish(following, microbatches)
                            continue
                        last = following.stages[-1]
                        place = (end, used + len(last.devices))
                        state = (len(last.devices), last.tensor)
                        _keep(fronts.setdefault(place, {}).setdefault(state, []), following)

    def _longer(
        self, partial: _Partial, done: int, free: tuple[int, ...], samples: int
    ) -> Iterator[_Partial]:
        """Yield what one more stage makes of a pipeline: on the first of the devices left."""
        machine, layers = self.machine, self.machine.profile.layers
        for tensor in machine.profile.degrees:
            for groups in range(1, min(samples, len(free) // tensor) + 1):
                devices = free[: groups * tensor]
                shares = machine.stage_shares(Stage(done, layers, devices, tensor), samples)
                if shares is None:
                    continue
                for end in range(done + 1, layers + 1):
                    stage = Stage(done, end, devices, tensor)
                    if not machine.fits(stage, shares):
                        break  # more layers need more
                    taken = max(share.seconds(done, end) for share in shares)
                    sent = (
                        machine.transfer_s(partial.stages[-1], stage, samples)
                        if partial.stages
                        else 0.0
                    )
                    yield _Partial(
                        (*partial.stages, stage),
                        partial.once_s + taken + sent,
                        max(partial.slowest_s, taken),
                        max(partial.update_s, machine.update_s(stage)),
                        max(partial.gradients_s, machine.gradients_s(stage)),
                    )

    def _rest_s(self, samples: int) -> list[tuple[float, float]] | None:
        """Return the least that layers from each on take, and the least of the longest of them.

        By any number of groups of a processor; None where no samples can be computed at all.
        """
        machine, profile = self.machine, self.machine.profile
        least = [math.inf] * profile.layers
        most_groups = min(samples, len(machine.processors))
        for processor, tensor in {(p, t) for p, t, _ in profile.runs}:
            for count in range(-(-samples // most_groups), samples + 1):
                runs = profile.slices(processor, tensor, count)
                for layer in range(profile.layers if runs else 0):
                    assert runs is not None
                    taken = sum(run.layer_s[layer] for run in runs)
                    least[layer] = min(least[layer], taken)
        if math.inf in least:
            return None
        return [(sum(least[n:]), max(least[n:], default=0.0)) for n in range(profile.layers + 1)]

    def _least_s(self, partial: _Partial, microbatches: int, rest: tuple[float, float]) -> float:
        slowest = max(partial.slowest_s, rest[1])
        return (
            (microbatches - 1) * slowest
            + partial.once_s
            + rest[0]
            + partial.update_s
            + partial.gradients_s
            + microbatches * self.machine.profile.batch_s
        )

    def _finish(self, partial: _Partial, microbatches: int) -> None:
        pipeline = Pipeline(microbatches, partial.stages)
        taken = step_time(self.machine.profile, self.machine.cluster, self.batch, pipeline).seconds
        if taken < self.best_s:
            self.best_s, self.best = taken, pipeline


def best_pipeline(profile: LayerProfile, cluster: Cluster, batch: int) -> PipelineSearch:
    """Return the pipeline that takes least for a batch, on devices that hold what it needs there.

    Not all devices have to take part. Raises ClusterError where the profile has no run on any of
    them, and PlanError where no pipeline was measured that fits.
    """
    if batch < 1:
        raise ClusterError(f"a batch of {batch} has no samples")
    machine = Machine(profile, cluster)
    kinds = sorted(set(machine.processors) & profile.processors)
    if len(kinds) > _MOST_PROCESSORS:
        raise ClusterError(
            f"{len(kinds)} kinds of processors: at most {_MOST_PROCESSORS} are tried"
        )
    search = _Search(machine, batch)
    counts = [count for count in range(1, batch + 1) if batch % count == 0]
    for kind_order in itertools.permutations(kinds):
        order = tuple(
            number
            for kind in kind_order
            for number, processor in enumerate(machine.processors)
            if processor == kind
        )
        for microbatches in counts:
            search.order(order, microbatches)
    if search.best is None:
        raise PlanError(
            f"no pipeline of the layers fits on the devices of {cluster.name}: take more of them, "
            "larger ones, or measure smaller microbatches"
        )
    taken = step_time(profile, cluster, batch, search.best)
    return PipelineSearch(search.best, taken, search.steps <= MOST_STEPS)


def _keep(front: list[_Partial], new: _Partial) -> None:
    """Add a pipeline unless another is at least as good in all parts; drop those it is that to."""
    parts = new.parts
    if any(all(a <= b for a, b in zip(candidate.parts, parts, strict=True)) for candidate in front):
        return
    front[:] = [
        candidate
        for candidate in front
        if not all(a <= b for a, b in zip(parts, candidate.parts, strict=True))
    ]
    front.append(new)
