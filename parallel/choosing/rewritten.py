"""A plan of a rewritten model, compared with the model before it is served.

Rules and cuts are proved, but for finite numbers some of them, and nobody has proved the code that
applies them: so what comes out is run beside the model, on numbers drawn at random, NaN and
infinities among them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import onnx

from ...optimizer.race.isolated_run import is_risky
from ...optimizer.race.verify import Verifier, failures
from ...profiles.kernel import numpy_dtype
from ...profiles.sessions.feeds import DISTRIBUTIONS, NONFINITE, random_feeds
from ..materialization import materialize
from ..planning import ParallelPlan
from ..runnable_plan import Slot
from ..workload import Workload

# A model is written as one file in which all weights are that rules changed; the format has no room
# for more.
_MOST_BYTES = 1_800_000_000


def why_as_it_is(workload: Workload) -> str:
    """Say why a model is not rewritten; "" where it may be."""
    if workload.constant_bytes > _MOST_BYTES:
        return "its weights are too many to compare what comes out with it"
    if is_risky(workload.graph, workload.graph.types):
        return "numbers drawn at random may end the process that runs it"
    return ""


def sizes_of(slot: Slot) -> tuple[int, ...]:
    """Return the shape of what a model takes at known sizes."""
    return tuple(size for size in slot.shape if isinstance(size, int))


def difference(
    model: Path, plan: ParallelPlan, inputs: Sequence[Slot], folder: Path, *, limit_s: float
) -> str:
    """Say where a plan computes something else than the model; "" where it doesn't.

    `folder` has what the model has beside it.
    """
    typed = {slot.name: (slot.dtype, sizes_of(slot)) for slot in inputs}
    is_float = any(numpy_dtype(dtype).kind == "f" for dtype, _ in typed.values())
    chosen = (*DISTRIBUTIONS[:2], *(NONFINITE if is_float else ()))
    feeds = {name: random_feeds(typed, name) for name in chosen}
    candidate = folder / "rewritten.onnx"
    onnx.save(materialize(plan.problem, plan.instances[0].plan).model, candidate)
    verifier = None
    try:
        verifier = Verifier(model, feeds, threads=1, end=time.monotonic() + limit_s)
        return "; ".join(failures(verifier.deviations(plan.name, candidate)))
    except Exception as error:  # whatever the runtime raises, the plan can't be used
        return f"it could not be compared with the model: {error}"
    finally:
        candidate.unlink()
        if verifier is not None:
            verifier.close()
