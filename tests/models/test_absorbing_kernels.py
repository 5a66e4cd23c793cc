"""ONNX Runtime's fused operators compute what they are named for, and are named where that pays."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.egraph.absorbing_rules import OPERANDS, is_naming

from benchmarks.named import forms
from tests.optimizer.builders import model, value
from tests.optimizer.egraph.pricing import modelled, searched, shipped_rules

from .agreement import run

FORMS = {f"{form.operator} {form.title}": form for form in forms()}


@pytest.mark.parametrize("name", FORMS)
def test_named_and_standard_operators_agree(name):
    form = FORMS[name]
    standard, fused = form.model(form.standard), form.model(form.fused)
    assert form.operator in {node.op_type for node in fused.graph.node}
    assert {node.domain for node in standard.graph.node} == {""}
    (expected,) = run(standard, form.feeds())
    for level in ("disabled", "all"):
        (result,) = run(fused, form.feeds(), level=level)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------- what rules name, and when

RNG = np.random.default_rng(11)
BIAS_GELU = [
    ("Add", ["x", "b"], ["a"]),
    ("Div", ["a", "root"], ["d"]),
    ("Erf", ["d"], ["e"]),
    ("Add", ["e", "one"], ["o"]),
]
TANH_GELU = [
    ("Add", ["x", "b"], ["a"]),
    ("Mul", ["s", "cubic"], ["p"]),
    ("Add", ["a", "p"], ["i"]),
    ("Mul", ["i", "slope"], ["j"]),
    ("Tanh", ["j"], ["t"]),
    ("Add", ["t", "one"], ["o"]),
    ("Mul", ["a", "half"], ["h"]),
    ("Mul", ["h", "o"], ["y"]),
]
NUMBERS = {
    "root": 2**0.5, "one": 1.0, "half": 0.5, "eighth": 0.125, "cubic": 0.044715,
    "slope": (2 / np.pi) ** 0.5, "three": 3.0, "low": -0.25, "high": 0.75,
}  # fmt: skip
ACTIVATIONS = {
    "Relu": ("Relu", ["c"], ["y"]),
    "Sigmoid": ("Sigmoid", ["c"], ["y"]),
    "Tanh": ("Tanh", ["c"], ["y"]),
    "LeakyRelu": helper.make_node("LeakyRelu", ["c"], ["y"], alpha=0.2),
    "HardSigmoid": helper.make_node("HardSigmoid", ["c"], ["y"], alpha=0.3, beta=0.4),
    "Clip": ("Clip", ["c", "low", "high"], ["y"]),
}
SWAP = helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2])
SWAP_LEFT = helper.make_node("Transpose", ["x"], ["u"], perm=[0, 2, 1])
SWAP_RIGHT = helper.make_node("Transpose", ["z"], ["v"], perm=[0, 2, 1])
CONV = helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
GEMM = helper.make_node("Gemm", ["x", "w", "b"], ["c"], alpha=0.5)
NORMED = helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"], epsilon=1e-3)
ROOTED = helper.make_node("RMSNormalization", ["a", "g"], ["y"], epsilon=1e-3)
IMAGE = {"x": (2, 3, 7, 5), "z": (2, 4, 7, 5)}
WEIGHTS = {"w": (4, 3, 3, 3), "b": (4,)}
TOKENS = {"x": (2, 5, 33), "z": (2, 5, 33)}
AFFINE = {"g": (33,), "b": (33,), "c": (33,)}
SCORES = {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8)}
SPELLED = {"x": (2, 5, 33)}, {"b": (33,)}


def plus(*nodes):
    """The sum of a convolution and an image, for what comes next."""
    conv = helper.make_node("Conv", ["x", "w", "b"], ["p"], pads=[1, 1, 1, 1])
    return [conv, ("Add", ["p", "z"], ["c" if nodes else "y"]), *nodes]


# Rule: nodes, shapes of inputs and of constants, operator set.
PLACES = {
    "FuseTransposeIntoMatMul": ([SWAP, ("MatMul", ["q", "t"], ["y"])], SCORES, {}, 17),
    "FuseTransposeIntoMatMulLeft": (
        [SWAP_LEFT, ("MatMul", ["u", "z"], ["y"])], {"x": (2, 6, 5), "z": (2, 6, 4)}, {}, 17
    ),
    "FuseTransposesIntoMatMul": (
        [SWAP_LEFT, SWAP_RIGHT, ("MatMul", ["u", "v"], ["y"])],
        {"x": (2, 6, 5), "z": (2, 4, 6)}, {}, 17,
    ),
    "FuseScaleIntoMatMul": (
        [("MatMul", ["x", "z"], ["p"]), ("Mul", ["p", "eighth"], ["y"])],
        {"x": (5, 6), "z": (6, 4)}, {}, 17,
    ),
    "FuseScaleAndTransposeIntoMatMul": (
        [SWAP, ("MatMul", ["q", "t"], ["p"]), ("Mul", ["p", "eighth"], ["y"])], SCORES, {}, 17
    ),
    "FuseScaleAndTransposeIntoMatMulLeft": (
        [SWAP_LEFT, ("MatMul", ["u", "z"], ["p"]), ("Mul", ["p", "eighth"], ["y"])],
        {"x": (2, 6, 5), "z": (2, 6, 4)}, {}, 17,
    ),
    "FuseDivisorIntoMatMul": (
        [("MatMul", ["x", "z"], ["p"]), ("Div", ["p", "root"], ["y"])],
        {"x": (5, 6), "z": (6, 4)}, {}, 17,
    ),
    "FuseDivisorAndTransposeIntoMatMul": (
        [SWAP, ("MatMul", ["q", "t"], ["p"]), ("Div", ["p", "root"], ["y"])], SCORES, {}, 17
    ),
    "FuseInputScaleIntoMatMul": (
        [("Mul", ["x", "eighth"], ["p"]), ("MatMul", ["p", "z"], ["y"])],
        {"x": (5, 6), "z": (6, 4)}, {}, 17,
    ),
    "FuseInputScaleAndTransposeIntoMatMul": (
        [SWAP, ("Mul", ["q", "eighth"], ["p"]), ("MatMul", ["p", "t"], ["y"])], SCORES, {}, 17
    ),
    **{
        f"Fuse{name}IntoGemm": (
            [GEMM, ACTIVATIONS[name]], {"x": (5, 6)}, {"w": (6, 9), "b": (9,)}, 17
        )
        for name in ("Relu", "Sigmoid", "Tanh", "LeakyRelu")
    },
    **{
        f"Fuse{name}IntoConv": ([CONV, node], {"x": IMAGE["x"]}, WEIGHTS, 17)
        for name, node in ACTIVATIONS.items()
    },
    "FuseAddIntoConv": (plus(), IMAGE, WEIGHTS, 17),
    **{
        f"FuseAddAnd{name}IntoConv": (plus(node), IMAGE, WEIGHTS, 17)
        for name, node in ACTIVATIONS.items()
    },
    "FuseAddIntoGelu": ([BIAS_GELU[0], ("Gelu", ["a"], ["y"])], *SPELLED, 20),
    "FuseBiasGelu": (
        [*BIAS_GELU, ("Mul", ["a", "o"], ["p"]), ("Mul", ["p", "half"], ["y"])], *SPELLED, 17
    ),
    "FuseBiasGeluHalvedFirst": (
        [*BIAS_GELU, ("Mul", ["a", "half"], ["h"]), ("Mul", ["h", "o"], ["y"])], *SPELLED, 17
    ),
    "FuseBiasGeluHalvedFactor": (
        [*BIAS_GELU, ("Mul", ["o", "half"], ["h"]), ("Mul", ["a", "h"], ["y"])], *SPELLED, 17
    ),
    "FuseAddIntoGeluTanh": (
        [BIAS_GELU[0], helper.make_node("Gelu", ["a"], ["y"], approximate="tanh")], *SPELLED, 20
    ),
    "FuseBiasFastGelu": (
        [TANH_GELU[0], ("Pow", ["a", "three"], ["s"]), *TANH_GELU[1:]], *SPELLED, 17
    ),
    "FuseBiasFastGeluByMul": (
        [TANH_GELU[0], ("Mul", ["a", "a"], ["r"]), ("Mul", ["r", "a"], ["s"]), *TANH_GELU[1:]],
        *SPELLED, 17,
    ),
    "FuseSkipLayerNormalization": ([("Add", ["x", "z"], ["a"]), NORMED], TOKENS, AFFINE, 17),
    "FuseSkipLayerNormalizationAndSum": (
        [("Add", ["x", "z"], ["a"]), NORMED, ("Relu", ["a"], ["y2"])], TOKENS, AFFINE, 17
    ),
    "FuseBiasSkipLayerNormalization": (
        [("Add", ["x", "c"], ["s"]), ("Add", ["s", "z"], ["a"]), NORMED], TOKENS, AFFINE, 17
    ),
    "FuseSkipSimplifiedLayerNormalization": (
        [("Add", ["x", "z"], ["a"]), ROOTED], TOKENS, AFFINE, 23
    ),
}  # fmt: skip
NAMING = [rule for rule in shipped_rules() if is_naming(rule)]


def place(name):
    """A small model with a place for a rule, and constants that are not all alike."""
    nodes, inputs, constants, opset = PLACES[name]
    arrays = {n: RNG.normal(0, 0.5, shape) for n, shape in constants.items()} | NUMBERS
    nodes = [n if isinstance(n, onnx.NodeProto) else helper.make_node(*n) for n in nodes]
    read = {operand for node in nodes for operand in node.input}
    outputs = [n for node in nodes for n in node.output if n in ("y", "y2")]
    graph = helper.make_graph(
        nodes,
        name,
        [value(n, shape) for n, shape in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.float32(a), n) for n, a in arrays.items() if n in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def priced(cost_ns):
    """Everything costs 10, and what is named so much."""
    return lambda kernel: cost_ns if kernel.op_type in OPERANDS else 10.0


def test_every_rule_that_names_a_kernel_has_a_place_here():
    assert {rule.name for rule in NAMING} == set(PLACES)


@pytest.mark.parametrize("name", PLACES)
def test_a_named_kernel_is_one_more_plan_and_computes_the_same(name):
    built = place(name)
    rules = [rule for rule in NAMING if rule.name == name]
    first, search_result = searched(built, rules, price=priced(1.0))
    assert not any(node.domain for node in first.graph.node)
    assert search_result.named.cost_ns < search_result.cost_ns
    assert [step.rule for step in search_result.named.steps] == [name]
    proto = modelled(search_result.named)
    assert any(node.op_type in OPERANDS for node in proto.graph.node)
    feeds = {
        entry.name: RNG.normal(size=[d.dim_value for d in entry.type.tensor_type.shape.dim])
        for entry in built.graph.input
    }
    for poison in (None, *(() if rules[0].finite_math else (np.nan, np.inf, -np.inf))):
        operands = {n: np.float32(array) for n, array in feeds.items()}
        if poison is not None:
            operands["x"].reshape(-1)[7] = poison
        for level in ("disabled", "all"):
            pairs = zip(run(proto, operands, level=level), run(built, operands), strict=True)
            for got, expected in pairs:
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PLACES)
def test_where_it_saves_nothing_the_model_stays_as_it_is(name):
    built = place(name)
    nodes = sum(len(rule.match) for rule in NAMING if rule.name == name)
    _, search_result = searched(
        built, [r for r in NAMING if r.name == name], price=priced(10.0 * nodes)
    )
    assert search_result.named is None
    assert not search_result.steps


def test_what_is_read_elsewhere_is_not_taken_in():
    """The product is an output too: a kernel that scales it would compute it again."""
    nodes = [("MatMul", ["x", "z"], ["p"]), ("Mul", ["p", "c"], ["y"]), ("Neg", ["p"], ["n"])]
    inputs = [value("x", [5, 6]), value("z", [6, 4])]
    outputs = [value("y", [5, 4]), value("n", [5, 4])]
    built = model(nodes, inputs, outputs, {"c": np.float32(0.5)})
    _, search_result = searched(built, NAMING, price=priced(1.0))
    assert search_result.named is None


def test_layers_that_are_alike_are_all_named_or_none():
    nodes = []
    for layer in range(6):
        nodes += [
            ("Gemm", [f"h{layer}", "w"], [f"p{layer}"]),
            ("Tanh", [f"p{layer}"], [f"h{layer + 1}"]),
        ]
    weights = {"w": np.float32(RNG.normal(size=(4, 4)))}
    built = model(nodes, [value("h0", [3, 4])], [value("h6", [3, 4])], weights)
    _, search_result = searched(built, NAMING, price=priced(1.0))
    assert [node.op_type for node in modelled(search_result.named).graph.node] == ["FusedGemm"] * 6
    _, search_result = searched(built, NAMING, price=priced(25.0))
    assert search_result.named is None
    assert sum(op.op_type == "FusedGemm" for op in search_result.egraph.vocabulary.operators) == 1


def test_the_target_onnx_names_none():
    _, search_result = searched(place("FuseReluIntoConv"), NAMING, price=priced(1.0), target="onnx")
    assert search_result.named is None
