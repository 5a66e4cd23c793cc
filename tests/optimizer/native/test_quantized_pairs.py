"""Sums and products of two tensors of 8-bit integers, and the runtime's own operators spelled."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.native.fuse_graph import prepare, regions
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.quantized.elementwise_pairs import quantized_pairs
from tensolog.optimizer.native.quantized.groups import separate
from tensolog.optimizer.native.runtime_answers import optimized_nodes
from tensolog.profiles.sessions.execution import Execution

from tests.campaigns import examples

from .build import fused, kernels_of, needs_compiler, opened, typed
from .test_quantized_attention import SIGNED, Pair, computing, quantized_model, real, together

pytestmark = needs_compiler
node = helper.make_node
SHAPES = {
    "alike": ((2, 3, 17), (2, 3, 17)),
    "weights of channels": ((2, 9, 5, 7), (2, 9, 1, 1)),
    "weights first": ((9, 1), (2, 9, 40)),
    "a mask": ((2, 3, 8, 20), (2, 1, 1, 20)),
    "a row": ((4, 33), (33,)),
    "a number": ((4, 33), (1, 1)),
    "of a free batch": (("n", 12), ("n", 12)),
}
LOW = {"uint8": 0, "int8": -128}


def paired(op_type, shapes, scales, zeros, dtype="uint8", row=None, is_operator=False):
    """A sum or a product of x and w, of which w is the constant `row` where there is one."""
    constants = {f"s{name}": np.float32(scale) for name, scale in zip("xwy", scales, strict=True)}
    for name, zero in zip("xwy", zeros, strict=True):
        constants[f"z{name}"] = np.array(zero, dtype)
    whole = [shapes[0], shapes[1]] if len(shapes[0]) >= len(shapes[1]) else [shapes[1], shapes[0]]
    behind = len(whole[0]) - len(whole[1])
    result = tuple(
        whole[1][axis - behind] if axis >= behind and size == 1 else size
        for axis, size in enumerate(whole[0])
    )
    inputs = {"x": (dtype, shapes[0]), "w": (dtype, shapes[1])}
    if row is not None:
        constants["w"] = row
        del inputs["w"]
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], ["X"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["W"]),
        node(op_type, ["X", "W"], ["P"]),
        node("QuantizeLinear", ["P", "sy", "zy"], ["y"]),
    ]
    if is_operator:
        read = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
        nodes = [node(f"QLinear{op_type}", read, ["y"], domain="com.microsoft")]
    return quantized_model(nodes, inputs, {"y": (dtype, result)}, constants)


def drawn(rng, shapes, dtype, n=3):
    low = LOW[dtype]
    return {
        name: rng.integers(
            low, low + 256, [n if isinstance(size, str) else size for size in shape]
        ).astype(dtype)
        for name, shape in zip("xw", shapes, strict=True)
    }


def test_a_sum_or_product_gives_what_the_runtime_gives():
    rng = np.random.default_rng(12)
    cases = []
    for i in range(examples(96)):
        op_type, dtype = ("Add", "Mul")[i % 2], ("uint8", "int8")[i // 2 % 2]
        shapes = SHAPES[sorted(SHAPES)[int(rng.integers(len(SHAPES)))]]
        zeros = (LOW[dtype] + rng.integers(0, 256, 3)).tolist()
        sx, sw = rng.uniform(0.001, 0.2, 2).tolist()
        sy = sx * sw * rng.uniform(40, 200) if op_type == "Mul" else max(sx, sw) * 1.7
        feeds = drawn(rng, shapes, dtype)
        row = feeds.pop("w") if i % 3 == 0 and "n" not in shapes[1] else None
        is_operator = dtype == "uint8" and i % 5 == 0
        proto = paired(op_type, shapes, (sx, sw, sy), zeros, dtype, row, is_operator)
        scales = {"x": (np.float32(sx), zeros[0]), "w": (np.float32(sw), zeros[1])}
        cases.append((proto, real(feeds, scales)))
    for proto, session, changed, feeds in together(cases):
        assert len(kernels_of(changed)) == len(computing(changed)) == 1
        (wanted,), (result,) = opened(proto).run(None, feeds), session.run(None, feeds)
        np.testing.assert_array_equal(result, wanted)


def squeezed():
    """Two convolutions, and between them what the first gives times the weights of its channels."""
    rng = np.random.default_rng(4)
    constants = {"sx": 0.02, "sw": 0.01, "sy": 0.05, "sg": 1 / 256, "sz": 0.03}
    constants = {name: np.float32(array) for name, array in constants.items()}
    constants |= {
        f"z{name}": np.uint8(zero_point)
        for name, zero_point in zip("xygz", (120, 99, 0, 77), strict=True)
    }
    constants |= {"zw": np.int8(0), "zv": np.int8(0), "sv": np.float32(0.02)}
    constants |= {
        name: rng.integers(-64, 64, (16, 16, 3, 3)).astype(np.int8) for name in ("w", "v")
    }
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], ["X"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["W"]),
        node("Conv", ["X", "W"], ["A"], pads=[1] * 4),
        node("QuantizeLinear", ["A", "sy", "zy"], ["a"]),
        node("DequantizeLinear", ["a", "sy", "zy"], ["B"]),
        node("DequantizeLinear", ["g", "sg", "zg"], ["G"]),
        node("Mul", ["B", "G"], ["C"]),
        node("QuantizeLinear", ["C", "sz", "zz"], ["c"]),
        node("DequantizeLinear", ["c", "sz", "zz"], ["D"]),
        node("DequantizeLinear", ["v", "sv", "zv"], ["V"]),
        node("Conv", ["D", "V"], ["E"], pads=[1] * 4),
        node("QuantizeLinear", ["E", "sy", "zy"], ["y"]),
    ]
    inputs = {"x": ("uint8", [1, 16, 9, 7]), "g": ("uint8", [1, 16, 1, 1])}
    return quantized_model(nodes, inputs, {"y": ("uint8", [1, 16, 9, 7])}, constants)


def test_between_convolutions_channels_stay_last():
    proto = squeezed()
    changed, library = fused(proto)
    names = [name.partition("_")[0] for name in computing(changed)]
    conv = "ConvQuantizeLinear"
    assert names == ["Transpose", conv, "QuantizedMul", conv, "Transpose"]
    rng = np.random.default_rng(5)
    feeds = {
        name: rng.integers(0, 256, shape).astype(np.uint8)
        for name, shape in (("x", (1, 16, 9, 7)), ("g", (1, 16, 1, 1)))
    }
    (wanted,), (result,) = opened(proto).run(None, feeds), opened(changed, library).run(None, feeds)
    np.testing.assert_array_equal(result, wanted)


def found_in(proto, optimized=None):
    graph = typed(proto)
    separate(graph)
    return quantized_pairs(Meanings(graph, optimized), graph.nodes)


@pytest.mark.parametrize("change", ["nothing", "the sum is read", "another type"])
def test_what_is_no_sum_of_integers_is_left(change):
    proto = paired("Add", ((4, 9), (4, 9)), (0.1, 0.2, 0.3), (7, 8, 9))
    if change == "the sum is read":
        proto.graph.output.append(helper.make_tensor_value_info("P", TensorProto.FLOAT, None))
    elif change == "another type":
        for node_ in proto.graph.node:
            if node_.op_type == "QuantizeLinear":
                del node_.input[2]
        proto.graph.node[-1].input.append("int")
        proto.graph.initializer.append(helper.make_tensor("int", TensorProto.INT8, [], [3]))
        proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    assert bool(found_in(proto)) == (change == "nothing")


def test_what_the_runtime_computes_in_float32_is_left():
    """Signed integers that nothing in the model has quantized, it doesn't compute with."""
    case = Pair((2, 5, 9), (2, 9, 33), **SIGNED)
    proto = case.model()
    ends = [node for node in proto.graph.node if node.output[0] in ("x", "w")]
    for node_, entry in zip(ends, proto.graph.input, strict=True):
        proto.graph.node.remove(node_)
        entry.name = entry.name.removesuffix("_real")
        entry.type.tensor_type.elem_type = TensorProto.INT8
    optimized = optimized_nodes(proto.SerializeToString(), Execution(), 1)
    assert optimized is not None
    if "P" not in optimized:
        pytest.skip("a processor for which the runtime has kernels of signed integers")
    graph = typed(proto)
    prepare(graph)
    assert not regions(Meanings(graph, optimized), graph.nodes)


