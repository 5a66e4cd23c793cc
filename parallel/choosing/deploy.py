"""Deploying a model on this machine: its batch axis, the best setting, and the folder.

In: a model's file, or a result of `tensolog optimize`. Out: a `Deployment`. Source of the question:
what people set by hand as instances, streams or sessions, threads in each, and batch sizes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...catalog import Catalog
from ...catalog.errors import ModelError, TensologError
from ...optimizer.result.summary import version_of
from ...profiles.machine import cores as usable_cores
from ...profiles.machine import identity
from ...profiles.sessions.deployed import MODEL, MODEL_FOLDER, model_file
from ...profiles.sessions.session import runtime_version
from ..deployment.deployment import (
    BatchAxis,
    Deployment,
    check_target,
    files_beside,
    read_deployment,
)
from ..deployment.deployment_rows import store_deployment
from ..deployment.settings import (
    GOALS,
    MOST_ROWS,
    Goal,
    Limit,
    LimitError,
    Measured,
    batch_ladder,
    read_limit,
    summarize,
)
from ..devices import Cluster
from ..runnable_plan import Slot
from ..serving.instance import Array
from .batches import drawn_feeds, find_batch_axis
from .choose import Choice, choose, thread_counts
from .ready_instances import Crews

if TYPE_CHECKING:
    from .over_devices import Divided

Progress = Callable[[str, int, int, str], None]
Shapes = Mapping[str, Sequence[int]]

BUDGET_S = 60.0
ORIGINAL, OPTIMIZED, REWRITTEN = "original", "optimized", "rewritten"
# A request waits for others at most so long, and at most half of what a batch takes.
_MOST_DELAY_MS = 5.0
_LEAST_DEADLINE_S, _DEADLINE_RUNS = 10.0, 100.0
# Batches that may wait for each instance before requests are held back.
_WAITING_BATCHES = 8
_FINAL_ROUNDS, _FINAL_S, _FINAL_RUNS = 5, 0.15, 3


def deploy(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    goal: str = "throughput",
    limits: Sequence[str] = (),
    cores: int | None = None,
    most_rows: int = MOST_ROWS,
    input_shapes: Shapes | None = None,
    budget: float = BUDGET_S,
    optimize: bool = False,
    devices: Cluster | Literal["auto"] | None = None,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> Deployment:
    """Choose how a model is served on this machine by measuring it, and write that as a folder.

    `model` is an ONNX file or a result of `optimize`; `output` the folder. `goal` is "throughput"
    or "latency"; `limits` are bounds such as "p99 < 50 ms". At most `cores` cores are used, never
    more than the affinity mask and the container allow; batches have at most `most_rows` rows.
    `input_shapes` gives free dimensions by input, `budget` is in seconds. With `optimize` the model
    is optimized for the number of threads chosen, in `catalog`, and the result taken where it wins.
    With `devices` it may be divided among processes that stand for them, here or in the workers of
    their cluster, at the sizes of
    `input_shapes`, see over_devices.py; the proofs of cuts are kept in `catalog`, as is what was
    measured and chosen. "auto" weighs that against instances, over processes of this machine as
    `catalog` knows them, measured first where it does not.
    Raises ModelError, LimitError where no setting keeps the limits, DeploymentError where the
    folder can't be written.
    """
    if goal not in GOALS:
        raise LimitError(f"unknown goal {goal!r}; known: {', '.join(GOALS)}")
    wanted: Goal = "throughput" if goal == "throughput" else "latency"
    bounds = [read_limit(text) for text in limits]
    if most_rows < 1:
        raise LimitError(f"a batch has at least 1 row, not {most_rows}")
    allowed = usable_cores()
    if cores is not None and not 1 <= cores <= allowed:
        raise LimitError(f"{cores} cores can't be used: this process may use {allowed}")
    if cores is not None and devices == "auto":
        raise LimitError("devices='auto' weighs processes on all cores: leave cores away")
    target = check_target(Path(output))
    source = Path(model)
    file = model_file(source)
    files_beside(file)  # refuses what is no model
    start = time.monotonic()
    asked = _Question(
        wanted, bounds, cores or allowed, most_rows, input_shapes or {}, budget, progress
    )
    if devices == "auto":
        return _weighed(asked, source, target, catalog)
    if devices is not None:
        return _divided(asked, devices, source, target, catalog)
    plan = _whole(asked, source, file, target, start, catalog, optimize=optimize)
    if catalog is not None:
        store_deployment(catalog, plan, source)
    return plan


def _whole(
    asked: _Question,
    source: Path,
    file: Path,
    target: Path,
    start: float,
    catalog: Catalog | None,
    *,
    optimize: bool,
) -> Deployment:
    """Deploy instances of the whole model, or of what it is optimized to."""
    best = asked.answer(source, ORIGINAL)
    if not optimize:
        return _written(asked, best, source, target, time.monotonic() - start)
    with tempfile.TemporaryDirectory(prefix="tensolog-deploy-") as folder:
        place = Path(folder) / MODEL_FOLDER
        if asked.optimize(file, best, place, catalog):
            rival = asked.answer(place, OPTIMIZED)
            if asked.beats(rival, best):
                return _written(asked, rival, place, target, time.monotonic() - start)
            why = "the optimized model was not better, measured in turns: the original is deployed"
        else:
            why = "nothing that was tried is faster than the original"
        best.choice.reasons.append(why)
        return _written(asked, best, source, target, time.monotonic() - start)


@dataclass
class _Answer:
    """A model, what it takes and gives, and the setting that is best for it."""

    model: Path
    variant: str
    axis: BatchAxis
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    choice: Choice


@dataclass
class _Question:
    """What is to be chosen by, and how to measure."""

    goal: Goal
    limits: list[Limit]
    cores: int
    most_rows: int
    shapes: Shapes
    budget_s: float
    progress: Progress | None

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Give the shapes that were asked for, by input."""
        return {name: tuple(shape) for name, shape in self.shapes.items()}

    def answer(self, model: Path, variant: str) -> _Answer:
        """Measure a model and choose its setting."""
        self.tell("opening", str(model))
        with Crews(model_file(model), self.cores) as crews:
            instance = crews.first()
            crews.prepare(thread_counts(self.cores))
            for slot in instance.outputs:
                if not slot.dtype:
                    raise ModelError(
                        f"the output {slot.name!r} is no tensor of a type that numpy has: it can't "
                        "be served"
                    )
            sizes = self.sizes
            feeds = drawn_feeds(instance.inputs, sizes, None)
            self.tell("checking the batch", str(model))
            axis = find_batch_axis(instance, sizes)
            if not axis.is_free:
                given = next((array for array in feeds.values() if array.ndim), None)
                axis = replace(axis, rows=1 if given is None else given.shape[0] or 1)
            crews.feeds_of = _feeds_of(instance.inputs, sizes, axis)
            choice = choose(
                crews,
                self.cores,
                batch_ladder(axis.is_free, axis.rows, self.most_rows),
                self.goal,
                self.limits,
                budget_s=self.budget_s,
                tell=self.progress,
            )
            return _Answer(model, variant, axis, instance.inputs, instance.outputs, choice)

    def optimize(self, file: Path, best: _Answer, place: Path, catalog: Catalog | None) -> bool:
        """Optimize the model for the threads and rows chosen; tell whether that gave another."""
        # The optimizer is loaded where a model is to be optimized.
        from ...optimizer import ORIGINAL as UNCHANGED
        from ...optimizer import optimize

        setting = best.choice.chosen.setting
        rows = setting.batch if best.axis.is_free else None
        feeds = drawn_feeds(best.inputs, self.sizes, rows)
        result = optimize(
            file,
            threads=setting.threads,
            budget=self.budget_s,
            input_shapes={name: array.shape for name, array in feeds.items() if array.ndim},
            catalog=catalog,
            progress=self.progress,
        )
        if result.chosen == UNCHANGED:
            return False
        result.save(place)
        return True

    def beats(self, rival: _Answer, holder: _Answer) -> bool:
        """Time the best settings of two models in turns; tell whether the first one is better."""
        rounds: list[list[list[list[float]]]] = [[], []]
        answers = (rival, holder)
        settings = [answer.choice.chosen.setting for answer in answers]
        with (
            Crews(model_file(rival.model), self.cores) as first,
            Crews(model_file(holder.model), self.cores) as second,
        ):
            for crews, answer in zip((first, second), answers, strict=True):
                crews.feeds_of = _feeds_of(answer.inputs, self.sizes, answer.axis)
            for number in range(_FINAL_ROUNDS):
                order = [(0, first), (1, second)]
                for side, crews in order if number % 2 else order[::-1]:
                    self.tell("comparing with the original", answers[side].variant)
                    rounds[side].append(crews.time(settings[side], _FINAL_S, _FINAL_RUNS))
            memory = [c.memory_bytes(s) for c, s in zip((first, second), settings, strict=True)]
        timed = [summarize(*entry) for entry in zip(settings, rounds, memory, strict=True)]
        if not all(limit.holds(timed[0]) for limit in self.limits):
            return False
        if self.goal == "latency":
            return timed[0].p50_ms < 0.99 * timed[1].p50_ms
        return timed[0].rows_per_s > 1.01 * timed[1].rows_per_s

    def tell(self, phase: str, detail: str) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(phase, 0, 0, detail)


