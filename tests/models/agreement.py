"""Do two models compute the same function, as far as float32 can tell?

The judge is a float64 evaluation of the original by onnx's reference implementation, which shares
no code with ONNX Runtime or with the optimizer's own verification.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOAT32_EPSILON = float(np.finfo(np.float32).eps)


def run(model, feeds, *, level="disabled"):
    """Run under ONNX Runtime on one thread; `level` is its own optimization level."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = {
        "disabled": levels.ORT_DISABLE_ALL,
        "all": levels.ORT_ENABLE_ALL,
    }[level]
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def double_precision(model):
    """Return the model with every float32 tensor, attribute and cast made float64."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    _widen_graph(model.graph)
    return model


def _widen_graph(graph):
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    del graph.value_info[:]
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _widen_graph(attribute.g)
            elif (node.op_type, attribute.name, attribute.i) == ("Cast", "to", TensorProto.FLOAT):
                attribute.i = TensorProto.DOUBLE
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = numpy_helper.from_array(np.zeros(1, np.float64))
            node.attribute.append(onnx.helper.make_attribute("value", zero))
        if node.op_type == "Constant":
            _widen_constant(node)


def _widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_constant(node):
    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            value = onnx.helper.get_attribute_value(attribute)
            wide = numpy_helper.from_array(np.asarray(value, np.float64))
            attribute.CopyFrom(onnx.helper.make_attribute("value", wide))


def run_double(model, feeds):
    """Evaluate in float64 by the reference implementation."""
    wide = {
        name: value.astype(np.float64) if value.dtype == np.float32 else value
        for name, value in feeds.items()
    }
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(double_precision(model)).run(None, wide)


def tolerance(expected, exact, *, factor=8.0, floor_ulps=64.0):
    """Return the absolute error to allow: a few times the original's own, and no less than a floor.

    The floor is in units of the last place of the output's largest magnitude: a rewrite rounds
    differently, and on a lucky input the original may not round at all.
    """
    scale = float(np.max(np.abs(exact), initial=0.0))
    original_error = float(np.max(np.abs(expected - exact), initial=0.0))
    return factor * original_error + floor_ulps * FLOAT32_EPSILON * scale + 1e-30


def disagreement(original, optimized, feeds, *, level="disabled", exact=None):
    """Return None where all outputs agree, else one line naming the output and both errors."""
    expected = run(original, feeds)
    if exact is None:
        exact = run_double(original, feeds)
    actual = run(optimized, feeds, level=level)
    for value, before, after, truth in zip(
        original.graph.output, expected, actual, exact, strict=True
    ):
        if before.dtype != after.dtype or before.shape != after.shape:
            return f"{value.name}: {before.dtype}{before.shape} became {after.dtype}{after.shape}"
        if before.dtype != np.float32:
            if not np.array_equal(before, after):
                return f"{value.name}: integers or booleans differ"
            continue
        finite = np.isfinite(before) & np.isfinite(truth)
        if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
            return f"{value.name}: infinities or NaNs differ"
        allowed = tolerance(before[finite], truth[finite])
        error = float(np.max(np.abs(after[finite] - truth[finite]), initial=0.0))
        if not error <= allowed:
            return f"{value.name}: off by {error:.3g}, allowed {allowed:.3g}"
    return None
