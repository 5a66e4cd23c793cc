"""Draw inputs for a model from several distributions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from .network import INDEX

Array = npt.NDArray[np.generic]
DISTRIBUTIONS = ("normal", "uniform", "wide", "sparse", "zeros")


def random_feeds(
    model: onnx.ModelProto,
    *,
    distribution: str = "normal",
    seed: int = 0,
    dimensions: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Draw one array per graph input; symbolic dimensions get their value from `dimensions`, or 2.

    Integer inputs that index a table stay inside it, masks are zeros and ones.
    """
    random = np.random.default_rng(seed)
    initializers = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor = value.type.tensor_type
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else (dimensions or {}).get(dim.dim_param, 2)
            for dim in tensor.shape.dim
        )
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            feeds[value.name] = _floats(random, shape, distribution).astype(dtype)
        else:
            high = 2 if "mask" in value.name else _table_length(model, value.name)
            feeds[value.name] = random.integers(0, high, shape).astype(dtype)
            if "mask" in value.name and shape and shape[-1]:
                feeds[value.name][..., 0] = 1  # a row that masks everything has no answer
    return feeds


def _floats(random: np.random.Generator, shape: tuple[int, ...], distribution: str) -> Array:
    match distribution:
        case "normal":
            return random.standard_normal(shape)
        case "uniform":
            return random.uniform(0, 1, shape)
        case "wide":
            return random.standard_normal(shape) * np.exp(random.uniform(-7, 3, shape))
        case "sparse":
            return random.standard_normal(shape) * (random.uniform(size=shape) < 0.1)
        case "zeros":
            return np.zeros(shape)
    raise ValueError(f"distribution {distribution!r} is none of {', '.join(DISTRIBUTIONS)}")


def _table_length(model: onnx.ModelProto, name: str) -> int:
    """Return the length of the shortest table that the input indexes, or 2; or what is told."""
    length = next((e.value for e in model.metadata_props if e.key == f"{INDEX}{name}"), None)
    if length is not None:
        return int(length)
    lengths = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if tensor.dims}
    gathered = [
        lengths[node.input[0]]
        for node in model.graph.node
        if node.op_type == "Gather" and node.input[1] == name and node.input[0] in lengths
    ]
    return min(gathered, default=2)
