"""What ONNX Runtime's blocked layout is like on this machine: it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...profiles.sessions.session import AS_WRITTEN, open_session, run_session

# The domain of the operators over blocked values, and its version.
NCHWC, VERSION = "com.microsoft.nchwc", 1
# What a value that enters the layout must have a multiple of.
ENTERING_CHANNELS = 4
# How wide blocks are on most processors, for who asks where the runtime has none.
USUAL_BLOCK = 8
# Activations that some release does within a convolution: operator -> its parameters by name.
ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


@cache
def block_size() -> int | None:
    """The channels of a block, 8 or 16 by the width of the vectors; None without such kernels.

    A value of few channels comes out of ReorderInput as one block.
    """
    shape = (1, ENTERING_CHANNELS, 1, 1)
    try:
        width = int(_run(helper.make_node("ReorderInput", ["X"], ["Y"], domain=NCHWC), shape)[1])
    except Exception:  # a build without these kernels refuses the model
        return None
    return width if width > ENTERING_CHANNELS else None


@cache
def activations() -> frozenset[str]:
    """The operators that a convolution may end in; later releases know more."""
    block = block_size()
    return frozenset() if block is None else frozenset(a for a in ACTIVATIONS if _knows(a, block))


def _knows(activation: str, block: int) -> bool:
    parameters = [0.5] * len(ACTIVATIONS[activation])
    node = helper.make_node(
        "Conv", ["X", "W"], ["Y"], domain=NCHWC, activation=activation, kernel_shape=[1, 1]
    )
    if parameters:
        node.attribute.append(helper.make_attribute("activation_params", parameters))
    try:
        _run(node, (1, block, 1, 1), (block, block, 1, 1))
    except Exception:  # it says that the name is unknown
        return False
    return True


def _run(node: onnx.NodeProto, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Run one operator on zeros of some shapes; return the shape of what it gives."""
    graph = helper.make_graph(
        [node],
        "question",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(node.input, shapes, strict=True)
        ],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", 13), helper.make_opsetid(NCHWC, VERSION)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = open_session(model.SerializeToString(), threads=1, execution=AS_WRITTEN)
    feeds = {
        name: np.zeros(shape, np.float32) for name, shape in zip(node.input, shapes, strict=True)
    }
    return tuple(run_session(session, feeds)[0].shape)
