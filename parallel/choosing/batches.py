"""Whether requests may be joined to a batch: is there a free axis, and do its rows stay apart?

What a model's types say is not enough: a softmax over the batch, or a normalization by its mean,
has a free axis as well. So rows are run together and alone, and must come out alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...catalog.errors import ModelError
from ...profiles.sessions.feeds import random_feeds
from ..deployment.deployment import BatchAxis
from ..runnable_plan import Slot
from ..serving.instance import Array, Instance
from ..serving.process import RunError

# Free sizes that nobody gave: enough to be no special case, little enough to be quick.
DEFAULT_SIZE = 16
_ROWS = 3
# Kernels for other sizes sum in another order; a mean over the batch differs by far more.
_TOLERANCE = 1e-3
_LIMIT_S = 600.0


def drawn_feeds(
    inputs: Sequence[Slot],
    shapes: Mapping[str, tuple[int, ...]],
    rows: int | None,
    seed: int = 0,
) -> dict[str, Array]:
    """Draw a request: free sizes as `shapes` gives them by input, the first axis of `rows` rows.

    Raises ModelError for an input that can't be drawn, or that has another shape.
    """
    names = {slot.name for slot in inputs}
    for name in shapes:
        if name not in names:
            known = ", ".join(sorted(names))
            raise ModelError(f"--input-shape names {name!r}: the model's inputs are {known}")
    bound: dict[str, int] = {}
    for slot in inputs:
        if slot.name not in shapes:
            continue
        bound_shape = shapes[slot.name]
        if len(bound_shape) != len(slot.shape) or any(
            isinstance(size, int) and size != value
            for size, value in zip(slot.shape, bound_shape, strict=False)
        ):
            raise ModelError(
                f"--input-shape gives {slot.name!r} the shape {list(bound_shape)}: it has "
                f"{[size or '?' for size in slot.shape]}"
            )
        bound |= {
            size: value
            for size, value in zip(slot.shape, bound_shape, strict=True)
            if isinstance(size, str)
        }
    wanted = {}
    for slot in inputs:
        if not slot.dtype:
            raise ModelError(
                f"the input {slot.name!r} is no tensor of a type that numpy has: it can't be served"
            )
        shape = [
            size if isinstance(size, int) else bound.get(size or "", DEFAULT_SIZE)
            for size in slot.shape
        ]
        shape = list(shapes.get(slot.name, shape))
        if rows is not None and shape:
            shape[0] = rows
        wanted[slot.name] = (slot.dtype, tuple(shape))
    return random_feeds(wanted, seed=seed)


def find_batch_axis(instance: Instance, shapes: Mapping[str, tuple[int, ...]]) -> BatchAxis:
    """Tell whether requests to a model may be joined, by what an instance of it computes."""
    inputs = instance.inputs
    if reason := _bar(inputs, instance.outputs):
        batch_size = inputs[0].shape[0] if inputs and inputs[0].shape else 1
        return BatchAxis(False, reason, batch_size if isinstance(batch_size, int) else 1)
    whole = drawn_feeds(inputs, shapes, _ROWS)
    try:
        together = _outputs(instance, whole)
        alone = [
            _outputs(instance, {name: array[row : row + 1] for name, array in whole.items()})
            for row in range(_ROWS)
        ]
    except RunError as error:
        return BatchAxis(False, f"it does not run with {_ROWS} rows: {error}")
    for name, array in together.items():
        if array.ndim == 0 or array.shape[0] != _ROWS:
            return BatchAxis(False, f"the output {name!r} has no row for each of the batch")
        rows = [single[name] for single in alone]
        if any(row.shape != (1, *array.shape[1:]) for row in rows):
            return BatchAxis(False, f"the output {name!r} has another shape for a single row")
        if not _alike(array, np.concatenate(rows)):
            return BatchAxis(False, f"rows of a batch influence each other in {name!r}")
    return BatchAxis(True, "rows of a batch come out as they do alone")


def _bar(inputs: Sequence[Slot], outputs: Sequence[Slot]) -> str:
    """Say what rules a free batch out by the types alone."""
    if not inputs:
        return "the model has no inputs"
    for slot in inputs:
        if not slot.shape:
            return f"the input {slot.name!r} is a single number"
        if isinstance(slot.shape[0], int):
            return f"the first axis of {slot.name!r} is always {slot.shape[0]}"
    if len(names := {slot.shape[0] for slot in inputs} - {None}) > 1:
        return f"the inputs have several free first axes: {', '.join(sorted(map(str, names)))}"
    for slot in outputs:
        if isinstance(slot.shape[0] if slot.shape else 0, int) and slot.shape:
            return f"the first axis of the output {slot.name!r} is always {slot.shape[0]}"
    return ""


def _outputs(instance: Instance, feeds: Mapping[str, Array]) -> dict[str, Array]:
    outputs = instance.run({name: [array] for name, array in feeds.items()}, _LIMIT_S)
    return {name: array.copy() for name, array in outputs.items()}


def _alike(left: Array, right: Array) -> bool:
    if left.dtype.kind not in "fc":
        return bool(np.array_equal(left, right))
    scale = np.max(np.abs(right[np.isfinite(right)]), initial=0.0)
    tolerance = _TOLERANCE * float(scale)
    return bool(np.allclose(left, right, rtol=_TOLERANCE, atol=tolerance, equal_nan=True))
