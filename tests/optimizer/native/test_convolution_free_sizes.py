"""Convolutions of images whose sizes are known when the model runs, alone and in networks."""

import math

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.plans import lay_out
from tensolog.optimizer.native.configurations.convolution_configuration import (
    ConvolutionConfiguration,
)
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.shapes.constant_shapes import resolve_shapes
from tensolog.optimizer.native.shapes.named_sizes import Sizes
from tensolog.optimizer.native.shapes.windows import window_shape

from tests.campaigns import examples
from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of
from tests.optimizer.layouts.networks import has_blocks, in_blocks

from .build import needs_compiler, opened
from .test_convolution import ROUNDING, Case, normal, plain

needs_blocks = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")


@needs_compiler
@pytest.mark.parametrize(
    ("sides", "taps", "images"),
    [
        (("h", "w"), (3, 3), [(1, 9, 8), (2, 1, 1), (1, 3, 40), (1, 31, 2)]),
        (("s", "s"), (3, 3), [(1, 7, 7), (3, 20, 20)]),
        (("h", 9), (1, 7), [(1, 1, 9), (2, 12, 9)]),
    ],
)
def test_one_kernel_for_images_of_all_sizes(sides, taps, images, monkeypatch):
    monkeypatch.setattr(convolution, "DEFAULT", ConvolutionConfiguration(block=0))
    tiles = convolution.TILES
    monkeypatch.setattr(convolution, "TILES", {taps: tiles[taps][-1:] for taps in tiles})
    pads = [k // 2 for k in taps] * 2

    def case(n, h, w, **options):
        return Case((n, 32, h, w), 48, taps, pads, summed=True, seed=3, **options)

    first = case(*images[0], sides=sides, named=("n",))
    first.types = {name: ("n", *shape[1:]) for name, shape in first.types.items()}
    for form, proto, library in first.forms():
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "n"
        session = opened(proto, library, threads=2)
        for size in images:
            sized_case = case(*size)
            total, most = sized_case.expected()
            (result,) = session.run(None, sized_case.feeds)
            error = abs(plain(result, sized_case.shape[1], sized_case.block) - total).max()
            assert error <= ROUNDING * most, (form, size, error)


@needs_compiler
def test_a_free_size_that_changes_is_refused(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    options = {"block": 16, "sides": ("h", "w")}
    assert len(Case((1, 16, 8, 8), 16, (3, 3), (1, 1, 1, 1), **options).candidates()[1]) == 2
    assert Case((1, 16, 8, 8), 16, (3, 3), (1, 0, 1, 1), **options).candidates()[1] == []
    assert (
        Case((1, 16, 8, 8), 16, (3, 3), (1, 1, 1, 1), auto_pad="VALID", **options).candidates()[1]
        == []
    )


# ----------------------------------------------------------------------------------- networks


def residual():
    """A network of residual blocks, a pool and a step of two; every size of its image is free."""
    weights = {
        "a": (32, 16, 3, 3), "b": (32, 32, 3, 3), "c": (48, 32, 3, 3), "d": (48, 48, 3, 3),
        "e": (48, 32, 1, 1),
    }  # fmt: skip
    arrays = {
        name: normal(*shape, seed=seed) / np.float32(np.prod(shape[1:]) ** 0.5)
        for seed, (name, shape) in enumerate(weights.items())
    }
    same, half = {"pads": [1, 1, 1, 1]}, {"strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["1"], **same),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "b"], ["3"], **same),
        helper.make_node("Add", ["3", "2"], ["4"]),
        helper.make_node("MaxPool", ["4"], ["5"], kernel_shape=[3, 3], **same, **half),
        helper.make_node("Conv", ["5", "c"], ["6"], **same, **half),
        helper.make_node("Relu", ["6"], ["7"]),
        helper.make_node("Conv", ["7", "d"], ["8"], **same),
        helper.make_node("Conv", ["5", "e"], ["9"], **half),
        helper.make_node("Add", ["8", "9"], ["10"]),
        helper.make_node("Relu", ["10"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_compiler
@needs_blocks
def test_a_network_of_free_sizes_is_computed_in_blocks_by_kernels():
    proto = residual()
    sizes = {"batch": 1, "height": 32, "width": 32}
    laid, _ = lay_out(graph_of(proto), Prices(0, in_blocks), sizes=sizes, fold_limit=FOLD_LIMIT)
    graph = laid.graph.copy()
    assert sum(node.op_type == "Add" for node in graph.nodes.values()) == 1  # the guard's
    resolve_shapes(graph)
    candidates = convolutions(Meanings(graph), graph.nodes)
    large = [candidate for candidate in candidates if "4x4" in candidate.kernel.form]
    assert len(large) == 3  # all of 3x3 but the one that steps
    assert all(place(graph, candidate.region.nodes, candidate.kernel) for candidate in large)
    supply(graph, [candidate.kernel for candidate in large])
    library = build([candidate.kernel for candidate in large], levels=(native_level(),))
    candidate, original = opened(to_model(embed(graph, library.domain)), library), opened(proto)
    for batch, height, width in ((1, 32, 32), (2, 7, 9), (1, 5, 64), (3, 1, 2)):
        image = normal(batch, 16, height, width)
        (result,), (wanted,) = (
            session.run(None, {"x": image}) for session in (candidate, original)
        )
        np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=2e-4 * abs(wanted).max())


# ------------------------------------------------------------------------------------ windows


@st.composite
def windows(draw):
    """A window over an image, and the sizes that the image has."""
    name = draw(st.sampled_from(["Conv", "MaxPool", "AveragePool"]))
    taps = [draw(st.integers(1, 4)) for _ in range(2)]
    strides = [draw(st.integers(1, k)) for k in taps]  # the runtime refuses some longer ones
    attributes = {"kernel_shape": taps, "strides": strides}
    if name != "AveragePool" and draw(st.booleans()):
        attributes["dilations"] = [draw(st.integers(1, 2)) for _ in range(2)]
    auto = draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in (*taps, *taps)]
        if name != "Conv":
            attributes["ceil_mode"] = draw(st.integers(0, 1))
    elif "dilations" not in attributes:
        attributes["auto_pad"] = auto
    return name, attributes, [draw(st.integers(8, 13)) for _ in range(2)]


@given(windows())
@settings(max_examples=examples(60), deadline=None)
def test_windows_give_the_sizes_that_the_runtime_does(window):
    name, attributes, sides = window
    inputs = ["x", "w"] if name == "Conv" else ["x"]
    weights = np.zeros((1, 1, *attributes["kernel_shape"]), np.float32)
    graph = helper.make_graph(
        [helper.make_node(name, inputs, ["y"], **attributes)],
        "window",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")] if name == "Conv" else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    image = np.zeros((1, 1, *sides), np.float32)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    wanted = session.run(None, {"x": image})[0].shape[2:]
    loaded = load_graph(model)
    for value, constant in loaded.constants.items():
        loaded.types[value] = TensorType("float32", constant.type.shape)
    (number,) = loaded.nodes
    assert tuple(window_shape(loaded, Sizes(), number, (1, 1, *sides))[2:]) == wanted
    named = window_shape(loaded, Sizes(), number, (1, 1, "h", "w"))[2:]
    values = {"floor": math.floor, "h": sides[0], "w": sides[1]}
    for size, expected in zip(named, wanted, strict=True):
        assert size is None or eval(str(size), {}, values) == expected


@given(st.integers(1, 5), st.integers(-4, 9), st.integers(1, 4), st.integers(0, 30))
@settings(max_examples=examples(80), deadline=None)
def test_steps_of_polynomials(factor, shift, stride, size):
    sizes = Sizes()
    whole = sizes.add(sizes.times([factor, "h"]), shift)
    stepped = sizes.steps(whole, stride)
    assert eval(str(stepped), {}, {"floor": math.floor, "h": size}) == (
        (factor * size + shift) // stride
    )


def test_equal_sizes_have_equal_names():
    sizes = Sizes()
    by_three = sizes.steps(sizes.add("h", 2 - 3 + 2), 2)  # 3 taps, padded, steps of 2
    by_one = sizes.steps(sizes.add("h", -1 + 2), 2)
    assert by_three == by_one == "floor((h + 1)/2)"
    assert sizes.steps(sizes.times([4, "h"]), 2) == "2*h"
