"""Nodes out of order are sorted, as ONNX Runtime sorts them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from tensolog.catalog.onnx import build_model, read_model
from tensolog.catalog.onnx.node_order import sort_nodes

CASES = {
    "two": ("y = Relu(a) a = Neg(x)", "Neg Relu"),
    "as far as it can": ("b = Abs(x) y = Add(a, e) e = Exp(b) a = Neg(x)", "Abs Exp Neg Add"),
    "what a branch captures": (
        "y = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },"
        " else_branch = e () => (float[2] r) { r = Identity(x) }> a = Abs(x)",
        "Abs If",
    ),
}


def model(body):
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        f"g (float[2] x, bool c) => (float[2] y) {{ {body} }}"
    )


def outputs(proto):
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {"x": np.array([1, -2], np.float32), "c": np.array(True)}
    return session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})


@pytest.mark.parametrize("case", CASES)
def test_they_compute_what_they_did(catalog, case):
    body, order = CASES[case]
    proto = model(body)
    kept = proto.SerializeToString()
    read = build_model(catalog, read_model(catalog, proto))
    assert proto.SerializeToString() == kept  # what is given stays as it is
    assert [node.op_type for node in read.graph.node] == order.split()
    onnx.checker.check_model(read)
    np.testing.assert_array_equal(outputs(read), outputs(proto))


def test_nodes_in_order_and_in_a_cycle_stay():
    for body in ("a = Neg(x) b = Abs(x) y = Add(a, b)", "y = Relu(a) a = Neg(y)"):
        proto = model(body)
        kept = proto.SerializeToString()
        sort_nodes(proto.graph)
        assert proto.SerializeToString() == kept
