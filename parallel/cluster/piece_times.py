"""Pieces of a model timed on workers of a cluster, with weights that are drawn there.

What a piece takes hardly depends on its weights, and to send them all would take longer than to
time it. So large ones are left out of what is sent, and drawn where they are needed.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper, helper

from ..calibration import Pieces
from ..serving.instance import Array, Instance, Start, time_together
from ..serving.processor_claims import claim_processors

# Constants of fewer bytes, and those of other types, are sent as they are.
_LARGE_BYTES = 1 << 16
_DRAWN = (TensorProto.FLOAT, TensorProto.FLOAT16)
_WEIGHTS = "drawn.data"
_ROUNDS, _SECONDS, _RUNS = 4, 0.06, 3
_LIMIT_S = 120.0


def light_models(pieces: Pieces) -> list[bytes]:
    """Return the models of the stages without the numbers of their large weights."""
    assert pieces.parted is not None
    stages = pieces.parted.partition.stages
    return [_light(pieces.parted.models[stage.model], pieces.folder) for stage in stages]


async def piece_times(
    models: Sequence[bytes], piece_feeds: Sequence[dict[str, Array]], threads: int
) -> list[float]:
    """Return the seconds of a run of each model on the worker in which this runs.

    One is opened after the other, so that the worker needs memory for the largest alone.
    """
    return await asyncio.to_thread(_times, models, piece_feeds, threads)


def _times(
    models: Sequence[bytes], piece_feeds: Sequence[dict[str, Array]], threads: int
) -> list[float]:
    claim = claim_processors([threads])
    try:
        return [
            _time(model, feeds, threads, claim.places[0])
            for model, feeds in zip(models, piece_feeds, strict=True)
        ]
    finally:
        claim.release()


def _time(
    model: bytes, feeds: dict[str, Array], threads: int, processors: tuple[int, ...]
) -> float:
    """Return the least of the median seconds of some rounds."""
    with tempfile.TemporaryDirectory(prefix="tensolog-piece-") as name:
        file = Path(name) / "piece.onnx"
        file.write_bytes(model)
        _draw_weights(onnx.load_from_string(model), file.with_name(_WEIGHTS))
        instance = Instance(Start(file, threads, processors))
        try:
            instance.ready()
            instance.load("", feeds, _LIMIT_S)
            rounds = [
                time_together([instance], "", _SECONDS, _RUNS, _LIMIT_S)[0] for _ in range(_ROUNDS)
            ]
        finally:
            instance.close()
    return 1e-9 * min(float(np.median(runs)) for runs in rounds)


def _light(model: onnx.ModelProto, folder: Path) -> bytes:
    """Leave the numbers of large weights out of a model, whose external ones lie in a folder."""
    light = onnx.ModelProto()
    light.CopyFrom(model)
    end = 0
    for tensor in light.graph.initializer:
        size_bytes = _size_bytes(tensor)
        if tensor.data_type not in _DRAWN or size_bytes < _LARGE_BYTES:
            if tensor.data_location == TensorProto.EXTERNAL:
                external_data_helper.load_external_data_for_tensor(tensor, str(folder))
                tensor.data_location = TensorProto.DEFAULT
                del tensor.external_data[:]
            continue
        drawn = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        drawn.data_location = TensorProto.EXTERNAL
        for key, value in (("location", _WEIGHTS), ("offset", end), ("length", size_bytes)):
            drawn.external_data.add(key=key, value=str(value))
        tensor.CopyFrom(drawn)
        end += size_bytes
    content: bytes = light.SerializeToString()
    return content


def _draw_weights(model: onnx.ModelProto, file: Path) -> None:
    """Write the weights that were left out: of a size that keeps values as large as they are."""
    draw = np.random.default_rng(0)
    with file.open("wb") as target:
        for tensor in model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                summed = math.prod(tensor.dims) / max(tensor.dims)
                numbers = draw.standard_normal(math.prod(tensor.dims), np.float32)
                dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
                target.write((numbers / math.sqrt(summed)).astype(dtype).tobytes())


def _size_bytes(tensor: TensorProto) -> int:
    itemsize: int = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    elements: int = math.prod(tensor.dims)
    return elements * itemsize
