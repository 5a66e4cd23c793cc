"""Times of kernels that nobody measured here, with intervals: what ships, adapted to this machine.

The bound is corrected by boosted trees (`kernel_trees.py` makes them); ONNX Runtime executes these.
What was measured on this machine moves the predictions of kernels like it, and narrows their
intervals (`adaptation.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..kernel import Kernel
from ..kernels.costs import Cost
from ..machine import Machine, processor_class
from .adaptation import Adaptation, Spread
from .predictor import (
    CostPredictor,
    Neighbour,
    Prediction,
    PredictorError,
    nearest_of,
    open_trained,
)
from .samples.archive import CostGraph
from .samples.kernel_graphs import LEVEL_NAMES, graph_of_kernel
from .samples.kernel_rows import COLUMNS, TELLING, KernelRows, kernel_rows
from .training.kernel_trees import FORMAT, KIND, table

Array = np.ndarray[Any, Any]

# The factor of an interval of which nothing is known; JSON has no infinity.
_ANYTHING = 1e9
# Measured kernels that predictions are adapted to: the newest ones, since work grows with the cube.
_MOST_LEARNED = 256


class KernelPredictor:
    """Boosted trees over the bound of a kernel, as `tensolog costs train` writes them."""

    def __init__(self, model: bytes | Path) -> None:
        """Load a model; raises PredictorError for a file that is none."""
        name = str(model) if isinstance(model, Path) else "the model"
        try:
            self._session, self.metadata = open_trained(model)
            is_readable = (self.metadata["kind"], self.metadata["format"]) == (KIND, FORMAT)
            is_readable &= self.metadata["columns"] == list(COLUMNS)
            self.operators = np.array(self.metadata["operators"], np.int64)
            self.spread = Spread(**self.metadata["spread"])
            self.factor = float(self.metadata["interval"]["factor"])
        except OSError:
            raise
        except Exception as error:  # whatever ONNX Runtime raises for what is no model
            raise PredictorError(
                f"{name} is no model of costs of kernels: make one with tensolog costs train"
            ) from error
        if not is_readable:
            raise PredictorError(
                f"{name} is of another format: train it anew with tensolog costs train"
            )

    def example(self, graph: CostGraph) -> KernelRows:
        """Describe the graph of a kernel; PredictorError for one of an operator it doesn't know."""
        rows = kernel_rows(graph)
        if rows is None:
            raise PredictorError(
                f"{graph.path} is no kernel, and the model knows nothing else: train one with "
                "--kind network"
            )
        return rows

    def knows(self, example: KernelRows) -> bool:
        """Say whether it was trained on kernels of the same operator."""
        return bool(np.isin(example.opcode, self.operators))

    def predict(self, example: KernelRows) -> Prediction:
        """Predict the time of each configuration of a kernel."""
        logs = self.logs([example])
        times = np.exp(logs)
        factor = self.factor if self.knows(example) else _ANYTHING
        return Prediction(times, times / factor, times * factor)

    def logs(self, examples: Sequence[KernelRows]) -> Array:
        """Return log(time in ns) of all configurations of kernels, one after the other."""
        if not examples:
            return np.empty(0)
        rows = table(examples, self.operators)
        (corrections,) = self._session.run(None, {"rows": rows})
        guess = np.concatenate([example.guess for example in examples])
        result: Array = guess + corrections[:, 0].astype(np.float64)
        return result

    def nearest(self, example: KernelRows, count: int = 2) -> list[Neighbour]:
        """Name the kernels that were trained on and are most like this one, of its operator."""
        trained_kernels = (k for k in self.metadata["known"] if k["opcode"] == example.opcode)
        return nearest_of(trained_kernels, "place", example.place[0, TELLING], count)


class Forecast:
    """What kernels would take on a machine, for who can't measure them all."""

    def __init__(
        self, predictor: KernelPredictor, machine: Machine, threads: int, level: str
    ) -> None:
        """`level` is a key of session.LEVELS."""
        self.predictor = predictor
        self._machine, self._configuration = machine, (threads, level)
        self._adaptation = Adaptation(predictor.spread)
        self._rows_by_hash: dict[str, KernelRows | None] = {}
        self._logs: dict[str, float] = {}
        self._costs: dict[str, Cost | None] = {}
        self._measured: dict[str, float] = {}

    def cost(self, kernel: Kernel) -> Cost | None:
        """Predict a kernel; None where nothing was learned of its operator."""
        if kernel.hash not in self._costs:
            self._costs[kernel.hash] = self._predicted(kernel)
        return self._costs[kernel.hash]

    def learn(self, measured: Iterable[tuple[Kernel, float]]) -> None:
        """Adapt what is predicted to kernels that were measured here, in ns."""
        news = {
            kernel.hash: time_ns
            for kernel, time_ns in measured
            if time_ns > 0 and kernel.hash not in self._measured and self._rows(kernel) is not None
        }
        if not news:
            return
        self._measured |= news
        latest = dict(list(self._measured.items())[-_MOST_LEARNED:])
        rows = [row for key in latest if (row := self._rows_by_hash[key]) is not None]
        errors = np.log(list(latest.values())) - [self._logs[key] for key in latest]
        self._adaptation.learn(
            np.array([row.opcode for row in rows]),
            np.concatenate([row.place for row in rows]),
            errors,
        )
        self._costs = {}

    def _rows(self, kernel: Kernel) -> KernelRows | None:
        if kernel.hash not in self._rows_by_hash:
            graph = graph_of_kernel(kernel, "model", {self._configuration: 1.0}, self._machine)
            rows = kernel_rows(graph, self._machine.cores)
            if rows is not None and not self.predictor.knows(rows):
                rows = None
            self._rows_by_hash[kernel.hash] = rows
            if rows is not None:
                self._logs[kernel.hash] = float(self.predictor.logs([rows])[0])
        return self._rows_by_hash[kernel.hash]

    def _predicted(self, kernel: Kernel) -> Cost | None:
        rows = self._rows(kernel)
        if rows is None or kernel.is_constant:
            return None
        error, narrower = self._adaptation.correct(np.array([rows.opcode]), rows.place)
        factor = self.predictor.factor ** float(narrower[0])
        return Cost(
            float(np.exp(self._logs[kernel.hash] + error[0])), 0.0, "predicted", factor=factor
        )


def load_predictor(model: bytes | Path) -> KernelPredictor | CostPredictor:
    """Load a model of costs of either kind; raises PredictorError for a file that is none."""
    try:
        return KernelPredictor(model)
    except PredictorError:
        return CostPredictor(model)


def shipped_model(class_name: str | None = None) -> bytes | None:
    """Return the model that ships for a class of processors, by default this one's, else None."""
    name = processor_class() if class_name is None else class_name
    file = resources.files(__package__).joinpath(f"{name}.onnx")
    return file.read_bytes() if name and file.is_file() else None


def shipped_forecast(machine: Machine, threads: int, level: str) -> Forecast | None:
    """Return predictions for a machine and a way to run kernels that data exists of, else None."""
    content = shipped_model()
    if content is None:
        return None
    predictor = KernelPredictor(content)
    configured = predictor.metadata["configured"]
    if threads not in configured["threads"] or LEVEL_NAMES.index(level) not in configured["levels"]:
        return None
    return Forecast(predictor, machine, threads, level)