def _feeds_of(
    inputs: Sequence[Slot], sizes: Mapping[str, tuple[int, ...]], axis: BatchAxis
) -> Callable[[int], Mapping[str, Array]]:
    return cache(lambda rows: drawn_feeds(inputs, sizes, rows if axis.is_free else None))


def _written(
    asked: _Question, answer: _Answer, source: Path, target: Path, seconds: float
) -> Deployment:
    """Make the plan of an answer, write it, and read what was written."""
    choice, chosen = answer.choice, answer.choice.chosen
    waiting = _WAITING_BATCHES * chosen.setting.instances
    plan = Deployment(
        model=f"{MODEL_FOLDER}/{MODEL}",
        goal=asked.goal,
        limits=tuple(limit.text for limit in asked.limits),
        setting=chosen.setting,
        batch=answer.axis,
        delay_ms=_delay_ms(asked, answer),
        queue=waiting * (chosen.setting.batch if answer.axis.is_free else 1),
        deadline_s=_deadline_s(chosen),
        inputs=answer.inputs,
        outputs=answer.outputs,
        chosen=chosen,
        baseline=choice.baseline,
        measured=tuple(choice.measured),
        reasons=(*choice.reasons, f"batches: {answer.axis.reason}"),
        complete=choice.complete,
        variant=answer.variant,
        machine=_machine(asked.cores),
        versions=_versions(),
        measuring_s=round(seconds, 3),
    )
    return read_deployment(plan.write(source, target))


