"""What kernels leave alone: what the runtime folds, and what is rounded to integers right after."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .build import model, typed

node = helper.make_node


def fused_operators(nodes, constants=()):
    proto = model(nodes, {"x": [4, 64]}, {"y": [4, 64]}, constants)
    graph = typed(proto)
    candidates = regions(Meanings(graph), graph.nodes)
    return {
        graph.nodes[number].op_type for candidate in candidates for number in candidate.region.nodes
    }


def test_what_depends_on_no_input_is_left_to_the_runtime():
    table = {"t": np.arange(64, dtype=np.float32)}
    nodes = [
        node("Mul", ["t", "t"], ["u"]),
        node("Cos", ["u"], ["v"]),
        node("Softplus", ["x"], ["w"]),
        node("Mul", ["w", "v"], ["y"]),
    ]
    assert fused_operators(nodes, table) == {"Softplus", "Mul"}
    nodes[0] = node("Mul", ["x", "t"], ["u"])
    assert fused_operators(nodes, table) == {"Softplus", "Mul", "Cos"}


@pytest.mark.parametrize(
    "step",
    [
        [node("Floor", ["v"], ["w"])],
        [
            node("Cast", ["v"], ["i"], to=TensorProto.INT64),
            node("Cast", ["i"], ["w"], to=TensorProto.FLOAT),
        ],
    ],
)
def test_what_is_rounded_to_integers_is_computed_as_it_was(step):
    nodes = [node("Log", ["x"], ["u"]), node("Mul", ["u", "u"], ["v"])]
    after = [node("Exp", ["w"], ["e"]), node("Mul", ["e", "e"], ["y"])]
    assert fused_operators([*nodes, *step, *after]) == {"Exp", "Mul"}
    smooth = [node("Neg", ["v"], ["w"])]
    assert fused_operators([*nodes, *smooth, *after]) == {"Log", "Mul", "Neg", "Exp"}
