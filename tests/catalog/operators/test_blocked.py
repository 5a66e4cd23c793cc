"""What is specified of images in blocks is what ONNX Runtime computes of their bytes."""

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from tensolog.catalog.operators import ShapeError, specification
from tensolog.optimizer.layouts.runtime import NCHWC, activations, block_size

pytestmark = pytest.mark.skipif(block_size() is None, reason="the runtime has no blocked kernels")

RNG = np.random.default_rng(3)
PARAMETERS = {"LeakyRelu": [0.2], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.7]}


def runtime(op_type, arrays, attributes):
    """The bytes that the runtime's operator gives."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    node = helper.make_node(op_type, names, ["y"], domain=NCHWC, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in zip(names, arrays, strict=True)
        if array is not None
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "one", inputs, [output])
    imports = [helper.make_opsetid("", 13), helper.make_opsetid(NCHWC, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    return session.run(None, feeds)[0]


def specified(op_type, arrays, attributes):
    (result,) = specification(NCHWC, op_type, 1).evaluate(arrays, attributes)
    return result


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def merged(array):
    """A tensor in index notation as the runtime calls it: [n, k, h, w, b] is [n, k b, h, w]."""
    if array is None or array.ndim == 1:
        return array
    if array.ndim == 6:  # filters [q, k, h, w, b, b]
        q, k, h, w, b, _ = array.shape
        return array.reshape(q * b, k * b, h, w)
    n, k, h, w, b = array.shape
    return array.reshape(n, k * b, h, w)


def assert_close(ours, theirs):
    assert ours.size == theirs.size
    assert np.allclose(ours.ravel(), theirs.ravel(), rtol=1e-4, atol=1e-4)


sizes = st.integers(1, 5)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 2), c=st.integers(1, 9), h=sizes, w=sizes, last=st.booleans())
def test_reorders(n, c, h, w, last):
    block, c = block_size(), 4 * c
    shape = (n, h, w, c) if last else (n, c, h, w)
    image = numbers(*shape)
    attributes = {"channels_last": int(last)}
    laid = specified("ReorderInput", [image], {**attributes, "block": block})
    assert_close(laid, runtime("ReorderInput", [image], attributes))
    back = {"channels": c, **attributes}
    assert np.array_equal(specified("ReorderOutput", [laid], back), image)
    assert np.array_equal(runtime("ReorderOutput", [merged(laid)], back), image)


@settings(max_examples=40, deadline=None)
@given(
    form=st.sampled_from(["dense", "groups", "each", "few"]),
    k=st.integers(1, 2),
    q=st.integers(1, 2),
    h=st.integers(3, 6),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    activation=st.sampled_from(sorted({"", *activations()})),
    bias=st.booleans(),
    summand=st.booleans(),
)
def test_convolutions(form, k, q, h, stride, pad, activation, bias, summand):
    b, kernel = block_size(), (3, 2)
    group = 1
    image, filters = numbers(2, k, h, h, b), numbers(q, k, *kernel, b, b)
    plain_filters = merged(filters)
    if form == "groups":
        group, q = 2, 2
        image, filters = numbers(2, 2 * k, h, h, b), numbers(q, k, *kernel, b, b)
        plain_filters = merged(filters)
    elif form == "each":
        group, q = k * b, k
        filters = numbers(k, 1, *kernel, b)
        plain_filters = filters.reshape(k * b, 1, *kernel)
    elif form == "few":
        image, filters = numbers(2, 3, h, h), numbers(q, 3, *kernel, b)
        plain_filters = filters.reshape(q * b, 3, *kernel)
    attributes = {
        "group": group, "pads": [pad] * 4, "strides": [stride] * 2, "kernel_shape": list(kernel),
    }  # fmt: skip
    if activation:
        attributes["activation"] = activation
    if activation in PARAMETERS:
        attributes["activation_params"] = PARAMETERS[activation]
    out = [(h + 2 * pad - size) // stride + 1 for size in kernel]
    beside = [
        numbers(q * b) if bias else None,
        numbers(2, q, *out, b) if summand else None,
    ]
    ours = specified("Conv", [image, filters, *beside], attributes)
    plain_image = image if form == "few" else merged(image)
    theirs = runtime("Conv", [plain_image, plain_filters, *map(merged, beside)], attributes)
    assert_close(ours, theirs)


@settings(max_examples=40, deadline=None)
@given(
    op_type=st.sampled_from(["MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"]),
    h=st.integers(3, 6),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    counted=st.booleans(),
)
def test_pools(op_type, h, stride, pad, counted):
    image = numbers(2, 2, h, h, block_size())
    attributes = {}
    if not op_type.startswith("Global"):
        attributes = {"kernel_shape": [2, 3], "pads": [pad] * 4, "strides": [stride] * 2}
    if op_type == "AveragePool":
        attributes["count_include_pad"] = int(counted)
    ours = specified(op_type, [image], attributes)
    assert_close(ours, runtime(op_type, [merged(image)], attributes))


@settings(max_examples=40, deadline=None)
@given(
    means=st.sampled_from(
        [("nearest", "asymmetric"), ("linear", "asymmetric"), ("linear", "half_pixel"),
         ("linear", "align_corners")]
    ),
    h=st.integers(1, 6),
    w=st.integers(1, 6),
    factors=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)  # fmt: skip
def test_enlarged_images(means, h, w, factors):
    mode, transform = means
    image = numbers(2, 2, h, w, block_size())
    attributes = {
        "mode": mode, "coordinate_transformation_mode": transform, "scales": [1, 1, *factors],
    }  # fmt: skip
    ours = specified("Upsample", [image], attributes)
    assert_close(ours, runtime("Upsample", [merged(image)], attributes))


@pytest.mark.parametrize(
    "changed",
    [
        {"scales": [1, 2, 2, 3]},
        {"scales": [2, 1, 2, 3]},
        {"scales": [1, 1, 0, 3]},
        {"scales": [1, 1, 2]},
        {"coordinate_transformation_mode": "half_pixel"},
    ],
)
def test_what_the_runtime_refuses_to_enlarge_has_no_value(changed):
    image = numbers(1, 1, 2, 3, block_size())
    attributes = {
        "mode": "nearest", "coordinate_transformation_mode": "asymmetric", "scales": [1, 1, 2, 3],
    }  # fmt: skip
    assert_close(
        specified("Upsample", [image], attributes),
        runtime("Upsample", [merged(image)], attributes),
    )
    with pytest.raises(ShapeError):
        specified("Upsample", [image], {**attributes, **changed})
    with pytest.raises(Fail):
        runtime("Upsample", [merged(image)], {**attributes, **changed})
