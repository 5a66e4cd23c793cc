"""A Reshape that a rule gives sizes to makes those sizes: a 0 that copies another is no match."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference
from tensolog.rules.compiler.model_view import ModelView
from tensolog.rules.language.parser import parse_rules

from tests.rules.finding import failed_condition

(JOIN,) = parse_rules(
    "rule JoinHeads\n  tags explore\n  opset >= 14\n  given X [b, k, d] float32\n  match\n"
    "    R = Reshape(X, [b, d, k])\n    Y = Relu(R)\n  rewrite\n"
    "    Y = Reshape(Relu(X), [b, d, k])\n  equal exact",
    "t",
)


@pytest.mark.parametrize(
    ("shape", "matches"),
    [((2, 3, 4), True), ((0, 3, 4), True), ((2, 0, 4), False), ((2, 3, 0), False)],
)
def test_sizes_are_those_that_the_rule_lists(shape, matches):
    b, k, d = shape
    nodes = [
        helper.make_node("Reshape", ["X", JOIN.match[0].inputs[1].value], ["R"], "Reshape_1"),
        helper.make_node("Relu", ["R"], ["Y"], "Relu_1"),
    ]
    for node, pattern in zip(nodes, JOIN.match, strict=True):
        node.name = pattern.name
    operand = helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)
    target = numpy_helper.from_array(np.array([b, d, k]), nodes[0].input[1])
    result = helper.make_empty_tensor_value_info("Y")
    graph = helper.make_graph(nodes, "g", [operand], [result], [target])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    view = ModelView(shape_inference.infer_shapes(model))
    failed = failed_condition(view.match(JOIN, {}), view)
    assert (failed is None) == matches, failed
