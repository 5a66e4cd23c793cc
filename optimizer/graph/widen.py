"""The same model in float64: the yardstick that rounding errors are measured with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Double = Callable[[TensorProto], TensorProto]

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)
# ONNX Runtime's CPU provider computes these in float32 only. Where the sums of a model are formed
# by them, float64 around them is no yardstick.
SUMS_WITHOUT_DOUBLE_KERNEL = frozenset(
    {"Attention", "Conv", "ConvTranspose", "GRU", "LSTM", "RNN", "Einsum"}
)
# These run in float32 between two casts.
WITHOUT_DOUBLE_KERNEL = frozenset(
    {
        "AveragePool",
        "Erf",
        "Gelu",
        "GlobalAveragePool",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "Mish",
        "Resize",
        "RMSNormalization",
        "RotaryEmbedding",
        "PRelu",
        "ThresholdedRelu",
        "Selu",
        "Celu",
        "Softsign",
    }
)


def widen(model: onnx.ModelProto, double: Double) -> onnx.ModelProto | None:
    """Turn float32 and float16 into float64 throughout; None where a model can't be turned.

    `double` turns a tensor of one of these types into one of float64. Models with subgraphs,
    functions or operators of other domains are left alone: there a cast might have to stand where
    this function can't see.
    """
    if model.functions or any(_is_foreign(node) for node in model.graph.node):
        return None
    if any(node.op_type in SUMS_WITHOUT_DOUBLE_KERNEL for node in model.graph.node):
        return None
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        if tensor.data_type in NARROW:
            tensor.CopyFrom(double(tensor))
    for entry in (*graph.input, *graph.output):
        if entry.type.tensor_type.elem_type in NARROW:
            entry.type.tensor_type.elem_type = TensorProto.DOUBLE
    nodes = [_widened(node, double) for node in graph.node]
    del graph.node[:]
    floats = _float_values(model)
    if floats is None:
        return None
    for node in nodes:
        if node.op_type in WITHOUT_DOUBLE_KERNEL:
            graph.node.extend(_between_casts(node, floats))
        else:
            graph.node.append(node)
    return wide


def _is_foreign(node: onnx.NodeProto) -> bool:
    has_graph = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
    return has_graph or node.domain not in ("", "ai.onnx")


def _float_values(model: onnx.ModelProto) -> set[str] | None:
    """Name the values known to hold float32 or float16, by ONNX's own inference; None if it fails.

    It fails where declared shapes contradict each other, which the runtime may warn of and accept.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # the inference raises its own type and, on odd models, plain RuntimeErrors
        return None
    entries = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    named = {e.name for e in entries if e.type.tensor_type.elem_type in NARROW}
    return named | {t.name for t in model.graph.initializer if t.data_type in NARROW}


def _widened(node: onnx.NodeProto, double: Double) -> onnx.NodeProto:
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.HasField("t") and attribute.t.data_type in NARROW:
            attribute.t.CopyFrom(double(attribute.t))
        if attribute.name in ("to", "dtype") and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
    if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
        given = node.attribute[0]
        array = np.array(given.f if given.name == "value_float" else list(given.floats))
        del wide.attribute[:]
        wide.attribute.append(helper.make_attribute("value", numpy_helper.from_array(array)))
    return wide


def _between_casts(node: onnx.NodeProto, floats: set[str]) -> list[onnx.NodeProto]:
    before, after = [], []
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    for position, name in enumerate(node.input):
        if name in floats:
            inner.input[position] = f"{name}/narrow/{node.output[0]}/{position}"
            before.append(helper.make_node("Cast", [name], [inner.input[position]], to=1))
    for position, name in enumerate(node.output):
        if name in floats:
            inner.output[position] = f"{name}/narrow"
            after.append(helper.make_node("Cast", [inner.output[position]], [name], to=11))
    return [*before, inner, *after]
