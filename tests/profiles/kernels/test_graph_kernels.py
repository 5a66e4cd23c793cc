"""Kernels of whole models; ONNX's shape inference is the oracle of their outputs."""

import numpy as np
import onnx
import pytest
from onnx import helper
from tensolog.profiles.kernel import TensorSpec
from tensolog.profiles.kernels.graph_kernels import kernels_of
from tensolog.profiles.kernels.kernel_model import build_model, output_shapes
from tensolog.profiles.kernels.profile import profile

from tests.profiles.small_models import MODELS, static_kernels, tensor_type

from .test_costs import Machine, model


@pytest.mark.parametrize("name", MODELS)
def test_every_node_is_a_kernel_of_the_same_shape(name):
    proto = MODELS[name]()
    kernels = static_kernels(proto)
    assert len(kernels) == len(proto.graph.node)
    shapes = {
        info.name: tensor_type(info) for info in [*proto.graph.value_info, *proto.graph.output]
    }
    for node, (_, kernel) in zip(proto.graph.node, kernels, strict=True):
        assert kernel.op_type == node.op_type
        assert output_shapes(kernel) == tuple(shapes[output] for output in node.output)
        build_model(kernel)
    assert len({kernel.hash for _, kernel in kernels}) < len(kernels)


SHAPES = {
    "x": ("float32", (2, 6)),
    "w": ("float32", (6, 3)),
    "target": ("int64", (1,)),
    "y": ("float32", (12,)),
    "z": ("float32", (2, 3)),
}


def extract(*nodes, shapes=SHAPES, arrays=None, opsets=None, weights=("w",)):
    initializers = [onnx.numpy_helper.from_array(np.zeros(1, np.float32), name) for name in weights]
    graph = helper.make_graph(list(nodes), "graph", [], [], initializers)
    return kernels_of(graph, shapes, (arrays or {}).get, opsets or {"": 17})


def test_initializers_are_constant():
    ((name, kernel),) = extract(helper.make_node("MatMul", ["x", "w"], ["z"]))
    assert name == "z"
    assert kernel.inputs == (
        TensorSpec("float32", (2, 6)),
        TensorSpec("float32", (6, 3), constant=True),
    )


def test_a_computed_shape_is_the_shape_of_the_output():
    ((_, kernel),) = extract(helper.make_node("Reshape", ["x", "target"], ["y"], name="flat"))
    assert kernel.inputs[1] == TensorSpec("int64", (1,), False, (12,))


def test_a_known_value_is_carried():
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    arrays = {"target": np.array([-1])}
    ((_, kernel),) = extract(node, arrays=arrays, weights=("target",))
    assert kernel.inputs[1] == TensorSpec("int64", (1,), True, (-1,))


def test_nodes_of_unknown_shape_are_left_out():
    known = helper.make_node("Relu", ["x"], ["r"])
    unknown = helper.make_node("Relu", ["mystery"], ["s"])
    assert [kernel.op_type for _, kernel in extract(known, unknown)] == ["Relu"]


def test_constant_nodes_are_constants():
    tensor = onnx.numpy_helper.from_array(np.ones((6, 3), np.float32))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=tensor),
        helper.make_node("MatMul", ["x", "w"], ["z"]),
    ]
    ((_, kernel),) = extract(*nodes, weights=())
    assert kernel.inputs[1].constant


def test_absent_inputs_outputs_and_other_domains():
    clip = helper.make_node("Clip", ["x", "", "w"], ["c"])
    ((_, kernel),) = extract(clip)
    assert kernel.inputs[1] is None and kernel.inputs[2] is not None
    lstm = helper.make_node("Op", ["x"], ["", "h", ""], domain="my")
    ((name, kernel),) = extract(lstm, opsets={"": 17, "my": 3})
    assert (name, kernel.domain, kernel.opset, kernel.outputs) == ("h", "my", 3, 2)


def test_a_profile_adds_up(catalog):
    proto = MODELS["mlp"]()
    kernels = static_kernels(proto)
    machine = Machine()
    report = profile(catalog, kernels, threads=1, costs=model(catalog, machine), budget_s=1e6)
    distinct = {kernel.hash for _, kernel in kernels}
    assert report.measured == len(report.kernels) == len(distinct)
    assert report.complete
    assert sum(row.count for row in report.kernels) == len(kernels)
    assert sum(len(row.nodes) for row in report.kernels) == len(kernels)
    assert report.total_ns == pytest.approx(sum(row.total_ns for row in report.kernels))
    assert sum(entry.share for entry in report.operators) == pytest.approx(1)
    assert [row.total_ns for row in report.kernels] == sorted(
        (row.total_ns for row in report.kernels), reverse=True
    )
    again = profile(catalog, kernels, threads=1, costs=model(catalog, machine), budget_s=1e6)
    assert again.measured == 0 and again.kernels == report.kernels


def test_a_profile_without_time_is_made_of_bounds(catalog):
    kernels = static_kernels(MODELS["mlp"]())
    report = profile(catalog, kernels, threads=1, costs=model(catalog, Machine()), budget_s=0)
    assert report.measured == 0 and not report.complete
    assert report.bounds == len(report.kernels)
    assert report.operators[0].operator == "MatMul"
