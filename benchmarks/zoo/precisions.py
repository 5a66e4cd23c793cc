"""The same models in float16, and quantized to 8 bits by ONNX Runtime's own tool."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from .feeds import random_feeds

# What is beyond the numbers of float16 becomes the largest of these, as converters have it.
LARGEST = float(np.finfo(np.float16).max)


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in float16 throughout, as PyTorch exports one after `.half()`."""
    converted = onnx.ModelProto()
    converted.CopyFrom(model)
    graph = converted.graph
    # scales of a Resize are float32 whatever it resizes
    kept = {name for n in graph.node if n.op_type == "Resize" for name in n.input[1:]}
    for tensor in graph.initializer:
        if tensor.name not in kept:
            tensor.CopyFrom(_half(tensor))
    for entry in (*graph.input, *graph.output):
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT:
            entry.type.tensor_type.elem_type = TensorProto.FLOAT16
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
            if attribute.type == onnx.AttributeProto.TENSOR and not kept & {*node.output}:
                attribute.t.CopyFrom(_half(attribute.t))
    onnx.checker.check_model(converted)
    return converted


def _half(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    array = np.clip(numpy_helper.to_array(tensor), -LARGEST, LARGEST)
    return numpy_helper.from_array(array.astype(np.float16), tensor.name)


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: onnx.ModelProto, count: int) -> None:
        self._left = [random_feeds(model, seed=seed) for seed in range(count)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def quantized(model: onnx.ModelProto, samples: int = 2) -> onnx.ModelProto:
    """Return a model quantized with QDQ nodes: activations uint8, weights int8 by channel."""
    with tempfile.TemporaryDirectory() as folder:
        ready, path = _prepared(model, Path(folder))
        quantize_static(
            ready,
            path,
            _Samples(model, samples),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        return _cleared(onnx.load(path))


def dynamically_quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose products quantize what they read while they run, weights in advance.

    Weights have the type that the tool gives them by default, and one scale each.
    """
    with tempfile.TemporaryDirectory() as folder:
        ready, path = _prepared(model, Path(folder))
        quantize_dynamic(ready, path)
        return _cleared(onnx.load(path))


def _prepared(model: onnx.ModelProto, folder: Path) -> tuple[Path, Path]:
    """Write a model as the tool asks for it; return where it lies, and where to put the result."""
    whole, ready, result_file = (
        folder / f"{name}.onnx" for name in ("whole", "ready", "quantized")
    )
    onnx.save(model, whole)
    quant_pre_process(whole, ready, skip_symbolic_shape=True)
    return ready, result_file


def _cleared(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without domains that it doesn't use, which the tool leaves."""
    used = {node.domain for node in model.graph.node} | {""}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    helper.set_model_props(model, {})
    return model
