"""Products with weights of 4 bits in blocks, as MatMulNBits and DequantizeLinear have them."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.explain.reason_text import region_text
from tensolog.optimizer.explain.region_reason import explain_region
from tensolog.optimizer.graph.widen import why_not_widened, widen
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.product.four_bits import four_bit_products

from tests.optimizer.fuse.codegen.build import reachable

from .build import embed, needs_compiler, opened, place, to_model, typed

pytestmark = needs_compiler
node = helper.make_node
# Depth, width and size of a block: what fills words, blocks and panels, and what does not.
SIZES = ((64, 96, 32), (40, 33, 16), (50, 100, 32), (600, 48, 256))
ROWS = (1, 2, 3, 15, 70)


def blocks_of(depth, size):
    return -(-depth // size)


def weights(rng, depth, width, size):
    """Numbers of 4 bits [depth, width], scales and zero points [blocks, width]."""
    blocks = blocks_of(depth, size)
    numbers = rng.integers(0, 16, (depth, width), np.uint8)
    scales = rng.uniform(0.01, 0.03, (blocks, width)).astype(np.float32)
    return numbers, scales, rng.integers(0, 16, (blocks, width), np.uint8)


def spread(blocks, size, depth):
    """What each block has, for each of its rows."""
    return np.repeat(blocks, size, 0)[:depth]


def packed(columns):
    """Numbers [..., n] as bytes, two in each, the lower half first."""
    columns = np.concatenate([columns, np.zeros((*columns.shape[:-1], columns.shape[-1] % 2))], -1)
    return (columns[..., 0::2] + 16 * columns[..., 1::2]).astype(np.uint8)


def by_operator(depth, width, size, *, zero=False, bias=False, flat=False, behind=True, level=0):
    """A MatMulNBits, with an activation behind it, and the weights that it stands for."""
    rng = np.random.default_rng(depth)
    numbers, scales, zeros = weights(rng, depth, width, size)
    blocks = len(scales)
    full = np.zeros((blocks * size, width), np.uint8)
    full[:depth] = numbers
    arrays = {
        "w": packed(full.T.reshape(width, blocks, size)),
        "s": scales.T.reshape(-1) if flat else np.ascontiguousarray(scales.T),
    }
    if zero:
        arrays["z"] = packed(zeros.T).reshape(-1) if flat else packed(zeros.T)
    if bias:
        arrays["b"] = rng.standard_normal(width).astype(np.float32)
    inputs = ["x", "w", "s", "z" * zero, "", "b" * bias]
    while not inputs[-1]:
        inputs.pop()
    attributes = {"K": depth, "N": width, "bits": 4, "block_size": size, "accuracy_level": level}
    nodes = [
        node("MatMulNBits", inputs, ["p" if behind else "y"], domain="com.microsoft", **attributes)
    ]
    nodes += [node("Sigmoid", ["p"], ["q"]), node("Mul", ["p", "q"], ["y"])] * behind
    shift = (zeros if zero else np.full_like(zeros, 8)).astype(float)
    meant = (numbers - spread(shift, size, depth)) * spread(scales, size, depth)
    return model(nodes, depth, width, arrays), meant, arrays.get("b", 0)


def by_nodes(depth, width, size, *, signed=True, zero=True, turned=""):
    """A DequantizeLinear of 4 bits in front of a product, and the weights that it stands for.

    These lie transposed where a Transpose, or a Gemm, turns them.
    """
    rng = np.random.default_rng(depth)
    numbers, scales, zeros = weights(rng, depth, width, size)
    less = 8 if signed else 0
    kind = TensorProto.INT4 if signed else TensorProto.UINT4

    def stored(array):
        return np.ascontiguousarray(array.T) if turned else array

    initializers = [
        helper.make_tensor(name, kind, array.shape, (array.astype(int) - less).reshape(-1).tolist())
        for name, array in (("w", stored(numbers)), ("z", stored(zeros)))
    ]
    attributes = {"axis": 1 if turned else 0, "block_size": size}
    nodes = [node("DequantizeLinear", ["w", "s", "z"][: 2 + zero], ["v"], **attributes)]
    constants, bias = {"s": stored(scales)}, 0
    if turned == "Gemm":
        constants["b"] = bias = rng.standard_normal(width).astype(np.float32)
        nodes += [node("Gemm", ["x", "v", "b"], ["y"], transB=1)]
    elif turned:
        nodes += [node("Transpose", ["v"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])]
    else:
        nodes += [node("MatMul", ["x", "v"], ["y"])]
    proto = model(nodes, depth, width, constants)
    proto.graph.initializer.extend(initializers[: 1 + zero])
    meant = numbers.astype(float) - less
    if zero:
        meant -= spread(zeros.astype(float) - less, size, depth)
    return proto, meant * spread(scales, size, depth), bias


def model(nodes, depth, width, constants):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def of_bits(bits):
    """A product whose weights have another number of bits."""
    proto, *_ = by_operator(64, 96, 32)
    next(entry for entry in proto.graph.node[0].attribute if entry.name == "bits").i = bits
    return proto


CASES = {
    "plain": lambda size: by_operator(*size),
    "zero points": lambda size: by_operator(*size, zero=True, bias=True),
    "flat": lambda size: by_operator(*size, zero=True, flat=True, behind=False),
    "signed": lambda size: by_nodes(*size),
    "unsigned": lambda size: by_nodes(*size, signed=False),
    "from zero": lambda size: by_nodes(*size, signed=False, zero=False),
    "around zero": lambda size: by_nodes(*size, zero=False),
    "transposed": lambda size: by_nodes(*size, turned="Transpose"),
    "in a Gemm": lambda size: by_nodes(*size, signed=False, turned="Gemm"),
}


def kernel_of(proto):
    """The graph of a model, and the kernel of its product; None where there is none."""
    graph = typed(proto)
    products = four_bit_products(Meanings(graph), graph.nodes)
    return graph, products[0] if products else None


def is_product(proto):
    """Whether a model is a product, with no activation behind it."""
    return proto.graph.node[-1].op_type != "Mul"


@pytest.mark.parametrize("level", reachable())
def test_it_is_as_near_to_the_exact_product_as_the_runtime(level):
    cases = [(case(size), size) for case in CASES.values() for size in SIZES]
    cases = [(*case, *kernel_of(case[0]), size) for case, size in cases]
    library = build([candidate.kernel for *_, candidate, _ in cases], levels=(level,))
    rng = np.random.default_rng(1)
    for proto, meant, bias, graph, candidate, (depth, *_) in cases:
        assert place(graph, candidate.region.nodes, candidate.kernel)
        supply(graph, [candidate.kernel])
        assert len(graph.nodes) == 1
        changed = to_model(embed(graph, library.domain))
        assert not {t.name for t in changed.graph.initializer} & {"w", "s", "z"}
        sessions = opened(proto), opened(changed, library, threads=2)
        for rows in ROWS:
            x = rng.standard_normal((rows, depth)).astype(np.float32)
            exact = x.astype(np.float64) @ meant + bias
            if not is_product(proto):
                exact = exact / (1 + np.exp(-exact))
            wanted, result = (session.run(None, {"x": x})[0] for session in sessions)
            scale = np.abs(exact).max()
            error, runtime_error = (np.abs(y - exact).max() / scale for y in (result, wanted))
            assert error <= 2 * runtime_error + 16 * np.finfo(np.float32).eps


def test_a_single_infinity_makes_the_same_of_each_sum():
    cases = [case((64, 96, 32)) for case in CASES.values()]
    cases = [(*case, *kernel_of(case[0])) for case in cases if is_product(case[0])]
    library = build([candidate.kernel for *_, candidate in cases], levels=(native_level(),))
    for _, meant, _, graph, candidate in cases:
        assert place(graph, candidate.region.nodes, candidate.kernel)
        supply(graph, [candidate.kernel])
        x = np.ones((1, 64), np.float32)
        x[0, 5] = np.inf
        (result,) = opened(to_model(embed(graph, library.domain)), library).run(None, {"x": x})
        assert np.array_equal(np.isnan(result[0]), meant[5] == 0)
        assert np.array_equal(result[0] > 0, meant[5] > 0)


def add_attribute(proto, name):
    proto.graph.node[0].attribute.append(helper.make_attribute(name, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda proto: add_attribute(proto, "other"),
        lambda proto: add_attribute(proto, "weight_prepacked"),
        lambda proto: proto.graph.node[0].input.extend([""] * 1 + ["g"]),
    ],
)
def test_it_leaves_what_it_does_not_know(change):
    proto, *_ = by_operator(64, 96, 32)
    assert kernel_of(proto)[1] is not None
    change(proto)
    if "g" in proto.graph.node[0].input:
        order = numpy_helper.from_array(np.zeros(64, np.int32), "g")
        proto.graph.initializer.append(order)
    assert kernel_of(proto)[1] is None


def double(tensor):
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


@pytest.mark.parametrize("zero", [False, True])
def test_its_counterpart_in_float64_is_exact(zero):
    proto, meant, bias = by_operator(50, 20, 16, zero=zero, bias=True, behind=False)
    assert why_not_widened(proto) == ""
    wide = widen(proto, double)
    x = np.random.default_rng(0).standard_normal((3, 50))
    (result,) = opened(wide).run(None, {"x": x})
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, x @ meant + bias, rtol=1e-12, atol=1e-12)


def test_four_bits_are_read_from_either_layout_alike():
    sizes = (40, 33, 16)
    for case in ("zero points", "unsigned"):
        proto, meant, _ = CASES[case](sizes)
        graph, candidate = kernel_of(proto)
        supply(graph, [candidate.kernel])
        by_part = {
            how.part: graph.constants[value].array() for value, _, how in candidate.kernel.packed
        }
        words = by_part["numbers"].view(np.uint32)
        numbers = (words[:, :, None, :] >> np.arange(0, 32, 4, np.uint32)[:, None] & 15).astype(int)
        numbers = ((numbers + 8) % 16 - 8).transpose(1, 2, 0, 3).reshape(40, -1)[:, :33]
        zeros, scales = (
            by_part[part].astype(float).transpose(1, 0, 2).reshape(3, -1)[:, :33].repeat(16, 0)[:40]
            for part in ("zeros", "scales")
        )
        np.testing.assert_allclose((numbers - zeros) * scales, meant)


@pytest.mark.parametrize(
    ("proto", "nodes", "words"),
    [
        (by_operator(64, 96, 32)[0], ("MatMulNBits(p)", "Sigmoid(q)"), "may be"),
        (by_nodes(64, 96, 32)[0], ("DequantizeLinear(v)", "MatMul(y)"), "may be"),
        (by_nodes(64, 96, 32, turned="Transpose")[0], ("Transpose(t)", "MatMul(y)"), "may be"),
        (of_bits(8), ("MatMulNBits(p)", "Sigmoid(q)"), 'attribute(n, "bits", "4")'),
    ],
)
def test_it_is_told_whether_there_is_a_kernel_or_why_not(proto, nodes, words):
    assert words in region_text(explain_region(proto, *nodes))
