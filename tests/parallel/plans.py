"""Small models, and deployments of them that nobody measured."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.parallel.deployment.deployment import BatchAxis, Deployment, read_deployment
from tensolog.parallel.deployment.settings import Measured, Setting
from tensolog.parallel.runnable_plan import Slot
from tensolog.parallel.serving.processor_claims import ProcessorClaim

FEATURES = 8
TWO = Setting(2, 1, 4)


def unpinned(counts):
    """Claim nothing: machines may have fewer cores than what is tested takes."""
    return ProcessorClaim(((),) * len(counts), "none")


def model(nodes, inputs, outputs, initializers=()):
    """Make a model of tensors given as (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(*entry) for entry in inputs],
        [helper.make_tensor_value_info(*entry) for entry in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def layer(rows="batch"):
    """Relu(x @ w): each row of x by itself."""
    weight = np.random.default_rng(0).normal(size=(FEATURES, FEATURES)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    shape = (rows, FEATURES)
    inputs, outputs = [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)]
    return model(nodes, inputs, outputs, [("w", weight)])


def division():
    """Whole numbers divided: the process ends at the least one by -1."""
    rows = [(name, TensorProto.INT64, ("batch",)) for name in ("a", "b", "y")]
    return model([helper.make_node("Div", ["a", "b"], ["y"])], rows[:2], rows[2:])


def expected(x):
    """What `layer` gives, by NumPy."""
    weight = np.random.default_rng(0).normal(size=(FEATURES, FEATURES)).astype(np.float32)
    return np.maximum(x @ weight, 0)


def deployed(proto, folder: Path, setting=TWO, *, delay_ms=2.0, queue=64, parted=None, **changes):
    """Write a deployment of a model as `deploy` would, without measuring."""
    file = folder / "source.onnx"
    onnx.save(proto, file)
    measured = Measured(setting, 1000.0, 1.0, 1.0, 1.0, 10, 1 << 20)
    names = {TensorProto.FLOAT: "float32", TensorProto.INT64: "int64", TensorProto.STRING: "object"}

    def slots(entries):
        return tuple(
            Slot(
                entry.name,
                names[entry.type.tensor_type.elem_type],
                tuple(d.dim_param or d.dim_value for d in entry.type.tensor_type.shape.dim),
            )
            for entry in entries
        )

    values = {
        "model": "model/model.onnx",
        "goal": "throughput",
        "limits": (),
        "setting": setting,
        "batch": BatchAxis(True, "rows of a batch come out as they do alone"),
        "delay_ms": delay_ms,
        "queue": queue,
        "deadline_s": 20.0,
        "inputs": slots(proto.graph.input),
        "outputs": slots(proto.graph.output),
        "chosen": measured,
        "baseline": measured,
        "measured": (measured,),
        "reasons": ("one instance was not beaten",),
        "complete": True,
        "variant": "original",
    }
    if parted is not None:
        values["partition"] = parted.partition
        values["batch"] = BatchAxis(False, "the plan is for these sizes")
    plan = Deployment(**{**values, **changes})
    return read_deployment(plan.write(file, folder / "plan", parted))