def _weighed(asked: _Question, source: Path, target: Path, catalog: Catalog | None) -> Deployment:
    """Deploy instances, or a plan of cuts over processes of this machine where that is better.

    A divided model takes requests of one size: it is chosen where no size is free.
    """
    # The search for plans is loaded where one is asked for.
    from ..measure import this_machine
    from .over_devices import choose_over_devices

    start = time.monotonic()
    best = asked.answer(source, ORIGINAL)
    setting, reasons = best.choice.chosen.setting, best.choice.reasons
    asked.tell("measuring processes", "this machine")
    devices = this_machine(catalog)
    feeds = drawn_feeds(best.inputs, asked.sizes, setting.batch if best.axis.is_free else None)
    try:
        choice = choose_over_devices(
            source,
            devices,
            asked.goal,
            asked.limits,
            {name: array.shape for name, array in feeds.items() if array.ndim},
            budget_s=asked.budget_s,
            catalog=catalog,
            tell=asked.tell,
            instances=(setting,),
        )
    except TensologError as error:  # the model as it is can be served, whatever a plan lacks
        reasons.append(f"no plan of cuts could be weighed: {error}")
    else:
        over = f"over {len(devices.devices)} processes"
        is_fixed = all(
            isinstance(size, int) or slot.name in asked.shapes
            for slot in best.inputs
            for size in slot.shape
        )
        if choice.parted is not None and is_fixed:
            return _write_divided(
                asked, choice, devices, source, target, catalog, time.monotonic() - start
            )
        if choice.parted is not None:
            reasons.append(
                f"{over} {choice.chosen.setting.plan} is better for requests of "
                f"{choice.rows} rows, but serves no others: give sizes with --input-shape to have "
                "it"
            )
        reasons += [f"{over}: {reason}" for reason in choice.reasons if "each " in reason]
        if not any(entry.setting.plan for entry in choice.measured):
            reasons.append(f"{over}: the search divides nothing, as dividing only costs")
    plan = _written(asked, best, source, target, time.monotonic() - start)
    if catalog is not None:
        store_deployment(catalog, plan, source)
    return plan


