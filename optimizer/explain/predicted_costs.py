"""What a learned model says of a model's kernels, beside what was measured: `explain --costs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...catalog import Catalog
from ...profiles.kernels.costs import CostModel
from ...profiles.learning.kernel_costs import KernelPredictor
from ...profiles.learning.predictor import CostPredictor, Neighbour, Prediction
from ...profiles.learning.samples.archive import CostGraph
from ...profiles.learning.samples.kernel_graphs import graph_of_kernel
from ...profiles.machine import load_machine
from .explain_model import kernels_of_model

if TYPE_CHECKING:
    from ..driver import Source


@dataclass(frozen=True)
class PredictedCost:
    """A kernel's predicted time in ns with its interval, and the measured one where there is one.

    `nearest` are the kernels that the model was trained on and that are most like it.
    """

    kernel: str
    calls: int
    predicted_ns: float
    least_ns: float
    most_ns: float
    measured_ns: float | None
    nearest: tuple[Neighbour, ...]

    @property
    def is_within(self) -> bool | None:
        """Say whether the measured time lies within the interval; None where there is none."""
        if self.measured_ns is None:
            return None
        return self.least_ns <= self.measured_ns <= self.most_ns


def predicted_costs(
    model: Source,
    predictor: CostPredictor | KernelPredictor,
    *,
    threads: int | None,
    input_shapes: Mapping[str, Sequence[int]] | None,
    catalog: Catalog,
) -> list[PredictedCost]:
    """Predict a model's kernels, those first that take most; nothing is measured or stored.

    `threads` is by default what the predictor was trained for. Measured times are those that
    `catalog` holds of this machine. Raises PredictorError for a predictor of other graphs, and as
    `explain_model` does.
    """
    used = int(predictor.metadata.get("threads", 1)) if threads is None else threads
    machine = load_machine(catalog)
    measured = CostModel(catalog, threads=used, measure=False)
    calls: Counter[str] = Counter()
    distinct = {}
    for _, kernel in kernels_of_model(model, input_shapes):
        if not kernel.is_constant:
            calls[kernel.hash] += 1
            distinct[kernel.hash] = kernel
    rows = []
    for key, kernel in distinct.items():
        graph = graph_of_kernel(kernel, "model", {(used, "all"): 1.0}, machine)
        predicted, nearest = _predicted(predictor, graph)
        cost = measured.cost(kernel)
        rows.append(
            PredictedCost(
                kernel.label(),
                calls[key],
                float(predicted.times_ns[0]),
                float(predicted.least_ns[0]),
                float(predicted.most_ns[0]),
                cost.ns if cost.source == "measured" else None,
                tuple(nearest),
            )
        )
    return sorted(rows, key=lambda row: (-row.calls * row.predicted_ns, row.kernel))


def _predicted(
    predictor: CostPredictor | KernelPredictor, graph: CostGraph
) -> tuple[Prediction, list[Neighbour]]:
    if isinstance(predictor, KernelPredictor):
        rows = predictor.example(graph)
        return predictor.predict(rows), predictor.nearest(rows)
    example = predictor.example(graph)
    return predictor.predict(example), predictor.nearest(example)
