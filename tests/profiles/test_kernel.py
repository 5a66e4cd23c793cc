import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tensolog.profiles.kernel import (
    Kernel,
    KernelError,
    Opaque,
    TensorSpec,
    TensorValue,
    attribute_value,
    dtype_name,
    element_type,
    numpy_dtype,
    small_value,
)

X = TensorSpec("float32", (1, 64, 56, 56))
W = TensorSpec("float32", (64, 64, 3, 3), constant=True)
CONV = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}


def conv(attributes=CONV, opset=18, inputs=(X, W)):
    return Kernel("", "Conv", opset, attributes, inputs)


def test_the_hash_is_the_one_stored_in_catalogs():
    """Changing it makes every stored measurement useless: bump the schema then."""
    assert conv().hash == "0348f930a356757cb4fa23d7bd24c0c87fdf4a59a06e4d3855a776a93bfd6d5b"


def test_equal_work_has_an_equal_hash():
    expected = conv()
    assert Kernel("ai.onnx", "Conv", 18, CONV, (X, W)) == expected
    assert conv(tuple(reversed(list(CONV.items())))).hash == expected.hash
    assert conv(opset=11).hash == expected.hash  # Conv did not change between 11 and 18
    assert conv({**CONV, "group": 1, "auto_pad": b"NOTSET"}).hash == expected.hash
    assert conv(inputs=(X, W, None)).hash == expected.hash
    assert hash(conv()) == hash(expected)


@pytest.mark.parametrize(
    "other",
    [
        conv({**CONV, "group": 2}),
        conv({**CONV, "pads": [0, 0, 0, 0]}),
        conv(inputs=(TensorSpec("float32", (2, 64, 56, 56)), W)),
        conv(inputs=(TensorSpec("float16", (1, 64, 56, 56)), W)),
        conv(inputs=(X, TensorSpec("float32", (64, 64, 3, 3)))),
        conv(inputs=(X, W, TensorSpec("float32", (64,), constant=True))),
        conv(opset=22),
        Kernel("com.microsoft", "Conv", 18, CONV, (X, W)),
        Kernel("", "Conv", 18, CONV, (X, W), outputs=2),
    ],
    ids=range(9),
)
def test_different_work_has_a_different_hash(other):
    assert other.hash != conv().hash


def test_the_value_of_a_small_constant_counts():
    def reshape(*target):
        shape = TensorSpec("int64", (len(target),), True, target)
        return Kernel("", "Reshape", 18, (), (X, shape))

    assert reshape(64, -1).hash != reshape(-1, 64).hash
    assert reshape(64, -1).hash == reshape(*np.array([64, -1])).hash


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_floats_are_float32(number):
    spelled = float(f"{number:.9g}")  # enough digits to come back as the same float32
    first = Kernel("", "Elu", 18, {"alpha": number}, (X,))
    other = Kernel("", "Elu", 18, {"alpha": spelled}, (X,))
    assert first.hash == other.hash
    proto = helper.make_attribute("alpha", number)
    assert Kernel("", "Elu", 18, {"alpha": proto}, (X,)).hash == first.hash


dtypes = st.sampled_from(["float32", "int64", "bool", "float16"])
specs = st.builds(
    TensorSpec, dtypes, st.lists(st.integers(0, 4), max_size=3).map(tuple), st.booleans()
)
attributes = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.one_of(
        st.integers(-(2**40), 2**40),
        st.text(max_size=4),
        st.floats(width=32, allow_nan=False),
        st.lists(st.integers(), max_size=3),
    ),
    max_size=3,
)


@given(attributes, st.lists(st.none() | specs, max_size=3), st.randoms())
def test_the_hash_ignores_the_order_of_attributes_only(attributes_, inputs, random):
    kernel = Kernel("my", "Op", 1, attributes_, tuple(inputs))
    pairs = list(attributes_.items())
    random.shuffle(pairs)
    assert Kernel("my", "Op", 1, tuple(pairs), tuple(inputs)).hash == kernel.hash
    assert Kernel("my", "Op", 1, {**attributes_, "z": 0}, tuple(inputs)).hash != kernel.hash


@pytest.mark.parametrize(
    ("kernel", "label"),
    [
        (conv(), "Conv 3x3 64->64 56x56"),
        (
            conv({**CONV, "group": 64}, inputs=(X, TensorSpec("float32", (64, 1, 3, 3), True))),
            "Conv 3x3 64->64 /64 56x56",
        ),
        (
            Kernel(
                "",
                "Gemm",
                18,
                {"transB": 1},
                (TensorSpec("float32", (8, 16)), TensorSpec("float32", (32, 16))),
            ),
            "Gemm 8x16 * 16x32",
        ),
        (Kernel("", "Relu", 18, (), (TensorSpec("float16", ()),)), "Relu scalar float16"),
        (Kernel("com.microsoft", "Gelu", 1, (), (X,)), "com.microsoft.Gelu 1x64x56x56"),
        (Kernel("", "RandomNormal", 18, {"shape": [2]}, ()), "RandomNormal"),
    ],
)
def test_labels_are_for_people(kernel, label):
    assert kernel.label() == label


def test_every_dtype_has_a_name_and_comes_back():
    for element in TensorProto.DataType.values():
        if element != TensorProto.UNDEFINED:
            assert element_type(dtype_name(element)) == element
            assert numpy_dtype(dtype_name(element)) == helper.tensor_dtype_to_np_dtype(element)
    assert element_type("float") == TensorProto.FLOAT
    with pytest.raises(KernelError, match="unknown dtype 'quaternion'"):
        element_type("quaternion")
    with pytest.raises(KernelError):
        dtype_name(TensorProto.UNDEFINED)


def test_attributes_of_every_type():
    tensor = onnx.numpy_helper.from_array(np.arange(3, dtype=np.int64))
    tensor_value = attribute_value(helper.make_attribute("value", tensor))
    assert tensor_value == TensorValue("int64", (3,), np.arange(3, dtype="<i8").tobytes())
    assert attribute_value(helper.make_attribute("mode", "linear")) == "linear"
    assert attribute_value(helper.make_attribute("axes", [1, 2])) == (1, 2)
    graph = helper.make_graph([], "body", [], [])
    assert isinstance(attribute_value(helper.make_attribute("body", graph)), Opaque)


def test_bytes_of_narrow_types():
    assert TensorSpec("int4", (3,)).size_bytes == 2
    assert TensorSpec("bfloat16", (3, 2)).size_bytes == 12
    assert TensorSpec("float32", (0, 2)).size_bytes == 0
    assert TensorSpec("float64", ()).size_bytes == 8


def test_which_values_belong_to_a_kernel():
    assert small_value("Reshape", 1, np.array([2, 3])) == (2, 3)
    assert small_value("Reshape", 1, np.zeros(65, dtype=np.int64)) is None
    assert small_value("Pow", 1, np.float32(2.0)[None]) == (2.0,)
    assert small_value("Mul", 1, np.float32(2.0)[None]) is None
    assert small_value("Reshape", 1, None) is None
