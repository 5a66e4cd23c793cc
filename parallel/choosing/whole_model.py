"""The best setting of instances of a model, and of what it is optimized to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...catalog import Catalog
from ...catalog.errors import ModelError
from ...profiles.sessions.deployed import MODEL_FOLDER, model_file
from ..deployment.deployment import BatchAxis
from ..deployment.settings import batch_ladder, summarize
from ..runnable_plan import Slot
from ..serving.instance import Array
from .batches import drawn_feeds, find_batch_axis
from .choose import choose, thread_counts
from .ready_instances import Crews
from .served_model import OPTIMIZED, Requirements, ServedModel

_FINAL_ROUNDS, _FINAL_S, _FINAL_RUNS = 5, 0.15, 3


def choose_instances(asked: Requirements, model: Path, variant: str) -> ServedModel:
    """Measure a model, or a result's folder, and choose its setting.

    Raises ModelError for a model that can't be opened or served, LimitError where no setting keeps
    the limits.
    """
    asked.tell("opening", str(model))
    with Crews(model_file(model), asked.cores) as crews:
        instance = crews.first()
        crews.prepare(thread_counts(asked.cores))
        for slot in instance.outputs:
            if not slot.dtype:
                raise ModelError(
                    f"the output {slot.name!r} is no tensor of a type that numpy has: it can't "
                    "be served"
                )
        feeds = drawn_feeds(instance.inputs, asked.sizes, None)
        asked.tell("checking the batch", str(model))
        axis = find_batch_axis(instance, asked.sizes)
        if not axis.is_free:
            batched_feed = next((array for array in feeds.values() if array.ndim), None)
            axis = replace(axis, rows=1 if batched_feed is None else batched_feed.shape[0] or 1)
        crews.feeds_of = _feeds_of(instance.inputs, asked.sizes, axis)
        choice = choose(
            crews,
            asked.cores,
            batch_ladder(axis.is_free, axis.rows, asked.most_rows),
            asked.goal,
            asked.limits,
            budget_s=asked.budget_s,
            tell=asked.progress,
        )
        return ServedModel(model, variant, axis, instance.inputs, instance.outputs, choice)


def better_optimized(
    asked: Requirements, original: ServedModel, folder: Path, catalog: Catalog | None
) -> ServedModel:
    """Optimize a model into a folder; return that, or the original with the reason why not."""
    place = folder / MODEL_FOLDER
    if _optimized(asked, original, place, catalog):
        rival = choose_instances(asked, place, OPTIMIZED)
        if _beats(asked, rival, original):
            return rival
        why = "the optimized model was not better, measured in turns: the original is deployed"
    else:
        why = "nothing that was tried is faster than the original"
    original.choice.reasons.append(why)
    return original


def request_shapes(asked: Requirements, served: ServedModel) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs of the batch that was chosen."""
    rows = served.choice.chosen.setting.batch if served.axis.is_free else None
    feeds = drawn_feeds(served.inputs, asked.sizes, rows)
    return {name: array.shape for name, array in feeds.items() if array.ndim}


def _optimized(
    asked: Requirements, original: ServedModel, place: Path, catalog: Catalog | None
) -> bool:
    """Optimize the model for the threads and rows chosen; tell whether that gave another."""
    # The optimizer is loaded where a model is to be optimized.
    from ...optimizer import ORIGINAL as UNCHANGED
    from ...optimizer import optimize

    result = optimize(
        model_file(original.model),
        threads=original.choice.chosen.setting.threads,
        budget=asked.budget_s,
        input_shapes=request_shapes(asked, original),
        catalog=catalog,
        progress=asked.progress,
    )
    if result.chosen == UNCHANGED:
        return False
    result.save(place)
    return True


def _beats(asked: Requirements, rival: ServedModel, holder: ServedModel) -> bool:
    """Time the best settings of two models in turns; tell whether the first one is better."""
    rounds: list[list[list[list[float]]]] = [[], []]
    models = (rival, holder)
    settings = [served.choice.chosen.setting for served in models]
    with (
        Crews(model_file(rival.model), asked.cores) as first,
        Crews(model_file(holder.model), asked.cores) as second,
    ):
        for crews, served in zip((first, second), models, strict=True):
            crews.feeds_of = _feeds_of(served.inputs, asked.sizes, served.axis)
        for number in range(_FINAL_ROUNDS):
            order = [(0, first), (1, second)]
            for side, crews in order if number % 2 else order[::-1]:
                asked.tell("comparing with the original", models[side].variant)
                rounds[side].append(crews.time(settings[side], _FINAL_S, _FINAL_RUNS))
        memory = [c.memory_bytes(s) for c, s in zip((first, second), settings, strict=True)]
    timed = [summarize(*entry) for entry in zip(settings, rounds, memory, strict=True)]
    if not all(limit.holds(timed[0]) for limit in asked.limits):
        return False
    if asked.goal == "latency":
        return timed[0].p50_ms < 0.99 * timed[1].p50_ms
    return timed[0].rows_per_s > 1.01 * timed[1].rows_per_s


def _feeds_of(
    inputs: Sequence[Slot], sizes: Mapping[str, tuple[int, ...]], axis: BatchAxis
) -> Callable[[int], Mapping[str, Array]]:
    return cache(lambda rows: drawn_feeds(inputs, sizes, rows if axis.is_free else None))
