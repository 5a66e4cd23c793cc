"""Specifications agree with ONNX Runtime on random shapes and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tensolog.catalog.operators import specification

from .backend_cases import agree
from .random_nodes import STRATEGIES, Array, Node, examples_of_nodes, noted

_EXAMPLES = 12


def runtime(node: Node) -> list[Array]:
    """Return ONNX Runtime's outputs for a node alone."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(node.inputs)]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
        )
        for name, array in zip(names, node.inputs, strict=True)
        if array is not None
    ]
    outputs = [f"y{i}" for i in range(node.outputs)]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                node.op_type, names, outputs, domain=node.domain, **node.attributes
            )
        ],
        "one",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid(node.domain, node.opset)], ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {n: a for n, a in zip(names, node.inputs, strict=True) if a is not None}
    results: list[Array] = session.run(None, feeds)
    return results


@pytest.mark.parametrize("op_type", sorted(STRATEGIES))
def test_specifications_agree_with_the_runtime(op_type: str) -> None:
    @examples_of_nodes(_EXAMPLES)
    @given(st.data())
    def agrees(data: Any) -> None:
        node = noted(STRATEGIES[op_type](data.draw, op_type))
        spec = specification("", op_type, node.opset)
        assert spec is not None
        wanted = runtime(node)
        got = spec.evaluate(node.inputs, node.attributes, outputs=node.outputs)
        for first, other in zip(got, wanted, strict=True):
            note(f"{first.shape} {first.dtype} against {other.shape} {other.dtype}")
            assert agree(first, np.asarray(other), 2e-4, 2e-5), (first, other)

    agrees()


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_an_update_that_is_a_scalar_reaches_its_place_alone(reduction: str) -> None:
    # Indices of one dimension name one place: nothing is left to run over, and the guard decides.
    inputs = [np.array([3, 5], np.float32), np.array([1]), np.array(4, np.float32)]
    node = Node("ScatterND", inputs, {"reduction": reduction}, opset=18)
    spec = specification("", node.op_type, node.opset)
    assert spec is not None
    (first,), (other,) = spec.evaluate(inputs, node.attributes, outputs=1), runtime(node)
    assert agree(first, np.asarray(other), 2e-4, 2e-5), (first, other)


_BACKWARDS = [
    [
        np.arange(5, dtype=np.float32),
        np.array([start]),
        np.array([end]),
        np.array([0]),
        np.array([-2]),
    ]
    for start in (-1, 3)
    for end in (2**31 - 1, 2**31 - 2, 2**63 - 1, 2**63 - 2, -(2**63) + 1, 1)
]
CORNERS = [
    *(Node("Slice", inputs, {}, opset=13) for inputs in _BACKWARDS),
    *(
        Node("Squeeze", [np.ones((1, 3, 1), np.float32), np.array(axes, np.int64)], {}, opset=13)
        for axes in ([], [0], [-1, 0])
    ),
    *(
        Node("Pad", [np.arange(5, dtype=np.float32), np.array(pads)], {"mode": mode}, opset=19)
        for mode in ("constant", "edge", "wrap")
        for pads in ([-2, 3], [3, -2], [-1, -1], [2, 7])
    ),
    *(
        Node(
            "ConvTranspose",
            [np.ones((1, 1, 3), np.float32), np.arange(kernel, dtype=np.float32).reshape(1, 1, -1)],
            {"auto_pad": auto_pad, "strides": [stride], "dilations": [2]},
            opset=11,
        )
        for auto_pad in ("SAME_UPPER", "SAME_LOWER")
        for kernel in (1, 2, 3)
        for stride in (1, 2, 3)
    ),
]


@pytest.mark.parametrize("node", CORNERS, ids=lambda node: node.op_type)
def test_specifications_agree_with_the_runtime_in_corners(node: Node) -> None:
    spec = specification("", node.op_type, node.opset)
    assert spec is not None
    (first,) = spec.evaluate(node.inputs, node.attributes, outputs=1)
    (other,) = runtime(node)
    assert agree(first, np.asarray(other), 2e-4, 2e-5), (first, other)
