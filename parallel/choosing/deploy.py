"""Deploying a model on this machine: what is chosen, and the folder that is written.

In: a model's file, or a result of `tensolog optimize`. Out: a `Deployment`. Source of the question:
what people set by hand as instances, streams or sessions, threads in each, and batch sizes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ...catalog import Catalog
from ...catalog.errors import TensologError
from ...optimizer.result.summary import version_of
from ...profiles.machine import cores as usable_cores
from ...profiles.machine import identity
from ...profiles.sessions.deployed import MODEL, MODEL_FOLDER, model_file
from ...profiles.sessions.session import runtime_version
from ..deployment.deployment import Deployment, check_target, files_beside, read_deployment
from ..deployment.deployment_rows import store_deployment
from ..deployment.settings import GOALS, MOST_ROWS, Goal, LimitError, Measured, read_limit
from ..devices import Cluster
from .served_model import ORIGINAL, Progress, Requirements, ServedModel, Shapes
from .whole_model import better_optimized, choose_instances, request_shapes

BUDGET_S = 60.0
# A request waits for others at most so long, and at most half of what a batch takes.
_MOST_DELAY_MS = 5.0
_LEAST_DEADLINE_S, _DEADLINE_RUNS = 10.0, 100.0
# Batches that may wait for each instance before requests are held back.
_WAITING_BATCHES = 8


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
    bounds = tuple(read_limit(text) for text in limits)
    if most_rows < 1:
        raise LimitError(f"a batch has at least 1 row, not {most_rows}")
    allowed = usable_cores()
    if cores is not None and not 1 <= cores <= allowed:
        raise LimitError(f"{cores} cores can't be used: this process may use {allowed}")
    if cores is not None and devices == "auto":
        raise LimitError("devices='auto' weighs processes on all cores: leave cores away")
    target = check_target(Path(output))
    source = Path(model)
    files_beside(model_file(source))  # refuses what is no model
    start = time.monotonic()
    asked = Requirements(
        wanted, bounds, cores or allowed, most_rows, input_shapes or {}, budget, progress
    )
    with tempfile.TemporaryDirectory(prefix="tensolog-deploy-") as folder:
        if devices == "auto":
            served = _weighed(asked, source, catalog)
        elif devices is not None:
            # The search for plans is loaded where there are several devices.
            from .over_devices import choose_over_devices

            served = choose_over_devices(asked, source, devices, catalog)
        else:
            served = choose_instances(asked, source, ORIGINAL)
            if optimize:
                served = better_optimized(asked, served, Path(folder), catalog)
        written = _written(asked, served, target, time.monotonic() - start)
    if catalog is not None:
        store_deployment(catalog, written, source, _stored_plan(catalog, served, source))
    return written


def _weighed(asked: Requirements, source: Path, catalog: Catalog | None) -> ServedModel:
    """Choose instances, or a plan of cuts over processes of this machine where that is better.

    A divided model takes requests of one size: it is chosen where no size is free.
    """
    # The search for plans is loaded where one is asked for.
    from ..measure import this_machine
    from .over_devices import choose_over_devices

    whole = choose_instances(asked, source, ORIGINAL)
    reasons = whole.choice.reasons
    asked.tell("measuring processes", "this machine")
    devices = this_machine(catalog)
    try:
        over = choose_over_devices(
            replace(asked, shapes=request_shapes(asked, whole)),
            source,
            devices,
            catalog,
            instances=(whole.choice.chosen.setting,),
        )
    except TensologError as error:  # the model as it is can be served, whatever a plan lacks
        reasons.append(f"no plan of cuts could be weighed: {error}")
        return whole
    where = f"over {len(devices.devices)} processes"
    if over.division is not None:
        is_fixed = all(
            isinstance(size, int) or slot.name in asked.shapes
            for slot in whole.inputs
            for size in slot.shape
        )
        if is_fixed:
            return over
        reasons.append(
            f"{where} {over.choice.chosen.setting.plan} is better for requests of "
            f"{over.axis.rows} rows, but serves no others: give sizes with --input-shape to have it"
        )
    reasons += [f"{where}: {reason}" for reason in over.choice.reasons if "each " in reason]
    if not any(entry.setting.plan for entry in over.choice.measured):
        reasons.append(f"{where}: the search divides nothing, as dividing only costs")
    return whole


def _written(asked: Requirements, served: ServedModel, target: Path, seconds: float) -> Deployment:
    """Make the plan of what was chosen, write it, and read what was written."""
    choice, division, devices = served.choice, served.division, served.devices
    chosen = choice.chosen
    parted = None if division is None else division.parted
    # What may wait for each instance: rows of batches, or requests of its lanes.
    of_instance = chosen.setting.batch if served.axis.is_free else 1
    if parted is not None:
        of_instance = parted.partition.slots
    reasons = tuple(choice.reasons)
    if devices is None:
        reasons = (*reasons, f"batches: {served.axis.reason}")
    plan = Deployment(
        model=f"{MODEL_FOLDER}/{MODEL}",
        goal=asked.goal,
        limits=tuple(limit.text for limit in asked.limits),
        setting=chosen.setting,
        batch=served.axis,
        delay_ms=_delay_ms(asked, served),
        queue=_WAITING_BATCHES * chosen.setting.instances * of_instance,
        deadline_s=_deadline_s(chosen),
        inputs=served.inputs,
        outputs=served.outputs,
        chosen=chosen,
        baseline=choice.baseline,
        measured=tuple(choice.measured),
        reasons=reasons,
        complete=choice.complete,
        variant=served.variant,
        machine=_machine(asked.cores, devices),
        versions={"tensolog": version_of("tensolog"), "onnxruntime": runtime_version()},
        measuring_s=round(seconds, 3),
        partition=None if parted is None else parted.partition,
        remote=None if division is None else division.remote,
        timeline=None if division is None else division.timeline(),
    )
    return read_deployment(plan.write(served.model, target, parted))


def _stored_plan(catalog: Catalog, served: ServedModel, source: Path) -> str | None:
    """Store the plan that the search found for what is served; return its key, None for none."""
    division = served.division
    if division is None or division.source is None:
        return None
    if division.source.name != served.choice.chosen.setting.plan:
        return None
    # As the search for plans.
    from ..plan_rows import store_plan

    return store_plan(catalog, division.source, source.name)


def _machine(cores: int, devices: Cluster | None) -> dict[str, Any]:
    here, name = identity(), ""
    if devices is not None:
        cores = sum(device.cores for device in devices.devices)
        name = devices.name * bool(devices.scheduler)
    return {
        "name": name or here.name,
        "cores": cores,
        "memory_bytes": here.memory_bytes,
        "fingerprint": here.fingerprint,
    }


def _deadline_s(chosen: Measured) -> float:
    return max(_LEAST_DEADLINE_S, _DEADLINE_RUNS * chosen.p99_ms / 1e3)


def _delay_ms(asked: Requirements, served: ServedModel) -> float:
    """Say how long a request may wait for others: within what limits leave of the time."""
    chosen = served.choice.chosen
    if not served.axis.is_free or chosen.setting.batch == 1:
        return 0.0
    delay = min(_MOST_DELAY_MS, chosen.p50_ms / 2)
    for limit in asked.limits:
        if limit.is_time:
            delay = min(delay, limit.value - float(getattr(chosen, limit.field)))
    return round(max(0.0, delay), 3)
