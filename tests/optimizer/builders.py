"""Small models for the tests of the optimizer, and their outputs under ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=None, opset=17, **fields):
    """Build and check a model; `constants` maps names to arrays."""
    graph = helper.make_graph(
        [node if isinstance(node, onnx.NodeProto) else helper.make_node(*node) for node in nodes],
        "test",
        inputs,
        outputs,
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    fields.setdefault("ir_version", 8)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **fields)
    onnx.checker.check_model(built)
    return built


def run(built, feeds, level="ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(
        built.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)
