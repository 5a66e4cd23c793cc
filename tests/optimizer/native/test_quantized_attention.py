"""Products of two matrices of 8-bit integers that both change, and softmax of such: to the bit."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.native.fuse_graph import prepare, regions
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.quantized.groups import separate
from tensolog.optimizer.native.quantized.matrices import matrix_products
from tensolog.optimizer.native.quantized.softmax import softmax_of, softmax_rows, table_of

from tests.campaigns import examples

from .build import (
    TRIED_LEVELS,
    built_together,
    embed,
    fused,
    native_level,
    needs_compiler,
    opened,
    place,
    to_model,
    typed,
)
from .quantized_models import TYPES

pytestmark = needs_compiler
node = helper.make_node


def quantized_model(nodes, inputs, output, constants, opset=20):
    """A model of nodes; `inputs` are {name: (type, shape)}, the output is one such.

    Signed integers are quantized from numbers, and become such again: the runtime computes these
    alone as integers, of scales and zero points whose names end as theirs do.
    """
    ((result_name, (dtype, shape)),) = output.items()
    info = helper.make_tensor_value_info
    input_infos = []
    for name, (of, sizes) in inputs.items():
        if of == "int8":
            read = [f"{name}_real", f"s{name}", f"z{name}"]
            nodes = [node("QuantizeLinear", read, [name]), *nodes]
            input_infos.append(info(f"{name}_real", TensorProto.FLOAT, sizes))
        else:
            input_infos.append(info(name, TYPES[of], sizes))
    result = info(result_name, TYPES[dtype], shape)
    if dtype == "int8":
        nodes = [
            *nodes,
            node("DequantizeLinear", [result_name, "sy", "zy"], [f"{result_name}_real"]),
        ]
        result = info(f"{result_name}_real", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes,
        "quantized",
        input_infos,
        [result],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def real(feeds, scales):
    """The numbers that signed integers stand for, by (scale, zero point); unsigned ones stay."""
    return {
        name if array.dtype == np.uint8 else f"{name}_real": array
        if array.dtype == np.uint8
        else ((array.astype(np.int32) - scales[name][1]) * np.float32(scales[name][0])).astype(
            np.float32
        )
        for name, array in feeds.items()
    }


def computing(proto):
    """The operators of a model but those that quantize at its ends."""
    ends = ("QuantizeLinear", "DequantizeLinear")
    return [node.op_type for node in proto.graph.node if node.op_type not in ends]


def together(cases):
    """For each (model, feeds) a session with its kernels too, and that model: of one library."""
    graphs, kernels = [], []
    for proto, _ in cases:
        graph = typed(proto)
        prepare(graph)
        for region in regions(Meanings(graph), graph.nodes):
            assert place(graph, region.region.nodes, region.kernel)
            supply(graph, [region.kernel])
            kernels.append(region.kernel)
        graphs.append(graph)
    library = build(kernels, levels=(native_level(),))
    for (proto, feeds), graph in zip(cases, graphs, strict=True):
        changed = to_model(embed(graph, library.domain))
        yield proto, opened(changed, library, threads=2), changed, feeds


@dataclass(frozen=True)
class Pair:
    """A product of `x` and `w`, integers both, maybe of transpositions of what is given."""

    x: tuple
    w: tuple
    types: tuple = ("uint8", "uint8", "uint8")
    zeros: tuple = (128, 131, 120)
    x_order: tuple = ()
    w_order: tuple = ()
    y_order: tuple = ()
    is_operator: bool = False
    function: bool = False

    def shapes(self):
        x, w = (
            tuple(shape[axis] for axis in order) if order else shape
            for shape, order in ((self.x, self.x_order), (self.w, self.w_order))
        )
        batch = tuple(
            b if a == 1 else a
            for a, b in zip(
                (1,) * (len(w) - len(x)) + x[:-2], (1,) * (len(x) - len(w)) + w[:-2], strict=True
            )
        )
        y = (*batch, x[-2], w[-1])
        return tuple(y[axis] for axis in self.y_order) if self.y_order else y

    def model(self):
        scale = 0.02 * 0.03 * 60 * 60 / 50
        constants = {"sx": 0.02, "sw": 0.03, "sy": scale, "st": scale * 0.7}
        constants = {name: np.float32(array) for name, array in constants.items()}
        for name, zero, dtype in zip("xwy", self.zeros, self.types, strict=True):
            constants[f"z{name}"] = np.array(zero, dtype)
        nodes, last = [], dict(zip("xw", "xw", strict=True))

        def moved(value, target, like, order):
            if self.is_operator:
                return [node("Transpose", [value], [target], perm=order)]
            numbers = [f"s{like}", f"z{like}"]
            return [
                node("DequantizeLinear", [value, *numbers], [f"{target}_a"]),
                node("Transpose", [f"{target}_a"], [f"{target}_b"], perm=order),
                node("QuantizeLinear", [f"{target}_b", *numbers], [target]),
            ]

        for name, order in (("x", self.x_order), ("w", self.w_order)):
            if order:
                nodes += moved(name, f"{name}_moved", name, order)
                last[name] = f"{name}_moved"
        if self.is_operator:
            operands = [last["x"], "sx", "zx", last["w"], "sw", "zw", "sy", "zy"]
            nodes.append(node("QLinearMatMul", operands, ["y"]))
        else:
            nodes += [
                node("DequantizeLinear", [last["x"], "sx", "zx"], ["X"]),
                node("DequantizeLinear", [last["w"], "sw", "zw"], ["W"]),
                node("MatMul", ["X", "W"], ["P"]),
                node("QuantizeLinear", ["P", "sy", "zy"], ["y"]),
            ]
        output = "y"
        if self.function:
            constants["k"] = np.array(self.zeros[2] // 2 + 7, self.types[2])
            nodes += [
                node("DequantizeLinear", ["y", "sy", "zy"], ["F"]),
                node("DequantizeLinear", ["k", "st", "zy"], ["K"]),
                node("Mul", ["F", "K"], ["G"]),
                node("QuantizeLinear", ["G", "st", "zy"], ["g"]),
                node("DequantizeLinear", ["g", "st", "zy"], ["H"]),
                node("Tanh", ["H"], ["I"]),
                node("QuantizeLinear", ["I", "sy", "zy"], ["t"]),
            ]
            output = "t"
        if self.y_order:
            nodes += moved(output, "m", "y", self.y_order)
            output = "m"
        used = {name for node in nodes for name in node.input}
        return quantized_model(
            nodes,
            {"x": (self.types[0], self.x), "w": (self.types[1], self.w)},
            {output: (self.types[2], self.shapes())},
            {name: array for name, array in constants.items() if name in used},
        )

    def feeds(self, rng, rows=3):
        """Integers of all sizes; signed ones on the right are of 7 bits, as some runtimes need."""

        def drawn(shape, dtype, low, high):
            sizes = [rows if isinstance(size, str) else size for size in shape]
            wide = rng.integers(low - 30, high + 31, sizes)
            return np.clip(wide, low, high).astype(dtype)

        feeds = {}
        for name, shape, dtype in (("x", self.x, self.types[0]), ("w", self.w, self.types[1])):
            limits = np.iinfo(dtype)
            low, high = int(limits.min), int(limits.max)
            if dtype == "int8" and name == "w":
                low, high = max(low, -64), min(high, 63)
            feeds[name] = drawn(shape, dtype, low, high)
        scales = dict(zip("xw", zip((0.02, 0.03), self.zeros, strict=False), strict=True))
        return real(feeds, scales)


SIGNED = {"types": ("int8",) * 3, "zeros": (-3, 5, 7)}
PAIRS = {
    "heads": Pair((2, 3, 17, 16), (2, 3, 16, 70)),
    "signed": Pair((2, 5, 9), (2, 9, 33), **SIGNED),
    "signed columns": Pair((4, 12), (12, 130), ("uint8", "int8", "uint8"), (100, 0, 9)),
    "keys turned": Pair((2, 3, 17, 20), (2, 23, 3, 20), w_order=(0, 2, 3, 1)),
    "all turned": Pair(
        (2, 17, 3, 20), (2, 23, 3, 20), x_order=(0, 2, 1, 3), w_order=(0, 2, 3, 1), **SIGNED
    ),
    "columns before rows": Pair((2, 7, 5), (2, 7, 12), x_order=(0, 2, 1)),
    "put back": Pair((2, 3, 40, 8), (2, 3, 8, 64), y_order=(0, 2, 1, 3)),
    "of a free batch": Pair(("n", 2, 6, 12), ("n", 2, 12, 9)),
    "of free rows": Pair((2, "n", 12), (2, 12, 9), **SIGNED),
    "keys that all share": Pair((3, 4, 5, 8), (4, 8, 6)),
    "one head for several": Pair((3, 4, 5, 8), (3, 1, 8, 6)),
    "operator": Pair((2, 3, 17, 16), (2, 3, 16, 70), is_operator=True),
    "operator, turned": Pair(
        (2, 17, 3, 20), (2, 23, 3, 20), x_order=(0, 2, 1, 3), w_order=(0, 2, 3, 1), is_operator=True
    ),
    "many rows": Pair((600, 31), (31, 40)),
    "looked up": Pair((2, 9, 16), (2, 16, 40), function=True),
}


def found_in(proto, find=matrix_products):
    graph = typed(proto)
    separate(graph)
    return graph, find(Meanings(graph), graph.nodes)


@cache
def kernels(level):
    """For each case a session with its kernel, and one without, built for a level together."""
    graphs_and_kernels = {}
    for name, case in PAIRS.items():
        if not case.function:
            graph, (region_kernel,) = found_in(case.model())
            graphs_and_kernels[name] = graph, region_kernel
    models, library = built_together(graphs_and_kernels, level)
    sessions = {}
    for name, changed in models.items():
        assert len(computing(changed)) == 1, name
        case = PAIRS[name]
        sessions[name] = case, opened(changed, library, threads=2), opened(case.model())
    return sessions


@pytest.mark.parametrize("level", TRIED_LEVELS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_a_product_of_two_matrices_gives_what_the_runtime_gives(level, seed, rows):
    rng = np.random.default_rng(seed)
    for name, (case, session, original) in kernels(level).items():
        feeds = case.feeds(rng, rows)
        (wanted,), (result,) = original.run(None, feeds), session.run(None, feeds)
        np.testing.assert_array_equal(result, wanted, err_msg=name)


def test_a_function_of_a_product_belongs_to_it():
    proto = PAIRS["looked up"].model()
    changed, library = fused(proto)
    assert len(changed.graph.node) == 1
    feeds = PAIRS["looked up"].feeds(np.random.default_rng(1))
    (wanted,), (result,) = opened(proto).run(None, feeds), opened(changed, library).run(None, feeds)
    np.testing.assert_array_equal(result, wanted)


def squared(**changed):
    """A tensor of integers by itself, in one operator, by two scales and zero points."""
    read = ["x", "sx", "zx", "x", "sw", "zw", "sy", "zy"]
    constants = {"sx": np.float32(0.02), "zx": np.uint8(3), "sw": np.float32(0.05)}
    constants |= {"zw": np.uint8(9), "sy": np.float32(4), "zy": np.uint8(7), **changed}
    of = ("uint8", (16, 16))
    return quantized_model([node("QLinearMatMul", read, ["y"])], {"x": of}, {"y": of}, constants)


@pytest.mark.parametrize(
    "changed",
    [
        {"sx": np.float32(-0.02)},
        {"sw": np.full(16, 0.05, np.float32)},
        {"sy": np.full(16, 4, np.float32)},
    ],
    ids=["a scale below 0", "scales of columns", "scales of a result, which no runtime accepts"],
)
def test_integers_of_other_than_one_positive_scale_are_left(changed):
    assert len(found_in(squared())[1]) == 1
    assert not found_in(squared(**changed))[1]


def test_of_a_tensor_that_is_both_operands_each_has_its_own_scale_and_zero_point():
    proto = squared()
    changed, library = fused(proto)
    assert changed.graph.node[0].op_type.startswith("BothQLinearMatMul")
    feeds = {"x": np.random.default_rng(1).integers(0, 256, (16, 16)).astype(np.uint8)}
    (wanted,), (result,) = opened(proto).run(None, feeds), opened(changed, library).run(None, feeds)
    np.testing.assert_array_equal(result, wanted)


def test_the_sums_of_a_product_are_exact_where_the_runtimes_saturate():
    """Integers at the ends of their types, against numpy alone."""
    case = Pair((3, 64), (64, 80), ("uint8", "int8", "uint8"), (0, 0, 0))
    graph, (region_kernel,) = found_in(case.model())
    models, library = built_together({"pair": (graph, region_kernel)})
    feeds = {"x": np.full((3, 64), 255, np.uint8), "w": np.full((64, 80), 127, np.int8)}
    session = opened(models["pair"], library)
    (result,) = session.run(None, real(feeds, {"w": (0.03, 0)}))
    constants = {t.name: numpy_helper.to_array(t) for t in case.model().graph.initializer}
    by = np.float32(constants["sx"] * constants["sw"]) / constants["sy"]
    sums = np.float32(64 * 255 * 127) * by
    np.testing.assert_array_equal(result, np.full((3, 80), np.clip(np.rint(sums), 0, 255)))


@pytest.mark.parametrize("change", ["scales", "the product is read", "the transposed one is read"])
def test_what_is_no_such_product_is_left(change):
    case = PAIRS["keys turned"]
    proto = case.model()
    if change == "scales":
        for tensor in proto.graph.initializer:
            if tensor.name == "sw":
                tensor.CopyFrom(numpy_helper.from_array(np.full(20, 0.1, np.float32), "sw"))
    elif change == "the product is read":
        proto.graph.output.append(helper.make_tensor_value_info("P", TensorProto.FLOAT, None))
    else:
        proto.graph.output.append(helper.make_tensor_value_info("w_moved", TensorProto.UINT8, None))
    graph, candidates = found_in(proto)
    if change == "the transposed one is read":
        (candidate,) = candidates
        assert {graph.nodes[n].op_type for n in candidate.region.nodes} == {
            "DequantizeLinear",
            "MatMul",
            "QuantizeLinear",
        }
    else:
        assert not candidates


# ------------------------------------------------------------------------------------- softmax


def softmax_model(dtype, shape, x_scale, y_scale, zeros, is_operator=False, axis=-1):
    constants = {
        "sx": np.float32(x_scale),
        "zx": np.array(zeros[0], dtype),
        "sy": np.float32(y_scale),
        "zy": np.array(zeros[1], dtype),
    }
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], ["a"]),
        node("Softmax", ["a"], ["b"], axis=axis),
        node("QuantizeLinear", ["b", "sy", "zy"], ["y"]),
    ]
    if is_operator:
        nodes = [
            node(
                "QLinearSoftmax",
                ["x", "sx", "zx", "sy", "zy"],
                ["y"],
                domain="com.microsoft",
                axis=axis,
                opset=13,
            )
        ]
    return quantized_model(nodes, {"x": (dtype, shape)}, {"y": (dtype, shape)}, constants)


def test_softmax_of_integers_gives_what_the_runtime_gives():
    rng = np.random.default_rng(11)
    cases = []
    for i in range(examples(48)):
        dtype = ("uint8", "int8")[i % 2]
        low = int(np.iinfo(dtype).min)
        # shorter rows are beyond what the runtime's table has room for
        shape = [*rng.integers(1, 8, rng.integers(0, 3)).tolist(), int(rng.integers(4, 90))]
        zeros = (low + rng.integers(0, 256, 2)).tolist()
        scales = float(rng.uniform(0.001, 0.5)), float(rng.choice([1 / 256, 1 / 255, 0.002]))
        is_operator = dtype == "uint8" and i % 4 == 0
        spread = int(rng.choice([2, 30, 256]))
        first = low + int(rng.integers(0, 257 - spread))
        feeds = {"x": rng.integers(first, first + spread, shape).astype(dtype)}
        feeds = real(feeds, {"x": (scales[0], zeros[0])})
        cases.append((softmax_model(dtype, shape, *scales, zeros, is_operator), feeds))
    for proto, session, changed, feeds in together(cases):
        assert computing(changed)[0].startswith("QuantizedSoftmax")
        (wanted,), (result,) = opened(proto).run(None, feeds), session.run(None, feeds)
        np.testing.assert_array_equal(result, wanted)


def test_the_formula_of_a_softmax_is_that_of_its_kernel():
    x = np.random.default_rng(3).integers(0, 256, (40, 300)).astype(np.uint8)
    table = table_of(300, 0.05, 1 / 256, 3)
    assert table is not None
    proto = softmax_model("uint8", [40, 300], 0.05, 1 / 256, (0, 3))
    changed, library = fused(proto)
    (result,) = opened(changed, library).run(None, {"x": x})
    np.testing.assert_array_equal(result, softmax_of(x, table, 1 / 256, 3))


@pytest.mark.parametrize("change", ["axis", "length", "read"])
def test_what_is_no_softmax_of_integers_along_rows_is_left(change):
    shape = [4, "n"] if change == "length" else [4, 9]
    proto = softmax_model("uint8", shape, 0.05, 1 / 256, (0, 0), axis=0 if change == "axis" else -1)
    if change == "read":
        proto.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, None))
    assert not found_in(proto, softmax_rows)[1]
