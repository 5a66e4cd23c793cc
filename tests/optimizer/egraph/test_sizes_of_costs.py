"""Sizes that costs are asked for: inferred from those given, and told by names."""

import onnx
from onnx import TensorProto, helper
from tensolog.optimizer.graph.infer import bound_types

from .pricing import graph_of


def test_the_length_of_a_range_is_told_by_its_name():
    """No inference knows how many elements it has; an exporter wrote the name down."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=1, end=2),
        helper.make_node("Squeeze", ["sizes"], ["count"]),
        helper.make_node("Range", ["zero", "count", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    scalars = [helper.make_tensor(name, TensorProto.INT64, [], [number])
               for number, name in enumerate(("zero", "one"))]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "range",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["tokens"])],
        scalars,
        value_info=[helper.make_tensor_value_info("places", TensorProto.INT64, ["tokens"])],
    )
    opsets = [helper.make_opsetid("", 17)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    read = graph_of(model)
    bound = bound_types(read, {"batch": 2, "tokens": 7})
    shapes = {read.names[value]: type_.shape for value, type_ in bound.items()}
    assert shapes["places"] == (7,) and shapes["y"] == (7,) and shapes["x"] == (2, 7)
