"""Operators that ONNX Runtime contributes: their texts, against its kernels and its schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, defs, helper, shape_inference
from tensolog.catalog.operators import ShapeError, schema_for, specification, specified
from tensolog.catalog.operators.contributed import DOMAINS, register

from .backend_cases import agree
from .random_nodes import Array, Draw, Node, examples_of_nodes, ints, narrowed, noted, shape, values
from .test_onnxruntime import runtime

DOMAIN = "com.microsoft"
OPERATORS = specified(DOMAIN)
FOUR_BITS = {"K": 32, "N": 5, "bits": 4, "block_size": 32}
ACTIVATIONS = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": (0.25,), "HardSigmoid": (0.25, 0.5),
    "Clip": (-0.5, 0.75),
}  # fmt: skip


def size(draw: Draw, low: int = 1, high: int = 4) -> int:
    return int(draw(st.integers(low, high)))


def random_node(draw: Draw, op: str) -> Node:
    inputs, attributes, outputs = _STRATEGIES[op](draw)
    return Node(op, inputs, attributes, outputs, opset=1, domain=DOMAIN)


Made = tuple[list[Array | None], dict[str, Any], int]


def gelu(draw: Draw) -> Made:
    return [values(draw, shape(draw, least=1))], {}, 1


def biased(draw: Draw, optional: bool) -> Made:
    whole = shape(draw, low=1, least=1)
    bias = None if optional and draw(st.booleans()) else values(draw, whole[-1:])
    return [values(draw, whole), bias] if bias is not None else [values(draw, whole)], {}, 1


def quick_gelu(draw: Draw) -> Made:
    (inputs, _, _), alpha = gelu(draw), draw(st.floats(0.125, 2, width=32))
    return inputs, {"alpha": alpha} if draw(st.booleans()) else {}, 1


def matmul(draw: Draw) -> Made:
    batch = shape(draw, 0, 2, 1)
    m, k, n = size(draw), size(draw), size(draw)
    flips = {"transA": size(draw, 0, 1), "transB": size(draw, 0, 1)}
    left = (*batch, *((k, m) if flips["transA"] else (m, k)))
    right = (*narrowed(draw, batch), *((n, k) if flips["transB"] else (k, n)))
    scale = {"alpha": draw(st.floats(-2, 2, width=32))}
    return [values(draw, left), values(draw, right)], {**flips, **scale}, 1


def gemm(draw: Draw) -> Made:
    m, k, n = size(draw), size(draw), size(draw)
    flips = {"transA": size(draw, 0, 1), "transB": size(draw, 0, 1)}
    name = draw(st.sampled_from(sorted(ACTIVATIONS.keys() - {"Clip"})))
    names = ("activation_alpha", "activation_beta")
    parameters = dict(zip(names, ACTIVATIONS[name], strict=False))
    inputs: list[Array | None] = [
        values(draw, (k, m) if flips["transA"] else (m, k)),
        values(draw, (n, k) if flips["transB"] else (k, n)),
    ]
    if draw(st.booleans()):
        inputs.append(values(draw, draw(st.sampled_from([(n,), (m, n), (1, n), (m, 1)]))))
    scales = {"alpha": 0.5, "beta": -1.5}
    return inputs, {**flips, **scales, **parameters, "activation": name}, 1


def conv(draw: Draw) -> Made:
    group, rank = size(draw, 1, 2), size(draw, 1, 2)
    n, cg, m = size(draw, 1, 2), size(draw, 1, 2), group * size(draw, 1, 2)
    kernel = tuple(size(draw, 1, 3) for _ in range(rank))
    spatial = tuple(size(draw, 3, 5) for _ in range(rank))
    pads = [size(draw, 0, 1) for _ in range(2 * rank)]
    strides = [size(draw, 1, 2) for _ in range(rank)]
    name = draw(st.sampled_from(sorted(ACTIVATIONS)))
    attributes: dict[str, Any] = {
        "activation": name, "group": group, "pads": pads, "strides": strides,
        "kernel_shape": list(kernel),
    }  # fmt: skip
    if ACTIVATIONS[name]:
        attributes["activation_params"] = list(ACTIVATIONS[name])
    inputs: list[Array | None] = [
        values(draw, (n, cg * group, *spatial)),
        values(draw, (m, cg, *kernel)),
        values(draw, (m,)),
    ]
    if draw(st.booleans()):
        result_sizes = [
            (d + pads[axis] + pads[axis + rank] - k) // s + 1
            for axis, (d, k, s) in enumerate(zip(spatial, kernel, strides, strict=True))
        ]
        inputs.append(values(draw, (n, m, *result_sizes)))
    return inputs, attributes, 1


def skip(draw: Draw, simplified: bool) -> Made:
    b, s, n = size(draw), size(draw), size(draw, 2, 5)
    optional = [values(draw, (n,)) if draw(st.booleans()) else None for _ in range(2)]
    inputs = [values(draw, (b, s, n)), values(draw, (b, s, n)), values(draw, (n,))]
    further: list[Array | None] = [*inputs, *optional[simplified:]]
    while further[-1] is None:
        further.pop()
    return further, {"epsilon": 0.125}, 1


def rotary(draw: Draw) -> Made:
    b, h, s, r, p = size(draw), size(draw), size(draw), size(draw), size(draw, 4, 6)
    rest = size(draw, 0, 2)
    positions = ints(*(size(draw, 0, p - 1) for _ in range(b * s))).reshape(b, s)
    if draw(st.booleans()):  # counted from one
        positions = ints(size(draw, 0, p - s))
    e = 2 * r + rest
    heads = draw(st.sampled_from([(b, h, s, e), (b, s, h * e)]))
    inputs: list[Array | None] = [
        values(draw, heads), positions, values(draw, (p, r)), values(draw, (p, r))
    ]  # fmt: skip
    attributes = {"interleaved": size(draw, 0, 1)}
    if rest:
        attributes |= {"rotary_embedding_dim": 2 * r, "num_heads": h}
    return inputs, attributes, 1


def attention(draw: Draw) -> Made:
    b, s, t, h, e, f = (size(draw) for _ in range(6))
    inputs: list[Array | None] = [
        values(draw, (b, s, h * e)), values(draw, (b, t, h * e)), values(draw, (b, t, h * f))
    ]  # fmt: skip
    if draw(st.booleans()):
        inputs += [None, None, values(draw, (b, h, s, t))]
    return inputs, {"num_heads": h, "scale": draw(st.sampled_from([0.0, 0.5]))}, 1


def four_bits(draw: Draw) -> Made:
    k, n, block = size(draw, 1, 40), size(draw, 2, 5), 16
    blocks = -(-k // block)
    random = np.random.default_rng(size(draw, 0, 99))

    def byte(*sizes: int) -> Array:
        return random.integers(0, 256, sizes, np.uint8)

    scales = random.uniform(-1, 1, (n, blocks)).astype(np.float32)
    zeros = byte(n, -(-blocks // 2)) if blocks > 1 and draw(st.booleans()) else None
    flat = draw(st.booleans())
    inputs: list[Array | None] = [values(draw, (*shape(draw, 0, 2, 1), size(draw), k))]
    inputs += [byte(n, blocks, block // 2)]
    inputs += [
        tensor if tensor is None or not flat else tensor.reshape(-1) for tensor in (scales, zeros)
    ]
    return inputs[: 3 + (zeros is not None)], {"K": k, "N": n, "bits": 4, "block_size": block}, 1


_STRATEGIES = {
    "Gelu": gelu,
    "BiasGelu": lambda draw: biased(draw, False),
    "FastGelu": lambda draw: biased(draw, True),
    "QuickGelu": quick_gelu,
    "FusedMatMul": matmul,
    "FusedGemm": gemm,
    "FusedConv": conv,
    "SkipLayerNormalization": lambda draw: skip(draw, False),
    "SkipSimplifiedLayerNormalization": lambda draw: skip(draw, True),
    "RotaryEmbedding": rotary,
    "MultiHeadAttention": attention,
    "MatMulNBits": four_bits,
}


def test_every_operator_has_random_nodes() -> None:
    assert set(_STRATEGIES) == set(OPERATORS)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_agrees_with_the_kernel(op_type: str) -> None:
    @examples_of_nodes(20)
    @given(st.data())
    def agrees(data: Any) -> None:
        node = noted(random_node(data.draw, op_type))
        spec = specification(DOMAIN, op_type, 1)
        assert spec is not None
        (wanted,) = runtime(node)
        got = spec.evaluate(node.inputs, node.attributes, outputs=node.outputs)[0]
        assert agree(got, np.asarray(wanted), 2e-4, 2e-5), (got, wanted)

    agrees()


def kernels_and_schemas() -> dict[str, Any]:
    state = onnxruntime.capi.onnxruntime_pybind11_state
    return {
        schema.name: schema for schema in state.get_all_operator_schema() if schema.domain == DOMAIN
    }


@pytest.mark.parametrize("op_type", OPERATORS)
def test_the_schema_is_the_runtimes(op_type: str) -> None:
    runtimes = kernels_and_schemas()[op_type]
    register()
    ours = defs.get_schema(op_type, 1, DOMAIN)
    assert set(ours.attributes) == set(runtimes.attributes)
    assert [input_.option.name for input_ in ours.inputs] == [
        input_.option.name for input_ in runtimes.inputs
    ]
    assert [output.option.name for output in ours.outputs] == [
        output.option.name for output in runtimes.outputs
    ]
    assert schema_for(DOMAIN, op_type, 1) is not None
    for name, attribute in runtimes.attributes.items():
        stated = onnx.AttributeProto.FromString(attribute._default_value)
        assert ours.attributes[name].type.name == attribute.type.name
        if stated.type:
            default = helper.get_attribute_value(ours.attributes[name].default_value)
            assert default == pytest.approx(helper.get_attribute_value(stated)) or default == (
                helper.get_attribute_value(stated)
            )


def test_what_an_unknown_operator_gives_has_no_type() -> None:
    register()
    nodes = [
        helper.make_node("Odd", ["x"], ["a"], domain="somebody"),
        helper.make_node("Gelu", ["a"], ["y"], domain=DOMAIN),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph(nodes, "unknown", ends[:1], ends[1:])
    imports = [helper.make_opsetid(domain, 1) for domain in ("somebody", DOMAIN)]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), *imports])
    assert not shape_inference.infer_shapes(model).graph.value_info


def test_types_and_shapes_are_inferred() -> None:
    register()
    if not hasattr(defs.OpSchema, "set_type_and_shape_inference_function"):
        pytest.skip("this release of onnx learns no inference")
    nodes = [
        helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain=DOMAIN, transB=1),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 3, 4]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [5, 4]),
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [None] * 3)],
    )
    opsets = [
        helper.make_opsetid("", 17),
        *(helper.make_opsetid(*domain) for domain in DOMAINS.items()),
    ]
    model = helper.make_model(graph, opset_imports=opsets)
    onnx.checker.check_model(model)
    (z,) = shape_inference.infer_shapes(model, strict_mode=True).graph.output
    sizes = [dim.dim_param or dim.dim_value for dim in z.type.tensor_type.shape.dim]
    assert sizes == ["n", 3, 5]


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes"),
    [
        ("FusedMatMul", [(2, 3), (3, 2)], {"transBatchA": 1}),
        ("FusedGemm", [(2, 3), (3, 2)], {"activation": "Softplus"}),
        ("FusedGemm", [(2, 3), (3, 2)], {"activation": "Clip"}),
        ("RotaryEmbedding", [(1, 1, 2, 4), (1, 2), (2, 2), (2, 2)], {"scale": 2.0}),
        ("MultiHeadAttention", [(1, 2, 4)] * 3, {"num_heads": 2, "unidirectional": 1}),
        (
            "MatMulNBits",
            [(1, 32), (5, 1, 32), (5, 1)],
            {"K": 32, "N": 5, "bits": 8, "block_size": 32},
        ),
        ("MatMulNBits", [(1, 32), (5, 1, 32), (5, 1)], FOUR_BITS | {"bits": 8}),
        ("MatMulNBits", [(1, 32), (5, 1, 16), (5, 1)], FOUR_BITS | {"K": 64}),
        ("MatMulNBits", [(1, 32), (5, 1, 16), (5, 1)], FOUR_BITS | {"weight_prepacked": 1}),
        ("MultiHeadAttention", [(1, 2, 2, 3, 2)], {"num_heads": 2}),
        ("MultiHeadAttention", [(1, 2, 4)], {"num_heads": 2}),
        ("MultiHeadAttention", [(1, 2, 4)] * 3 + [(12,)], {"num_heads": 2}),
    ],
)
def test_what_is_not_described_is_refused(
    op_type: str, shapes: list[Any], attributes: dict[str, Any]
) -> None:
    spec = specification(DOMAIN, op_type, 1)
    assert spec is not None
    with pytest.raises(ShapeError):
        spec.shapes(shapes, attributes)


FIRST = {
    "types": (
        "from tensolog.rules.prover.cases.element_types import signature",
        "assert signature('com.microsoft:FusedMatMul', 1) is not None",
    ),
    "shapes": (
        "import sys, onnx; from tensolog.rules.compiler.model_view import ModelView",
        "view = ModelView(onnx.load(sys.argv[1])); assert view.shape(view.ids['y']) == (2, 5)",
    ),
    "the reference implementation": (
        "from tensolog.catalog.operators.contributed import register",
        "register(); import onnx.defs; from onnx.reference import ReferenceEvaluator",
        "assert onnx.defs.has('FusedMatMul', 'com.microsoft')",
    ),
}


@pytest.mark.parametrize("first", FIRST)
def test_schemas_are_known_to_whoever_asks_first(first: str, tmp_path: Path) -> None:
    """In a process that has asked nothing before."""
    graph = helper.make_graph(
        [helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain=DOMAIN, transB=1)],
        "one",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 4]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [5, 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [
        helper.make_opsetid("", 17),
        *(helper.make_opsetid(*domain) for domain in DOMAINS.items()),
    ]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "one.onnx")
    code = "; ".join(FIRST[first])
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "one.onnx")])
    assert done.returncode == 0
