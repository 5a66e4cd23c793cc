"""Kernels are built and run; ONNX Runtime is the oracle of their output shapes."""

import gc

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tensolog.profiles.kernel import Kernel, KernelError, TensorSpec
from tensolog.profiles.kernels.kernel_model import (
    build_model,
    draw_indices,
    kernel_input,
    output_shapes,
)
from tensolog.profiles.sessions.session import AS_WRITTEN, BoundRun, open_session


def tensor(*shape, dtype="float32"):
    return TensorSpec(dtype, shape)


def weight(*shape, dtype="float32"):
    return TensorSpec(dtype, shape, constant=True)


def ints(*values, dtype="int64", constant=True):
    return TensorSpec(dtype, (len(values),), constant, values)


def scalar(value, dtype="float32"):
    return TensorSpec(dtype, (), True, (value,))


A = tensor(2, 3, 8)
IMAGE = tensor(1, 4, 8, 8)
SAMPLE = {
    "Relu": Kernel("", "Relu", 18, (), (A,)),
    "Sqrt": Kernel("", "Sqrt", 18, (), (A,)),
    "Acos": Kernel("", "Acos", 18, (), (A,)),
    "Acosh": Kernel("", "Acosh", 18, (), (A,)),
    "Add": Kernel("", "Add", 18, (), (A, weight(8))),
    "Pow": Kernel("", "Pow", 18, (), (A, scalar(2.0))),
    "Div of integers": Kernel(
        "", "Div", 18, (), (tensor(16, dtype="int64"), tensor(16, dtype="int64"))
    ),
    "Where": Kernel("", "Where", 18, (), (tensor(2, 3, 8, dtype="bool"), A, A)),
    "Cast": Kernel("", "Cast", 18, {"to": 10}, (A,)),
    "Clip": Kernel("", "Clip", 18, (), (A, scalar(0.0), scalar(6.0))),
    "Clip without minimum": Kernel("", "Clip", 18, (), (A, None, scalar(6.0))),
    "MatMul": Kernel("", "MatMul", 18, (), (A, weight(8, 5))),
    "Gemm": Kernel("", "Gemm", 18, {"transB": 1}, (tensor(3, 8), weight(5, 8), weight(5))),
    "Conv": Kernel("", "Conv", 18, {"pads": [1, 1, 1, 1]}, (IMAGE, weight(8, 4, 3, 3))),
    "ConvTranspose": Kernel("", "ConvTranspose", 18, (), (IMAGE, weight(4, 2, 3, 3))),
    "MaxPool": Kernel("", "MaxPool", 18, {"kernel_shape": [2, 2]}, (IMAGE,)),
    "GlobalAveragePool": Kernel("", "GlobalAveragePool", 18, (), (IMAGE,)),
    "BatchNormalization": Kernel(
        "", "BatchNormalization", 18, (), (IMAGE, weight(4), weight(4), weight(4), weight(4))
    ),
    "LayerNormalization": Kernel("", "LayerNormalization", 18, (), (A, weight(8), weight(8))),
    "Softmax": Kernel("", "Softmax", 18, {"axis": -1}, (A,)),
    "ReduceMean": Kernel("", "ReduceMean", 18, {"keepdims": 0}, (A, ints(-1))),
    "ArgMax": Kernel("", "ArgMax", 18, {"axis": 1}, (A,)),
    "TopK": Kernel("", "TopK", 18, (), (A, ints(3)), 2),
    "CumSum": Kernel("", "CumSum", 18, (), (A, scalar(1, "int64"))),
    "Transpose": Kernel("", "Transpose", 18, {"perm": [2, 0, 1]}, (A,)),
    "Reshape": Kernel("", "Reshape", 18, (), (A, ints(6, 8))),
    "Squeeze": Kernel("", "Squeeze", 18, (), (tensor(1, 3), ints(0))),
    "Flatten": Kernel("", "Flatten", 18, (), (A,)),
    "Expand": Kernel("", "Expand", 18, (), (tensor(3, 1), ints(2, 3, 4, constant=False))),
    "Tile": Kernel("", "Tile", 18, (), (A, ints(1, 2, 1))),
    "Concat": Kernel("", "Concat", 18, {"axis": 1}, (A, A)),
    "Split": Kernel("", "Split", 18, {"axis": 1}, (A, ints(1, 2)), 2),
    "Slice": Kernel("", "Slice", 18, (), (A, ints(1), ints(-1), ints(2), ints(2))),
    "Pad": Kernel("", "Pad", 18, (), (A, ints(0, 0, 1, 0, 0, 1))),
    "Gather": Kernel("", "Gather", 18, {"axis": 1}, (weight(5, 3), tensor(2, 7, dtype="int64"))),
    "GatherElements": Kernel("", "GatherElements", 18, (), (A, tensor(1, 3, 8, dtype="int64"))),
    "GatherND": Kernel("", "GatherND", 18, (), (A, tensor(4, 2, dtype="int64"))),
    "ScatterND": Kernel("", "ScatterND", 18, (), (A, tensor(4, 1, dtype="int64"), tensor(4, 3, 8))),
    "Resize": Kernel(
        "",
        "Resize",
        18,
        {"mode": "nearest"},
        (IMAGE, None, TensorSpec("float32", (4,), True, (1.0, 1.0, 2.0, 2.0))),
    ),
    "Shape": Kernel("", "Shape", 18, (), (A,)),
    "NonZero": Kernel("", "NonZero", 18, (), (A,)),
    "Einsum": Kernel("", "Einsum", 18, {"equation": "ij,jk->ik"}, (tensor(3, 4), tensor(4, 5))),
    "LSTM": Kernel(
        "",
        "LSTM",
        18,
        {"hidden_size": 6},
        (tensor(4, 1, 3), weight(1, 24, 3), weight(1, 24, 6)),
        3,
    ),
    "QuantizeLinear": Kernel("", "QuantizeLinear", 18, (), (A, scalar(0.1), scalar(3, "uint8"))),
    "bfloat16": Kernel("", "Cast", 18, {"to": 1}, (tensor(4, dtype="bfloat16"),)),
    "Gelu of Microsoft": Kernel("com.microsoft", "Gelu", 1, (), (A,)),
}


