"""Times predicted by a trained network, with an interval: NumPy and ONNX Runtime alone.

An interval is the prediction times or divided by a factor. The factor comes from graphs of
architectures that a member of the ensemble was not trained on (conformal prediction over folds:
Barber et al., Predictive inference with the jackknife+, arXiv 1905.02928): of those a stated share
lay within it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from ...catalog.errors import TensologError
from .exported import FORMAT, METADATA
from .samples.archive import CostGraph
from .samples.examples import Array, Example, batch_of, example_of, segments_of

# Of the times of architectures left out, the share that an interval is made to hold.
COVERAGE = 0.9
# Configurations of a graph are compared with each other so many at a time.
_TOGETHER = 64
_SEED = 0


class PredictorError(TensologError):
    """A file is no model of costs, or not of the graphs that it is asked about."""


@dataclass(frozen=True)
class Prediction:
    """The predicted times of a graph's configurations in ns, with the interval's ends."""

    times_ns: Array
    least_ns: Array
    most_ns: Array


@dataclass(frozen=True)
class Neighbour:
    """A graph that was trained on: its name, its least time, and how far it lies from another."""

    label: str
    time_ns: float
    distance: float


def open_trained(model: bytes | Path) -> tuple[Any, dict[str, Any]]:
    """Return a session of a model of costs, and its metadata; raises what it raises for another."""
    content = model.read_bytes() if isinstance(model, Path) else model
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map[METADATA])


def nearest_of(
    trained_entries: Iterable[Mapping[str, Any]], key: str, place: Array, count: int
) -> list[Neighbour]:
    """Return those of what was trained on whose place, under a key, is the nearest to another."""
    neighbours = [
        Neighbour(
            entry["label"],
            float(entry["time_ns"]),
            float(np.linalg.norm(place - np.array(entry[key]))),
        )
        for entry in trained_entries
    ]
    return sorted(neighbours, key=lambda neighbour: (neighbour.distance, neighbour.label))[:count]


class CostPredictor:
    """A model of costs that was trained by `tensolog costs train`."""

    def __init__(self, model: bytes | Path) -> None:
        """Load a model; raises PredictorError for a file that is none."""
        name = str(model) if isinstance(model, Path) else "the model"
        try:
            self._session, self.metadata = open_trained(model)
            is_readable = self.metadata["format"] == FORMAT
            self._codes = np.array(self.metadata["codes"], np.int64)
            shapes = {entry.name: entry.shape for entry in self._session.get_inputs()}
            self._features = int(shapes["features"][1])
            self._configured = int(shapes["configurations"][2])
            self._members, self._width = (int(shapes["elsewhere"][n]) for n in (0, 3))
        except OSError:
            raise
        except Exception as error:  # whatever ONNX Runtime raises for what is no model
            raise PredictorError(
                f"{name} is no model of costs: make one with tensolog costs train"
            ) from error
        if not is_readable:
            raise PredictorError(
                f"{name} is of format {self.metadata['format']}, not {FORMAT}: train it anew "
                "with tensolog costs train"
            )

    def example(self, graph: CostGraph) -> Example:
        """Describe a graph as this network was trained to read it; PredictorError if it can't."""
        example = example_of(
            graph, hops=self.metadata["hops"], prior=self.metadata["prior_feature"]
        )
        widths = (example.features.shape[1], example.configurations.shape[2])
        if widths != (self._features, self._configured):
            raise PredictorError(
                f"{graph.path} has {widths[0]} features of nodes and {widths[1]} of "
                "configurations, "
                f"and the model reads {self._features} and {self._configured}: train one on such "
                "graphs"
            )
        return example

    def predict(self, example: Example) -> Prediction:
        """Predict the time of each configuration of a graph."""
        logs = self.member_logs(example).mean(axis=0)
        factor = float(self.metadata["interval"]["factor"])
        times = np.exp(logs)
        return Prediction(times, times / factor, times * factor)

    def nearest(self, example: Example, count: int = 2) -> list[Neighbour]:
        """Name the graphs that were trained on and are most like this one, of the same opcodes.

        The distance is that of the means of their nodes' features, in scaled units.
        """
        summary_, signature = summary(example), graph_signature(example)
        trained_graphs = (k for k in self.metadata.get("known", ()) if k["signature"] == signature)
        return nearest_of(trained_graphs, "summary", summary_, count)

    def member_logs(self, example: Example) -> Array:
        """Return log(time in ns) by each member of the ensemble: (members, c)."""
        count = len(example.prior)
        order = np.random.default_rng(_SEED).permutation(count)
        logs = np.empty((self._members, count))
        for part in np.array_split(order, max(1, -(-count // _TOGETHER))):
            logs[:, part] = self._run(example, part)
        return logs

    def _run(self, example: Example, chosen: Array) -> Array:
        sums = np.zeros((self._members, 1, len(chosen), self._width), np.float32)
        logs = np.zeros((self._members, 1, len(chosen)), np.float32)
        for nodes in segments_of(example, int(self.metadata["segment_nodes"])):
            batch = batch_of([(example, nodes, chosen)], self._codes)
            sums, logs = self._session.run(
                ["sums", "log_time"],
                {
                    "opcodes": batch.opcodes,
                    "features": batch.features,
                    "configurations": batch.configurations,
                    "consumers": batch.consumers,
                    "producers": batch.producers,
                    "reading": batch.reading,
                    "feeding": batch.feeding,
                    "segments": batch.segments,
                    "nodes": np.array([example.nodes], np.float32),
                    "prior": example.prior[None, chosen].astype(np.float32),
                    "elsewhere": sums,
                },
            )
        return logs[:, 0]


def summary(example: Example) -> Array:
    """Return the mean of the scaled features of a graph's nodes (f)."""
    mean: Array = example.features.mean(axis=0, dtype=np.float64)
    return mean


def graph_signature(example: Example) -> int:
    """Return a checksum of which opcodes a graph has, and how often each."""
    return zlib.crc32(np.sort(example.opcodes).astype("<i8").tobytes())


def conformal_factor(errors: Sequence[float] | Array, coverage: float) -> float:
    """Return the factor of an interval that holds a new time with a probability of `coverage`.

    `errors` are |log(time) - log(predicted)| of graphs that were not trained on, exchangeable with
    the new one. With n of them it is the ceil((n + 1) coverage)-th smallest; infinity for too few.
    """
    ordered = np.sort(np.asarray(errors, dtype=np.float64))
    rank = int(np.ceil((len(ordered) + 1) * coverage - 1e-9))
    return float(np.exp(ordered[rank - 1])) if 1 <= rank <= len(ordered) else float("inf")
