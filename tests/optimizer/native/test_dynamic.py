"""Products that are quantized while a model runs: equal to the bit to the runtime's."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, compose, helper, numpy_helper
from tensolog.optimizer.match.rewrite import clean
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.quantized.dynamic import dynamic_products
from tensolog.optimizer.native.quantized.running_norm import is_running
from tensolog.optimizer.native.regions.region_candidates import candidates
from tensolog.optimizer.native.runtime_answers import optimized_nodes
from tensolog.profiles.sessions.execution import Execution

from .build import (
    TRIED_LEVELS,
    built_together,
    fused,
    infer_types,
    load_graph,
    native_level,
    needs_compiler,
    opened,
    to_model,
    typed,
)
from .dynamic_models import CONTRIBUTED, FLOAT, Dynamic

pytestmark = needs_compiler

MATRIX = Dynamic("MatMulInteger", ("n", 36), (36, 70), ("n", 70))
IMAGE = Dynamic("ConvInteger", (1, 6, 9, 8), (20, 6, 3, 3), (1, 20, 7, 6))
CASES = {
    "matrix": MATRIX,
    "one scale": Dynamic("MatMulInteger", ("n", 20), (20, 64), ("n", 64), is_by_channel=False),
    "batches": Dynamic("MatMulInteger", (2, "n", 9), (9, 130), (2, "n", 130), bias=False),
    "unsigned": replace(MATRIX, weights="uint8", zero=128),
    "unsigned, off centre": replace(MATRIX, weights="uint8", zero=90, x=("n", 33), w=(33, 70)),
    "signed, off centre": replace(MATRIX, zero=-40),
    "the runtime's own": replace(MATRIX, fused=True),
    "without a bias": replace(MATRIX, fused=True, bias=False),
    "cut off": replace(MATRIX, behind=("Relu",)),
    "image": IMAGE,
    "padded": replace(
        IMAGE,
        y=(1, 20, 5, 4),
        zero=100,
        weights="uint8",
        attributes={"pads": [1] * 4, "strides": [2, 2]},
        is_by_channel=False,
    ),
    "one axis": Dynamic(
        "ConvInteger",
        (2, 4, 30),
        (12, 4, 7),
        (2, 12, 15),
        attributes={"pads": [3, 3], "strides": [2]},
        bias=False,
    ),
    "each channel by itself": replace(
        IMAGE,
        x=(1, 70, 9, 8),
        w=(70, 1, 3, 3),
        y=(1, 70, 9, 8),
        attributes={"group": 70, "pads": [1] * 4},
    ),
    "groups of few channels": replace(
        IMAGE,
        x=(1, 70, 9, 8),
        w=(70, 5, 3, 3),
        y=(1, 70, 9, 8),
        attributes={"group": 14, "pads": [1] * 4},
    ),
    "groups off centre": replace(
        IMAGE, w=(40, 3, 3, 3), y=(1, 40, 7, 6), zero=-40, attributes={"group": 2}
    ),
    "an image cut off": replace(IMAGE, behind=("Relu",)),
}


def found_in(proto):
    """The graph, and its products with all that may follow them."""
    graph = typed(proto)
    nodes = optimized_nodes(proto.SerializeToString(), Execution(), 1)
    meanings = Meanings(graph, optimized=nodes)
    return graph, dynamic_products(meanings, graph.nodes, graph.nodes)


@cache
def kernels(level, **changed):
    """For each case a session with its kernel, and one without, built for a level together."""
    cases = {name: replace(case, **changed) for name, case in CASES.items()}
    graphs_and_kernels = {}
    for name, case in cases.items():
        graph, (region_kernel,) = found_in(case.model())
        graphs_and_kernels[name] = graph, region_kernel
    models, library = built_together(graphs_and_kernels, level)
    sessions = {}
    for name, changed in models.items():
        others = {n.op_type for n in changed.graph.node} - {graphs_and_kernels[name][1].kernel.name}
        assert others <= {"DynamicQuantizeLinear", "Transpose"}
        original = opened(cases[name].model())
        sessions[name] = cases[name], opened(changed, library, threads=2), original
    return sessions


@pytest.mark.parametrize("level", TRIED_LEVELS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_sums_are_exact_and_each_step_behind_them_is_rounded(level, seed, rows):
    rng = np.random.default_rng(seed)
    for name, (case, session, _) in kernels(level).items():
        feeds = case.feeds(rng, rows)
        (result,) = session.run(None, feeds)
        wanted = case.expected(feeds["x"])
        wanted = np.maximum(wanted, 0) if case.behind else wanted
        np.testing.assert_array_equal(result, wanted, err_msg=name)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_a_kernel_gives_what_the_runtime_gives(seed, rows):
    # of 7 bits: without instructions for it, the runtime saturates sums of two products of 8 bits
    rng = np.random.default_rng(seed)
    for name, (case, session, original) in kernels(native_level(), most=63).items():
        if case.weights == "uint8":
            continue
        feeds = case.feeds(rng, rows)
        wanted = original.run(None, feeds)
        np.testing.assert_array_equal(session.run(None, feeds), wanted, err_msg=name)


@pytest.mark.parametrize(("op_type", "follows"), [("Relu", True), ("Erf", False)])
def test_what_follows_is_computed_with_a_product_where_nothing_is_left_to_rounding(
    op_type, follows
):
    _, (region_kernel,) = found_in(replace(MATRIX, behind=(op_type,)).model())
    assert len(region_kernel.region.nodes) == 5 + follows
    assert region_kernel.kernel.is_exact


def changed(proto, **arrays):
    """The model with other constants."""
    for tensor in proto.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return proto


def without(proto, name):
    """The model of which a constant is an input."""
    (tensor,) = (initializer for initializer in proto.graph.initializer if initializer.name == name)
    info = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
    proto.graph.initializer.remove(tensor)
    proto.graph.input.append(info)
    return proto


def read_elsewhere(proto, name, element):
    proto.graph.output.append(helper.make_tensor_value_info(name, element, None))
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        without(MATRIX.model(), "w"),
        without(MATRIX.model(), "sw"),
        read_elsewhere(MATRIX.model(), "i", TensorProto.INT32),
        read_elsewhere(MATRIX.model(), "f", FLOAT),
        changed(IMAGE.model(), sw=np.ones((1, 1, 6), np.float32)),
        replace(MATRIX, w=(36, 4), y=("n", 4)).model(),
    ],
    ids=[
        "weights that aren't known",
        "scales that aren't known",
        "the sums are read",
        "the sums as float32 are read",
        "scales along another axis",
        "too few outputs",
    ],
)
def test_what_is_no_such_product_is_left(proto):
    assert not found_in(proto)[1]


def test_a_bias_of_another_axis_stays_outside():
    proto = replace(IMAGE, y=(1, 20, 7, 6)).model()
    changed(proto, b=np.ones((1, 1, 6), np.float32))
    graph, (region_kernel,) = found_in(proto)
    assert [graph.nodes[n].op_type for n in region_kernel.region.nodes][-1] == "Mul"


# ------------------------------------------------------------------------ what leads to integers


def block(depth=48, skip=(2, 7, 48), opens=("Tanh",), closes=()):
    """A product that is quantized, a residual, a normalization, and another such product."""
    rng = np.random.default_rng(depth)
    nodes, arrays = [], {}
    last = "x"
    for i, op_type in enumerate(opens):
        nodes.append(helper.make_node(op_type, [last], [f"o{i}"]))
        last = f"o{i}"
    for layer in range(2):
        name = f"l{layer}"
        arrays |= {
            f"{name}.w": rng.integers(-64, 64, (depth, depth)).astype(np.int8),
            f"{name}.sw": np.float32(0.02),
            f"{name}.zw": np.int8(0),
            f"{name}.b": rng.normal(size=depth).astype(np.float32),
        }
        step = [f"{name}.{part_name}" for part_name in ("q", "sx", "zx")]
        nodes += [
            helper.make_node("DynamicQuantizeLinear", [last], step),
            helper.make_node(
                "MatMulInteger", [step[0], f"{name}.w", step[2], f"{name}.zw"], [f"{name}.i"]
            ),
            helper.make_node("Cast", [f"{name}.i"], [f"{name}.f"], to=FLOAT),
            helper.make_node("Mul", [step[1], f"{name}.sw"], [f"{name}.s"]),
            helper.make_node("Mul", [f"{name}.f", f"{name}.s"], [f"{name}.m"]),
            helper.make_node("Add", [f"{name}.m", f"{name}.b"], [f"{name}.p"]),
        ]
        last = f"{name}.p"
        if layer == 0:
            arrays |= {
                "gain": rng.normal(1, 0.1, depth).astype(np.float32),
                "shift": rng.normal(size=depth).astype(np.float32),
            }
            nodes += [
                helper.make_node("Add", [last, "skip"], ["total"]),
                helper.make_node("LayerNormalization", ["total", "gain", "shift"], ["normal"]),
            ]
            last = "normal"
    for i, op_type in enumerate(closes):
        nodes.append(helper.make_node(op_type, [last], [f"c{i}"]))
        last = f"c{i}"
    graph = helper.make_graph(
        nodes,
        "block",
        [
            helper.make_tensor_value_info("x", FLOAT, (2, 7, depth)),
            helper.make_tensor_value_info("skip", FLOAT, skip),
        ],
        [helper.make_tensor_value_info(last, FLOAT, (2, 7, depth))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIBUTED, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def fused_as_optimized(proto):
    nodes = optimized_nodes(proto.SerializeToString(), Execution(), 1)
    return fused(proto, optimized=nodes)


def labels(model):
    return [node.op_type.partition("_")[0] for node in model.graph.node]


@pytest.mark.skipif(not is_running(False), reason="this runtime normalizes in another way")
def test_a_normalization_between_two_products_is_rounded_as_the_runtime_does():
    proto = block()
    changed, library = fused_as_optimized(proto)
    assert "AddLayerNormalization" in labels(changed)
    rng = np.random.default_rng(3)
    for offset in (0, 100):
        feeds = {
            name: rng.normal(offset, 2, (2, 7, 48)).astype(np.float32) for name in ("x", "skip")
        }
        wanted = opened(proto).run(None, feeds)
        results = opened(changed, library, threads=2).run(None, feeds)
        np.testing.assert_array_equal(results, wanted)


def test_a_sum_that_broadcasts_is_left_with_its_normalization():
    changed, _ = fused_as_optimized(block(skip=(7, 48)))
    assert labels(changed).count("LayerNormalization") == 1


def test_what_rounds_as_it_likes_stays_with_the_runtime_before_integers_and_behind_them():
    proto = block(opens=("Tanh", "Relu"), closes=("Erf",))
    graph = typed(proto)
    optimized = optimized_nodes(proto.SerializeToString(), Execution(), 1)
    computable = candidates(Meanings(graph, optimized)).computable
    left = {graph.nodes[n].op_type for n in computable}
    assert "Relu" in left
    assert not left & {"Tanh", "Erf", "LayerNormalization"}


def test_what_no_integers_depend_on_may_round():
    proto = block()
    proto.graph.node.append(helper.make_node("Tanh", ["skip"], ["apart"]))
    proto.graph.output.append(helper.make_tensor_value_info("apart", FLOAT, (2, 7, 48)))
    graph = typed(proto)
    computable = candidates(Meanings(graph)).computable
    left = [graph.names[graph.nodes[n].outputs[0]] for n in computable]
    assert left == ["apart"]


def test_several_products_of_one_tensor_quantize_it_once():
    """As queries, keys and values do, each quantized by itself in the model."""
    parts = [
        compose.add_prefix(replace(MATRIX, x=(5, 36), y=(5, 70)).model(), prefix)
        for prefix in "abc"
    ]
    for part in parts:
        for node in part.graph.node:
            node.input[:] = [
                "x" if name.endswith("x") and len(name) == 2 else name for name in node.input
            ]
    graph = helper.make_graph(
        [node for part in parts for node in part.graph.node],
        "several",
        [helper.make_tensor_value_info("x", FLOAT, (5, 36))],
        [part.graph.output[0] for part in parts],
        [initializer for part in parts for initializer in part.graph.initializer],
    )
    imports = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    cleaned = load_graph(proto)
    cleaned.types = infer_types(cleaned)
    clean(cleaned, 1 << 20)
    changed, library = fused(to_model(cleaned))
    operators = [node.op_type for node in changed.graph.node]
    assert len(operators) == 4
    assert operators.count("DynamicQuantizeLinear") == 1
    feeds = MATRIX.feeds(np.random.default_rng(5), rows=5)
    wanted = opened(proto).run(None, feeds)
    for result, expected in zip(opened(changed, library).run(None, feeds), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)