def run(kernel, copies=1):
    from tensolog.profiles.sessions.session import BoundRun

    model, feeds = build_model(kernel, copies)
    session = open_session(model, threads=1)
    assert BoundRun(session, feeds).time() > 0
    values = BoundRun(session, feeds)
    return session, values, feeds


@pytest.mark.parametrize("name", SAMPLE)
def test_a_kernel_runs_and_its_inferred_shape_is_right(name):
    kernel = SAMPLE[name]
    session, _, feeds = run(kernel)
    if kernel.is_view or kernel.domain:
        return  # a view stands in; ONNX knows no shapes of other domains
    inferred = output_shapes(kernel)
    if all(array.dtype.name != "bfloat16" for array in feeds.values()):
        outputs = session.run(None, feeds)
        assert len(outputs) == len(inferred) == kernel.outputs
        for shape, array in zip(inferred, outputs, strict=True):
            if shape is not None:
                assert shape == (array.dtype.name, array.shape)
    if kernel.op_type != "NonZero":  # its shape depends on the data
        assert None not in inferred


@pytest.mark.parametrize("name", ["MatMul", "Split", "Gather"])
def test_copies_are_kept_apart(name):
    session, _, feeds = run(SAMPLE[name], copies=3)
    assert len(session.get_outputs()) == 3 * SAMPLE[name].outputs
    dynamic = [spec for spec in SAMPLE[name].inputs if spec is not None and not spec.constant]
    assert len(feeds) == 3 * len(dynamic)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_copies_have_constants_of_their_own(dtype):
    """The runtime keeps equal constants once, packed: the copies would find them in the cache."""
    kernel = Kernel("", "Add", 18, (), (tensor(100, dtype=dtype), weight(100, dtype=dtype)))
    model, _ = build_model(kernel, 4)
    constants = [
        numpy_helper.to_array(initializer)
        for initializer in onnx.load_from_string(model).graph.initializer
    ]
    assert len({array.tobytes() for array in constants}) == 4
    for array in constants:  # valid wherever those of the first are
        assert sorted(array.tolist()) == sorted(constants[0].tolist())


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("", "MatMul", 18, (), (tensor(3, 1024), weight(1024, 1100))),
        Kernel("", "Gather", 18, (), (weight(1100, 1024), tensor(5, dtype="int64"))),
        Kernel("", "Add", 18, (), (tensor(1100, 1024), weight(1100, 1024))),
    ],
    ids=lambda kernel: kernel.op_type,
)
def test_large_constants_beside_the_model_are_the_same(kernel):
    outside = {}
    whole, feeds = build_model(kernel)
    small, same_feeds = build_model(kernel, external_arrays=outside)
    assert len(small) < 10_000 and len(outside) == 1
    session = open_session(small, threads=1, execution=AS_WRITTEN, constants=outside)
    outside.clear()
    gc.collect()
    junk = [np.full((1100, 1024), 7.0, dtype=np.float32) for _ in range(4)]  # over freed memory
    expected = open_session(whole, threads=1, execution=AS_WRITTEN).run(None, feeds)[0]
    assert np.array_equal(session.run(None, same_feeds)[0], expected)
    assert len(junk) == 4


