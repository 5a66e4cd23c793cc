"""A rule doesn't match where a window is larger than its image."""

import pytest
from onnx import TensorProto, helper
from tensolog.rules.compiler.model_view import ModelView
from tensolog.rules.language.parser import parse_rules

from tests.rules.finding import failed_condition

(POOL,) = parse_rules(
    "rule FusePool\n  tags explore\n  opset >= 13\n  given X [n, c, h] float32\n  match\n"
    "    A = MaxPool<kernel_shape=k, strides=s>(X)\n    Y = Relu(A)\n  rewrite\n"
    "    Y = MaxPool<kernel_shape=k, strides=s>(Relu(X))\n  equal exact",
    "t",
)


@pytest.mark.parametrize(
    ("size", "kernel", "fits"), [(4, 4, True), (3, 4, False), (0, 4, True), ("h", 4, True)]
)
def test_windows_must_fit_where_sizes_are_known(size, kernel, fits):
    nodes = [
        helper.make_node("MaxPool", ["X"], ["A"], "MaxPool_1", kernel_shape=[kernel], strides=[2]),
        helper.make_node("Relu", ["A"], ["Y"], "Relu_1"),
    ]
    for node, pattern in zip(nodes, POOL.match, strict=True):
        node.name = pattern.name
    operand = helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 1, size])
    graph = helper.make_graph(nodes, "g", [operand], [helper.make_empty_tensor_value_info("Y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    view = ModelView(model)
    failed = failed_condition(view.match(POOL, {}), view)
    assert (failed is None) == fits, failed