def _divided(
    asked: _Question, devices: Cluster, source: Path, target: Path, catalog: Catalog | None
) -> Deployment:
    """Deploy over several devices: choose, write, and read what was written."""
    # The search for plans is loaded where there are several devices.
    from .over_devices import choose_over_devices

    start = time.monotonic()
    choice = choose_over_devices(
        source,
        devices,
        asked.goal,
        asked.limits,
        asked.shapes,
        budget_s=asked.budget_s,
        catalog=catalog,
        tell=asked.tell,
    )
    seconds = time.monotonic() - start
    return _write_divided(asked, choice, devices, source, target, catalog, seconds)


def _write_divided(
    asked: _Question,
    divided: Divided,
    devices: Cluster,
    source: Path,
    target: Path,
    catalog: Catalog | None,
    seconds: float,
) -> Deployment:
    # As the search for plans.
    from ..plan_rows import store_plan

    setting = divided.chosen.setting
    partition = None if divided.parted is None else divided.parted.partition
    lanes = 1 if partition is None else partition.slots
    plan = Deployment(
        model=f"{MODEL_FOLDER}/{MODEL}",
        goal=asked.goal,
        limits=tuple(limit.text for limit in asked.limits),
        setting=setting,
        batch=BatchAxis(
            False, "what is deployed over devices has the sizes planned for", divided.rows
        ),
        delay_ms=0.0,
        queue=_WAITING_BATCHES * setting.instances * lanes,
        deadline_s=_deadline_s(divided.chosen),
        inputs=divided.inputs,
        outputs=divided.outputs,
        chosen=divided.chosen,
        baseline=divided.baseline,
        measured=tuple(divided.measured),
        reasons=tuple(divided.reasons),
        complete=divided.complete,
        variant=REWRITTEN if divided.is_rewritten else ORIGINAL,
        machine=_machine(
            sum(device.cores for device in devices.devices), devices.name * bool(devices.scheduler)
        ),
        versions=_versions(),
        measuring_s=round(seconds, 3),
        partition=partition,
        remote=divided.remote,
        timeline=divided.timeline,
    )
    written = read_deployment(plan.write(source, target, divided.parted))
    if catalog is not None:
        placement = None
        if divided.plan is not None and divided.plan.name == setting.plan:
            placement = store_plan(catalog, divided.plan, source.name)
        store_deployment(catalog, written, source, placement)
    return written


def _machine(cores: int, name: str = "") -> dict[str, Any]:
    here = identity()
    return {
        "name": name or here.name,
        "cores": cores,
        "memory_bytes": here.memory_bytes,
        "fingerprint": here.fingerprint,
    }


def _versions() -> dict[str, Any]:
    return {"tensolog": version_of("tensolog"), "onnxruntime": runtime_version()}


def _deadline_s(chosen: Measured) -> float:
    return max(_LEAST_DEADLINE_S, _DEADLINE_RUNS * chosen.p99_ms / 1e3)


def _delay_ms(asked: _Question, answer: _Answer) -> float:
    """Say how long a request may wait for others: within what limits leave of the time."""
    chosen = answer.choice.chosen
    if not answer.axis.is_free or chosen.setting.batch == 1:
        return 0.0
    delay = min(_MOST_DELAY_MS, chosen.p50_ms / 2)
    for limit in asked.limits:
        if limit.is_time:
            delay = min(delay, limit.value - float(getattr(chosen, limit.field)))
    return round(max(0.0, delay), 3)
