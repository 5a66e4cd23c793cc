"""A graph network that predicts the time of a graph under each of several configurations.

A node is its opcode's embedding, its features, and what configures it. Layers pass messages along
edges both ways, and compare a node under one configuration with the same node under the others
(attention across configurations: Kaggle's TpuGraphs competition, arXiv 2308.13490 for the data). A
segment of a graph is the sum over its nodes; a graph is the mean over all nodes of all its
segments, so that segments can be computed one after another (graph segment training, arXiv
2305.12322). A perceptron makes log(time) of it, as a correction of the first guess.

Parameters are a dictionary of tensors: `exported.py` writes the same computation as ONNX.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..exported import MOST_DEVIATIONS
from ..samples.examples import Batch, Example

Array = np.ndarray[Any, Any]
# torch.Tensor, whose types a machine without torch does not know.
Tensor = Any
Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """How large a network is: opcodes it knows, features of nodes and of configurations."""

    codes: Array
    features: int
    configuration_features: int
    width: int = 32
    embedding: int = 8
    layers: int = 2


def initial(shape: Shape, examples: list[Example], seed: int, dtype: Any = None) -> Parameters:
    """Return random parameters, with the means and deviations of the examples' features.

    Those two and the first guess's mean error are not trained: their names begin with "fixed".
    """
    kind = torch.float32 if dtype is None else dtype
    random = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        scale = math.sqrt(2.0 / max(rows, 1))
        return (torch.randn(rows, columns, generator=random) * scale).to(kind)

    def vector(size: int, value: float = 0.0) -> Tensor:
        return torch.full((size,), value, dtype=kind)

    width, node_features = shape.width, shape.embedding + shape.features
    parameters = {
        "embedding": matrix(len(shape.codes) + 1, shape.embedding) * 0.5,
        "node": matrix(node_features, width),
        "configured": matrix(shape.configuration_features, width),
        "start": vector(width),
        "pool": matrix(width, width),
        "pool_bias": vector(width),
        "hidden": matrix(width + 1, width),
        "hidden_bias": vector(width),
        "last": matrix(width, 1) * 0.1,
        "last_bias": vector(1),
    }
    for layer in range(shape.layers):
        for name in ("self", "reads", "feeds", "compared"):
            parameters[f"{name}_{layer}"] = matrix(width, width) * 0.5
        parameters[f"bias_{layer}"] = vector(width)
        parameters[f"gain_{layer}"] = vector(width, 1.0)
        parameters[f"shift_{layer}"] = vector(width)
        parameters[f"sharpness_{layer}"] = vector(width, 1.0)
    features = np.concatenate([example.features for example in examples])
    configurations = np.concatenate([_few_configurations(example) for example in examples])
    for name, values in (("features", features), ("configurations", configurations)):
        mean, deviation = (
            statistic(values, axis=0, dtype=np.float64) for statistic in (np.mean, np.std)
        )
        # What is the same in all examples says nothing, and is not blown up where it differs later.
        deviation = np.where(deviation > 1e-3, deviation, 1.0)
        parameters[f"fixed_{name}_mean"] = torch.as_tensor(mean).to(kind)
        parameters[f"fixed_{name}_deviation"] = torch.as_tensor(deviation).to(kind)
    errors = np.concatenate([example.logs - example.prior for example in examples])
    parameters["fixed_mean"] = vector(1, float(errors.mean()))
    parameters["fixed_scale"] = vector(1, float(errors.std()) or 1.0)
    return parameters


def _few_configurations(example: Example) -> Array:
    few = example.configurations[:: max(1, len(example.configurations) // 256)]
    return few.reshape(-1, few.shape[2])


def encode(parameters: Parameters, batch: Batch) -> Tensor:
    """Return the sum over the nodes of each segment, under each configuration: (s, c, width)."""
    kind, p = parameters["node"].dtype, parameters
    consumers, producers = torch.as_tensor(batch.consumers), torch.as_tensor(batch.producers)
    reading = torch.as_tensor(batch.reading).to(kind)[:, None, None]
    feeding = torch.as_tensor(batch.feeding).to(kind)[:, None, None]
    features = torch.as_tensor(batch.features).to(kind)
    features = _standard(p, "features", features)
    configured = torch.as_tensor(batch.configurations).to(kind)
    configured = _standard(p, "configurations", configured)
    embedded = p["embedding"][torch.as_tensor(batch.opcodes)]
    node = torch.cat([embedded, features], dim=1) @ p["node"]
    state = torch.relu(node[:, None, :] + configured @ p["configured"] + p["start"])
    for layer in range(layers_of(p)):
        normal = torch.nn.functional.layer_norm(
            state, state.shape[-1:], p[f"gain_{layer}"], p[f"shift_{layer}"], 1e-5
        )
        zeros = torch.zeros_like(normal)
        reads = zeros.index_add(0, consumers, normal[producers] * reading)
        feeds = zeros.index_add(0, producers, normal[consumers] * feeding)
        compared = torch.softmax(normal * p[f"sharpness_{layer}"], dim=1) * normal
        change = (
            normal @ p[f"self_{layer}"]
            + reads @ p[f"reads_{layer}"]
            + feeds @ p[f"feeds_{layer}"]
            + compared @ p[f"compared_{layer}"]
            + p[f"bias_{layer}"]
        )
        state = state + torch.relu(change)
    pooled = torch.relu(state @ p["pool"] + p["pool_bias"])
    sums = torch.zeros((batch.count, *pooled.shape[1:]), dtype=kind)
    return sums.index_add(0, torch.as_tensor(batch.segments), pooled)


def _standard(parameters: Parameters, name: str, values: Tensor) -> Tensor:
    """Return values in deviations from the mean, cut at what was hardly ever seen in training."""
    mean, deviation = (parameters[f"fixed_{name}_{part}"] for part in ("mean", "deviation"))
    return torch.clamp((values - mean) / deviation, -MOST_DEVIATIONS, MOST_DEVIATIONS)


def predict(parameters: Parameters, sums: Tensor, nodes: Tensor, prior: Tensor) -> Tensor:
    """Return log(time in ns) (b, c) of graphs, from sums over their nodes (b, c, width).

    `nodes` (b) counts the nodes of each graph, `prior` (b, c) is the first guess.
    """
    p, count = parameters, nodes[:, None, None].to(sums.dtype)
    size = torch.log(count).expand(*sums.shape[:2], 1)
    mean = torch.cat([sums / count, size], dim=2)
    hidden = torch.relu(mean @ p["hidden"] + p["hidden_bias"])
    correction = (hidden @ p["last"] + p["last_bias"])[..., 0]
    return prior.to(sums.dtype) + p["fixed_mean"] + p["fixed_scale"] * correction


def layers_of(parameters: Parameters) -> int:
    """Return how many layers a network has."""
    return sum(name.startswith("self_") for name in parameters)


def trained(parameters: Parameters) -> Parameters:
    """Return the parameters that are trained."""
    return {name: value for name, value in parameters.items() if not name.startswith("fixed")}


def ranking_loss(predicted: Tensor, logs: Tensor) -> Tensor:
    """Return the mean logistic loss of pairs of configurations of one graph; 0 without a pair.

    (b, c) each; pairs of equal times do not count.
    """
    slower = logs[:, :, None] > logs[:, None, :]
    if not bool(slower.any()):
        return predicted.sum() * 0.0
    difference = predicted[:, :, None] - predicted[:, None, :]
    return torch.nn.functional.softplus(-difference[slower]).mean()


def time_loss(predicted: Tensor, logs: Tensor) -> Tensor:
    """Return the mean error of log(time), squared where it is small (Huber, 1)."""
    return torch.nn.functional.smooth_l1_loss(predicted, logs.to(predicted.dtype))
