"""What a model's kernels cost: measured, in several layouts, and as a learned model predicts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...catalog import Catalog
from ...catalog.errors import ModelError
from ...catalog.interruption import interruptible
from ...profiles.kernel import Kernel
from ...profiles.kernels.costs import CostModel
from ...profiles.kernels.profile import profile
from ...profiles.learning.kernel_costs import KernelPredictor
from ...profiles.learning.predictor import CostPredictor, Neighbour, Prediction
from ...profiles.learning.samples.archive import CostGraph
from ...profiles.learning.samples.kernel_graphs import graph_of_kernel
from ...profiles.machine import cores, load_machine
from ..graph.free_sizes import guesses
from ..graph.infer import bound_types
from ..layouts.assignments import MOST, assignments_of
from ..layouts.timed_assignments import BELOW_LAYOUTS, cost_graph, time_assignments
from ..phases import Progress
from ..price import Prices, kernels_of_graph
from ..setting import Setting
from .model_graph import read_graph

if TYPE_CHECKING:
    from ..driver import Source


def kernels_of_model(
    model: Source, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> list[tuple[str, Kernel]]:
    """Return (node name, kernel) for each node of a model whose tensors are all known.

    Raises ModelError for a model that can't be read, or where no shape is known.
    """
    with read_graph(model, input_shapes) as read:
        graph = read.graph
        kernels = kernels_of_graph(graph, bound_types(graph, next(guesses(graph, read.sizes))))
        if not kernels and graph.nodes:
            raise ModelError(
                "no shape in the model is known: give the shapes of its inputs with --input-shape"
            )
        return [(graph.node_name(number), kernel) for number, kernel in kernels.items()]


@interruptible()
def profile_model(
    model: Source,
    *,
    threads: int | None = None,
    budget: float = 30.0,
    level: str = "all",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    catalog: Catalog,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Measure a model's kernels, dearest first, for `budget` seconds; what is stored is reused.

    `level` is the runtime's optimization level, a key of `profiles.sessions.LEVELS`.
    Returns one row a kernel: kernel (a label), operator, calls, nodes, median_ns, spread_ns, source
    ("measured" or "bound"), failure. The model itself is not stored. Raises as `optimize` does.
    """
    setting = Setting(threads=cores() if threads is None else threads, budget=budget)
    kernels = kernels_of_model(model, input_shapes)
    tell = progress or (lambda phase, done, total, detail: None)
    result = profile(
        catalog,
        kernels,
        threads=setting.threads,
        budget_s=setting.budget,
        configuration=level,
        progress=lambda done, total, label: tell("measuring", done, total, label),
    )
    return [
        {
            "kernel": row.kernel.label(),
            "operator": row.kernel.op_type,
            "calls": row.count,
            "nodes": list(row.nodes),
            "median_ns": row.cost.ns,
            "spread_ns": row.cost.spread_ns,
            "source": row.cost.source,
            "failure": row.failure,
        }
        for row in result.kernels
    ]


def layouts_of_model(
    model: Source,
    name: str,
    *,
    threads: int | None,
    budget: float,
    catalog: Catalog,
    progress: Progress | None,
) -> CostGraph | None:
    """Run a model under assignments of layouts to its operators, in turns, for `budget` seconds.

    All assignments where there are at most 64, else so many drawn ones. Half of the time goes to
    the kernels that they are made of, which `catalog` keeps. Returns them with their times in ns,
    as a graph of TpuGraphs' layout collection; None where no operator may lie in blocks.
    Raises ModelError for a model that can't be read, or whose inputs have free sizes.
    """
    used = cores() if threads is None else threads
    tell = progress or (lambda phase, done, total, detail: None)
    with read_graph(model) as read:
        graph = read.graph
        for value in graph.graph_inputs:
            shape = graph.shape(value)
            if shape is None or not all(isinstance(size, int) for size in shape):
                raise ModelError(
                    f"input {graph.names[value]!r} has a free size: layouts are timed of models "
                    "whose inputs all have fixed ones"
                )
        costs = CostModel(catalog, threads=used, configuration=BELOW_LAYOUTS)
        assignments = assignments_of(graph, Prices(costs, budget_s=budget / 2))
        if assignments is None:
            return None
        tell("measuring", 0, 2, f"kernels in both layouts of {name}")
        assignments.measure()
        chosen = assignments.sample(MOST, seed=0)
        tell("measuring", 1, 2, f"{len(chosen)} assignments of layouts of {name}")
        timed = time_assignments(assignments, chosen, threads=used, budget_s=budget / 2)
        machine = load_machine(catalog)
        return cost_graph(name, assignments, chosen, timed.times_ns, machine, used)


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
