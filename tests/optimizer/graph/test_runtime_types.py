"""Types behind operators that the runtime knows and onnx does not, and what runs beside float64."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.widen import narrow_sums, why_not_widened, widen

from ..builders import run, value

WEIGHT = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


def model(nodes, inputs, outputs, constants):
    """Unchecked: onnx knows not all of the operators."""
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    sets = {"": 17, "com.microsoft": 1, "example.com": 1}
    imports = [helper.make_opsetid(*entry) for entry in sets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def normalized(rows="n"):
    """A row norm that only the runtime has, under ONNX's own domain, and a product behind it."""
    return model(
        [
            helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["h"], axis=-1),
            helper.make_node("MatMul", ["h", "w"], ["m"]),
            helper.make_node("Relu", ["m"], ["y"]),
        ],
        [value("x", [rows, 8])],
        [value("y", [rows, 4])],
        {"g": np.linspace(0.5, 2, 8).astype(np.float32), "w": WEIGHT},
    )


def half_known():
    """One of the runtime's own domain, in front of a product."""
    return model(
        [
            helper.make_node("QuickGelu", ["x"], ["h"], domain="com.microsoft"),
            helper.make_node("Inverse", ["h"], ["i"], domain="com.microsoft"),
            helper.make_node("MatMul", ["i", "w"], ["y"]),
        ],
        [value("x", [8, 8])],
        [value("y", [8, 4])],
        {"w": WEIGHT},
    )


@pytest.mark.parametrize(("sizes", "rows"), [(None, "n"), ({"n": 3}, 3)])
def test_types_behind_an_operator_of_the_runtime_are_known(sizes, rows):
    graph = load_graph(normalized())
    types = {graph.names[number]: type_ for number, type_ in infer_types(graph, sizes).items()}
    assert (types["h"].dtype, types["h"].shape) == ("float32", (rows, 8))
    assert types["m"].shape == (rows, 4)


def test_an_operator_that_nobody_knows_stops_the_inference_there():
    built = half_known()
    built.graph.node[1].domain = "example.com"
    graph = load_graph(built)
    types = {graph.names[number]: type_ for number, type_ in infer_types(graph).items()}
    assert "h" in types and "i" not in types
    assert why_not_widened(built) == "nobody tells the types of example.com:Inverse"
    assert widen(built, wide_tensor) is None


@pytest.mark.parametrize("build", [normalized, half_known])
def test_what_the_runtime_has_of_its_own_runs_beside_float64(build):
    built = build()
    wide = widen(built, wide_tensor)
    x = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    (narrow,), (exact,) = run(built, {"x": x}), run(wide, {"x": x.astype(np.float64)})
    assert exact.dtype == np.float64
    np.testing.assert_allclose(narrow, exact, rtol=1e-3, atol=1e-3)
    assert not np.array_equal(narrow, exact)
    assert narrow_sums(wide) == (["QuickGelu"] if build is half_known else [])


def wide_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
