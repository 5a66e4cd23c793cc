"""Numbers of 16 bits and integers in memory: conversions like ONNX Runtime's, kernels like it."""

from importlib import resources

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer import native as kernels
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import library
from tensolog.optimizer.codegen.unit import unit
from tensolog.optimizer.fuse.codegen.launch import address, exported
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.profiles.kernel import element_type

from tests.optimizer.fuse.codegen.build import reachable

from .build import native_level, needs_compiler, opened, typed

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)
HALF, BRAIN = TensorProto.FLOAT16, TensorProto.BFLOAT16


def cast(array, *to):
    """The array through ONNX Runtime's own casts, one after another."""
    source_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    names = ["x", *(f"y{i}" for i in range(len(to)))]
    nodes = [node("Cast", [a], [b], to=t) for a, b, t in zip(names, names[1:], to, strict=False)]
    info = [
        helper.make_tensor_value_info(name, kind, [array.size])
        for name, kind in ((names[0], source_type), (names[-1], to[-1]))
    ]
    graph = helper.make_graph(nodes, "graph", info[:1], info[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {"x": array})[0]


@pytest.fixture(scope="module", params=reachable())
def convert(request):
    """The conversions of elements.h, compiled for one level: many at a time, and one by one."""
    bodies = {
        "widen": ("uint16_t", "float", "{}widen_{kind}(x, 1, y, a[2]);"),
        "narrow": ("float", "uint16_t", "narrow_to_{kind}(x, y, a[2]);"),
        "wide": ("uint16_t", "float", "for (i64 i = 0; i < a[2]; i++) y[i] = wide_{kind}(x[i]);"),
        "narrowed": (
            "float",
            "uint16_t",
            "for (i64 i = 0; i < a[2]; i++) y[i] = narrow_{kind}(x[i]);",
        ),
    }
    texts = []
    for kind in ("float16", "bfloat16"):
        for name, (read, written, loop) in bodies.items():
            text = loop.replace("{kind}", kind).replace("{}", "")
            pointers = f"const {read} *x = (void *)a[0]; {written} *y = (void *)a[1];"
            whole = f"{name}_all_{kind}"
            texts.append((whole, f"static void {whole}(i64 *a) {{ {pointers} {text} }}"))
    header = resources.files(kernels).joinpath("headers", "elements.h").read_text(encoding="utf-8")
    texts[0] = (texts[0][0], header + texts[0][1])
    compiler = find_compiler()
    loaded = library(unit(texts, [request.param], compiler), compiler)

    def call(name, x):
        result = np.empty(x.size, np.float32 if x.dtype == np.uint16 else np.uint16)
        arguments = np.array([address(x), address(result), x.size], np.int64)
        exported(loaded, name).call(address(arguments))
        return result

    return call


def every_half():
    return np.arange(2**16, dtype=np.uint32).astype(np.uint16)


def floats_between(bits):
    """Numbers of `bits` bits, what lies midway between two of them, and next to either."""
    exact = (
        every_half().view(np.float16).astype(np.float32)
        if bits == "float16"
        else (every_half().astype(np.uint32) << 16).view(np.float32)
    )
    exact = np.unique(exact[np.isfinite(exact)])
    midway = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    beyond = np.float32([65519.996, 65520, 65536, 1e10, 3.4028235e38, np.inf, np.nan, 2.0**-25])
    points = np.concatenate([exact, midway, beyond, -beyond])
    with np.errstate(over="ignore"):
        beside = [np.nextafter(points, np.float32(end)) for end in (np.inf, -np.inf)]
    return np.concatenate([points, *beside])


def same_bits(computed, wanted):
    """Tell whether arrays are equal to the bit, but for what a NaN has in its payload."""
    number = ~np.isnan(wanted)
    assert np.isnan(computed[~number]).all()
    kind = np.uint32 if wanted.itemsize == 4 else np.uint16
    np.testing.assert_array_equal(computed[number].view(kind), wanted[number].view(kind))


@pytest.mark.parametrize("name", ["widen_all", "wide_all"])
def test_every_number_of_16_bits_is_read_as_the_runtime_reads_it(convert, name):
    numbers = every_half()
    same_bits(
        convert(f"{name}_float16", numbers), cast(numbers.view(np.float16), TensorProto.FLOAT)
    )
    converted = convert(f"{name}_bfloat16", numbers)
    same_bits(converted, (numbers.astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("name", ["narrow_all", "narrowed_all"])
def test_numbers_are_rounded_as_the_runtime_rounds_them(convert, name):
    numbers = floats_between("float16")
    same_bits(convert(f"{name}_float16", numbers).view(np.float16), cast(numbers, HALF))
    numbers = floats_between("bfloat16")
    converted = convert(f"{name}_bfloat16", numbers).astype(np.uint32) << 16
    same_bits(converted.view(np.float32), cast(numbers, BRAIN, TensorProto.FLOAT))


# ------------------------------------------------------------------------------------- kernels


def typed_model(nodes, inputs, outputs, constants=(), opset=21):
    """A model: inputs and outputs are {name: (type, shape)}, constants {name: array}."""
    info = [
        [
            helper.make_tensor_value_info(n, element_type(t), s)
            for n, (t, s) in types_and_shapes.items()
        ]
        for types_and_shapes in (inputs, outputs)
    ]
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "graph", *info, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def small(*values, dtype=np.float32):
    return np.array(values, dtype)


def half(*shape):
    return rng.standard_normal(shape).astype(np.float16)


def concatenation():
    nodes = [
        node("Neg", ["x"], ["e"]),
        node("Concat", ["e", "r", "x"], ["c"], axis=1),
        node("Mul", ["c", "c"], ["y"]),
    ]
    halves = {"x": ("float16", ["n", 1300]), "r": ("float16", ["n", 77])}
    feeds = {"x": half(3, 1300), "r": half(3, 77)}
    return typed_model(nodes, halves, {"y": ("float16", ["n", 2677])}), feeds


def gate():
    nodes = [
        node("Mul", ["x", "scale"], ["a"]),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["x", "s"], ["b"]),
        node("Add", ["b", "row"], ["y"]),
    ]
    inputs = {"x": ("float16", ["n", 2100]), "row": ("float16", ["n", 1])}
    feeds = {"x": half(3, 2100), "row": half(3, 1)}
    constants = {"scale": np.float16(1.702)}
    return typed_model(nodes, inputs, {"y": ("float16", ["n", 2100])}, constants), feeds


def turned():
    """Elements that are apart in memory."""
    nodes = [
        node("Slice", ["x", "zero", "end", "last", "two"], ["even"]),
        node("Tanh", ["even"], ["t"]),
        node("Add", ["t", "even"], ["y"]),
    ]
    constants = {
        name: np.array([value], np.int64)
        for name, value in (("zero", 0), ("end", 2**62), ("last", -1), ("two", 2))
    }
    types = {"x": ("float16", [3, 90])}, {"y": ("float16", [3, 45])}
    return typed_model(nodes, *types, constants), {"x": half(3, 90)}


def normalization():
    nodes = [
        node("Add", ["x", "r"], ["sum"]),
        node("LayerNormalization", ["sum", "scale", "bias"], ["normal"], axis=-1),
        node("Erf", ["normal"], ["y"]),
    ]
    shape = ["n", 190]
    types = (
        {"x": ("float16", shape), "r": ("float16", shape)},
        {"sum": ("float16", shape), "y": ("float16", shape)},
    )
    constants = {"scale": half(190), "bias": half(190)}
    return typed_model(nodes, *types, constants), {"x": half(5, 190), "r": half(5, 190)}


def casts():
    """Widened, rounded by a cast of the model's own, and compared."""
    nodes = [
        node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        node("Mul", ["wide", "wide"], ["square"]),
        node("Cast", ["square"], ["narrow"], to=HALF),
        node("Cast", ["narrow"], ["back"], to=TensorProto.FLOAT),
        node("Sub", ["square", "back"], ["lost"]),
        node("Cast", ["wide"], ["any"], to=TensorProto.BOOL),
        node("Where", ["any", "lost", "wide"], ["y"]),
    ]
    types = {"x": ("float16", ["n", 70])}, {"y": ("float32", ["n", 70])}
    x = half(4, 70)
    x[0, :5] = 0
    return typed_model(nodes, *types), {"x": x}


def quantized(kind=np.uint8):
    """What a residual sum is in a quantized network, with a scale for each channel of one side."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    nodes = [
        node("DequantizeLinear", ["x", "scales", "zeros"], ["a"], axis=1),
        node("DequantizeLinear", ["r", "t", "u"], ["b"]),
        node("Add", ["a", "b"], ["sum"]),
        node("Relu", ["sum"], ["e"]),
        node("QuantizeLinear", ["e", "v", "w"], ["y"]),
    ]
    name = np.dtype(kind).name
    types = {"x": ("int8", [40, 3, 130]), "r": ("uint8", [40, 3, 130])}, {"y": (name, [40, 3, 130])}
    constants = {
        "scales": small(0.03, 0.011, 0.4),
        "zeros": small(3, -7, 0, dtype=np.int8),
        "t": np.float32(0.021),
        "u": np.uint8(120),
        "v": np.float32(0.05 if high < 256 else 1e-3),
        "w": kind(low + (high - low) // 3),
    }
    limits = (np.iinfo(t) for t in (np.int8, np.uint8))
    x, r = (rng.integers(t.min, t.max, (40, 3, 130), t.dtype, True) for t in limits)
    return typed_model(nodes, *types, constants), {"x": x, "r": r}


def quantization():
    """Numbers of any size, of which some lie midway between two integers, and some are none."""
    nodes = [
        node("Mul", ["x", "scale"], ["a"]),
        node("Neg", ["a"], ["b"]),
        node("QuantizeLinear", ["b", "s", "z"], ["y"]),
        node("DequantizeLinear", ["y", "s", "z"], ["u"]),
    ]
    x = np.concatenate([np.arange(-300, 300, 0.25), [np.inf, -np.inf, np.nan, 3e38, 1e-40, -0.0]])
    types = (
        {"x": ("float32", [x.size])},
        {"y": ("int8", [x.size]), "u": ("float32", [x.size])},
    )
    constants = {"scale": np.float32(0.5), "s": np.float32(0.25), "z": np.int8(-7)}
    return typed_model(nodes, *types, constants), {"x": x.astype(np.float32)}


EXACT = {
    "casts": casts(),
    "uint8": quantized(),
    "int8": quantized(np.int8),
    "uint16": quantized(np.uint16),
    "quantization": quantization(),
}
ROUNDED = {
    "concatenation": concatenation(),
    "gate": gate(),
    "turned": turned(),
    "normalization": normalization(),
}


@pytest.fixture(scope="module")
def fused_models():
    """Each model with its regions as kernels: the graphs, and one library of all kernels."""
    graphs, all_kernels = {}, []
    for name, (proto, _) in {**EXACT, **ROUNDED}.items():
        graph = typed(proto)
        grown = regions(Meanings(graph), graph.nodes)
        for candidate in grown:
            assert place(graph, candidate.region.nodes, candidate.kernel)
        all_kernels += [candidate.kernel for candidate in grown]
        graphs[name] = graph, len(grown)
    made_of = build(all_kernels, levels=(native_level(),))
    return {
        name: (to_model(embed(graph, made_of.domain)), count, made_of)
        for name, (graph, count) in graphs.items()
    }


def both(name, fused_models):
    """What the original, as written, and the fused model give; one kernel computes all of it."""
    proto, feeds = {**EXACT, **ROUNDED}[name]
    changed, count, made_of = fused_models[name]
    assert (count, len(changed.graph.node)) == (1, 1)
    wanted = opened(proto, level="ORT_DISABLE_ALL").run(None, feeds)
    return wanted, opened(changed, made_of, threads=2).run(None, feeds)


@pytest.mark.parametrize("name", EXACT)
def test_what_casts_and_quantizes_is_equal_to_the_bit(name, fused_models):
    for wanted, result in zip(*both(name, fused_models), strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", ROUNDED)
def test_what_computes_is_within_two_roundings_to_16_bits(name, fused_models):
    for wanted, result in zip(*both(name, fused_models), strict=True):
        spacing = np.spacing(np.abs(wanted)).astype(np.float32)
        assert (np.abs(result.astype(np.float32) - wanted) <= 2 * spacing + 2e-6).all()


@pytest.mark.parametrize(
    ("x_dtype", "nodes"),
    [
        ("int8", [node("Add", ["x", "x"], ["a"]), node("Mul", ["a", "x"], ["y"])]),
        ("float32", [node("Neg", ["x"], ["a"]), node("Cast", ["a"], ["y"], to=TensorProto.INT8)]),
    ],
    ids=["wrapped around", "cut off"],
)
def test_integers_that_wrap_around_or_are_cut_off_are_left_alone(x_dtype, nodes):
    graph = typed(typed_model(nodes, {"x": (x_dtype, [50])}, {"y": ("int8", [50])}))
    assert not regions(Meanings(graph), graph.nodes)