def test_a_model_of_the_runtimes_own_operators_has_the_kernels_of_qdq_nodes():
    rng = np.random.default_rng(6)
    constants = {"s": np.float32(0.05), "z": np.uint8(120), "sw": np.float32(0.01)}
    constants |= {"zw": np.int8(0), "so": np.float32(1 / 256), "zo": np.uint8(0)}
    constants["w"] = rng.integers(-64, 64, (24, 40)).astype(np.int8)
    constants["b"] = rng.integers(-900, 900, 40).astype(np.int32)
    domain = {"domain": "com.microsoft"}
    own_scale = ["s", "z"]
    nodes = [
        node("QGemm", ["x", *own_scale, "w", "sw", "zw", "b", *own_scale], ["a"], **domain),
        node("QLinearSigmoid", ["a", *own_scale, *own_scale], ["c"], **domain),
        node("QLinearMul", ["a", *own_scale, "c", *own_scale, *own_scale], ["d"], **domain),
        node("QLinearAdd", ["d", *own_scale, "r", *own_scale, *own_scale], ["e"], **domain),
        node("QLinearSoftmax", ["e", *own_scale, "so", "zo"], ["f"], axis=-1, opset=13, **domain),
        node(
            "QLinearConcat", ["so", "zo", "f", "so", "zo", "f", "so", "zo"], ["y"], axis=1, **domain
        ),
    ]
    inputs = {"x": ("uint8", [5, 24]), "r": ("uint8", [5, 40])}
    proto = quantized_model(nodes, inputs, {"y": ("uint8", [5, 80])}, constants)
    changed, library = fused(proto)
    names = [name.partition("_")[0] for name in computing(changed)]
    assert names[0].startswith("GemmQuantizeLinear")
    assert {"QuantizedAdd", "QuantizedSoftmax"} < set(names)
    feeds = {
        name: rng.integers(0, 256, shape).astype(np.uint8) for name, (_, shape) in inputs.items()
    }
    (wanted,), (result,) = opened(proto).run(None, feeds), opened(changed, library).run(None, feeds)
    np.testing.assert_array_equal(result, wanted)