def test_a_view_is_timed_on_one_element():
    _, feeds = build_model(SAMPLE["Reshape"])
    assert [array.size for array in feeds.values()] == [1]


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Kernel("", "Relu", 18, (), (weight(3),)), "constant"),
        (Kernel("", "StringNormalizer", 18, (), (tensor(3, dtype="string"),)), "strings"),
        (Kernel("", "Relu", 18, (), (tensor(1 << 16, 1 << 16),)), "MiB"),
        (
            Kernel("", "If", 18, {"then_branch": helper.make_graph([], "g", [], [])}, (A,)),
            "then_branch",
        ),
        (Kernel("", "Slice", 18, (), (A, TensorSpec("int64", (2,), True, (0,)))), "1 values"),
    ],
)
def test_what_cannot_stand_alone_is_refused(kernel, reason):
    with pytest.raises(KernelError, match=reason):
        build_model(kernel)


def test_a_view_of_a_constant_by_a_computed_shape_runs():
    run(Kernel("", "Reshape", 18, (), (weight(3), tensor(1, dtype="int64"))))


def test_indices_lie_in_range():
    rng = np.random.default_rng(0)
    for axis, size in ((0, 5), (1, 3), (-1, 3)):
        indices = tensor(50, dtype="int64")
        kernel = Kernel("", "Gather", 18, {"axis": axis}, (tensor(5, 3), indices))
        drawn = kernel_input(kernel, 1, indices, rng)
        assert set(drawn.tolist()) == set(range(size))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_other_indices_are_read_by_the_next_run(dtype):
    kernel = Kernel("", "Gather", 18, (), (tensor(300, 2), tensor(40, dtype=dtype)))
    model, feeds = build_model(kernel, 2)
    run = BoundRun(open_session(model, threads=1), feeds)
    before = {name: array.copy() for name, array in feeds.items()}
    draw_indices(kernel, feeds, np.random.default_rng(1))
    run.time()
    for name, array in feeds.items():
        assert np.array_equal(array, before[name]) is not name.startswith("x1")
    for copy, rows in enumerate(run._binding.copy_outputs_to_cpu()):
        assert np.array_equal(rows, feeds[f"x0_{copy}"][feeds[f"x1_{copy}"]])


def test_only_indices_are_drawn_again():
    kernel = Kernel("", "Add", 14, (), (tensor(40, dtype="int64"), tensor(40, dtype="int64")))
    feeds = build_model(kernel)[1]
    before = {name: array.copy() for name, array in feeds.items()}
    draw_indices(kernel, feeds, np.random.default_rng(1))
    assert all(np.array_equal(array, before[name]) for name, array in feeds.items())


def test_random_inputs_are_inside_of_the_operators_domain():
    rng = np.random.default_rng(0)
    for op_type, low, high in (("Sqrt", 0, np.inf), ("Acos", -1, 1), ("Acosh", 1, np.inf)):
        kernel = Kernel("", op_type, 18, (), (tensor(1000),))
        drawn = kernel_input(kernel, 0, kernel.inputs[0], rng)
        assert drawn.dtype == np.float32
        assert drawn.min() >= low and drawn.max() <= high


def test_dtype_names_of_inferred_outputs():
    cast = Kernel("", "Cast", 18, {"to": 10}, (A,))
    assert output_shapes(cast) == (("float16", (2, 3, 8)),)
    assert output_shapes(Kernel("my", "Op", 1, (), (A,), 2)) == (None, None)
