"""Products of 8-bit integers: equal to the bit to exact sums, and to the runtime."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, compose, helper, numpy_helper
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.quantized.groups import separate
from tensolog.optimizer.native.quantized.pool import quantized_pools
from tensolog.optimizer.native.quantized.quantized_products import quantized_products
from tensolog.optimizer.native.region_kinds import Kind, step_of

from .build import (
    TRIED_LEVELS,
    built_together,
    fused,
    native_level,
    needs_compiler,
    opened,
    typed,
)
from .quantized_models import TYPES, Case

pytestmark = needs_compiler

CASES = {
    "gemm": Case("Gemm", ("n", 36), (36, 70), ("n", 70)),
    "gemm, transposed": Case(
        "Gemm", ("n", 33), (17, 33), ("n", 17), attributes={"transB": 1}, zeros=(3, 0, 250)
    ),
    "matmul of batches": Case(
        "MatMul", (2, "n", 9), (9, 130), (2, "n", 130), bias=False, y_dtype="int8", zeros=(0, 0, -7)
    ),
    "signed rows": Case(
        "MatMul", ("n", 40), (40, 8), ("n", 8), x_dtype="int8", zeros=(-128, 0, 0), bias=False
    ),
    "unsigned weights": Case(
        "Gemm", ("n", 64), (64, 64), ("n", 64), "uint8", "uint8", zeros=(9, 128, 99)
    ),
    "weights of 9 bits": Case("Gemm", ("n", 36), (36, 70), ("n", 70), zeros=(128, 100, 128)),
    "filters of 9 bits": Case(
        "Conv",
        (1, 3, 9, 8),
        (10, 3, 3, 3),
        (1, 10, 9, 8),
        weights="uint8",
        zeros=(77, 90, 5),
        attributes={"pads": [1] * 4},
    ),
    "one scale": Case("Gemm", ("n", 20), (20, 40), ("n", 40), is_by_channel=False),
    "all saturate": Case("Gemm", ("n", 64), (64, 16), ("n", 16), scale=1e-6, zeros=(100, 0, 7)),
    "nothing is left": Case("Gemm", ("n", 64), (64, 16), ("n", 16), scale=1e6),
    "points": Case("Conv", ("n", 8, 5, 6), (20, 8, 1, 1), ("n", 20, 5, 6)),
    "points at steps": Case(
        "Conv", (1, 16, 7, 6), (33, 16, 1, 1), (1, 33, 4, 3), attributes={"strides": [2, 2]}
    ),
    "padded": Case(
        "Conv", (2, 3, 9, 8), (10, 3, 3, 3), (2, 10, 9, 8), attributes={"pads": [1] * 4}
    ),
    "signed images": Case(
        "Conv",
        (1, 6, 9, 8),
        (64, 6, 5, 3),
        (1, 64, 4, 4),
        "int8",
        y_dtype="int8",
        zeros=(-5, 0, 11),
        attributes={"pads": [1, 0, 2, 2], "strides": [2, 2]},
        bias=False,
    ),
    "dilated": Case(
        "Conv",
        (1, 5, 12, 13),
        (9, 5, 3, 3),
        (1, 9, 10, 9),
        attributes={"pads": [1] * 4, "dilations": [2, 3]},
    ),
    "one axis": Case(
        "Conv",
        (2, 4, 30),
        (12, 4, 7),
        (2, 12, 15),
        attributes={"pads": [3, 3], "strides": [2]},
    ),
    "added to": Case(
        "Conv",
        (1, 4, 5, 5),
        (40, 4, 3, 3),
        (1, 40, 5, 5),
        attributes={"pads": [1] * 4},
        added="first",
    ),
    "added": Case(
        "Gemm", ("n", 16), (16, 80), ("n", 80), y_dtype="int8", zeros=(77, 0, 5), added="second"
    ),
}
APART = Case(
    "Conv",
    (2, 72, 9, 8),
    (72, 1, 3, 3),
    (2, 72, 9, 8),
    zeros=(77, 0, 5),
    attributes={"pads": [1] * 4, "group": 72},
)
GROUPED = replace(
    APART,
    x=(2, 80, 9, 8),
    w=(80, 4, 3, 3),
    y=(2, 80, 9, 8),
    attributes={"pads": [1] * 4, "group": 20},
)
CASES |= {
    "each channel by itself": APART,
    "each channel of signed ones": replace(
        APART,
        w=(72, 1, 5, 3),
        y=(2, 72, 3, 4),
        x_dtype="int8",
        y_dtype="int8",
        zeros=(-7, 0, 3),
        attributes={"pads": [1, 1, 0, 0], "strides": [2, 2], "group": 72},
    ),
    "each channel, nothing around it": replace(
        APART,
        x=(1, 64, 9, 8),
        w=(64, 1, 3, 3),
        y=(1, 64, 5, 4),
        attributes={"dilations": [2, 2], "group": 64},
        added="first",
    ),
    "groups of few channels": replace(GROUPED, added="second"),
    "groups of few outputs, odd": replace(
        GROUPED,
        x=(2, 55, 9, 8),
        w=(33, 5, 3, 2),
        y=(2, 33, 4, 6),
        x_dtype="int8",
        y_dtype="int8",
        zeros=(-7, 0, 3),
        attributes={"strides": [2, 1], "dilations": [1, 2], "pads": [0, 0, 1, 0], "group": 11},
    ),
    "several outputs of each channel": replace(
        GROUPED,
        x=(1, 24, 5, 6),
        w=(72, 1, 3, 3),
        y=(1, 72, 5, 6),
        attributes={"pads": [1] * 4, "group": 24},
    ),
    "groups that fill vectors": replace(
        GROUPED,
        x=(2, 36, 9, 8),
        w=(210, 12, 3, 3),
        y=(2, 210, 9, 8),
        attributes={"pads": [1] * 4, "group": 3},
    ),
    "groups of many channels and few outputs": replace(
        GROUPED,
        x=(1, 90, 4, 4),
        w=(10, 45, 3, 3),
        y=(1, 10, 4, 4),
        attributes={"pads": [1] * 4, "group": 2},
    ),
    "groups, points at steps": replace(
        GROUPED,
        x=("n", 64, 7, 6),
        w=(32, 16, 1, 1),
        y=("n", 32, 4, 3),
        attributes={"strides": [2, 2], "group": 4},
    ),
    "groups of one axis": replace(
        GROUPED, x=(2, 12, 30), w=(24, 3, 5), y=(2, 24, 26), attributes={"group": 4}
    ),
    "groups of 9 bits": replace(GROUPED, weights="uint8", zeros=(77, 90, 5)),
    "looked up": replace(CASES["gemm"], function=True),
    "added to and looked up": replace(
        CASES["added"], y=("n", 80), zeros=(77, 0, -5), function=True, scale=0.01
    ),
}


@cache
def kernels(level, **changed):
    """For each case a session with its kernel, and one without, built for a level together."""
    cases = {name: replace(case, **changed) for name, case in CASES.items()}
    graphs_and_kernels = {}
    for name, case in cases.items():
        graph = typed(case.model())
        separate(graph)
        graphs_and_kernels[name] = graph, regions(Meanings(graph), graph.nodes)[0]
    models, library = built_together(graphs_and_kernels, level)
    sessions = {}
    for name, changed in models.items():
        kernel = graphs_and_kernels[name][1].kernel
        assert {n.op_type for n in changed.graph.node} == {kernel.name, "Transpose"} or (
            len(changed.graph.node) == 1
        )
        original = opened(cases[name].model())
        sessions[name] = cases[name], opened(changed, library, threads=2), original
    return sessions


@pytest.mark.parametrize("level", TRIED_LEVELS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_sums_are_exact_and_become_integers_by_the_formula(level, seed, rows):
    rng = np.random.default_rng(seed)
    for name, (case, session, _) in kernels(level).items():
        feeds = case.feeds(rng, rows)
        if not case.added and not case.function:
            (result,) = session.run(None, feeds)
            np.testing.assert_array_equal(result, case.expected(feeds["x"]), err_msg=name)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 40))
def test_a_kernel_gives_what_the_runtime_gives(seed, rows):
    # of 7 bits: without instructions for it, the runtime saturates sums of two products of 8 bits
    rng = np.random.default_rng(seed)
    for name, (case, session, original) in kernels(native_level(), least=-64, most=63).items():
        if case.weights == "uint8":
            continue
        feeds = case.feeds(rng, rows)
        wanted = original.run(None, feeds)
        np.testing.assert_array_equal(session.run(None, feeds), wanted, err_msg=name)


def pooled(case, scale="sy"):
    """A case with the largest of windows behind it, whose integers have the scale of that name."""
    proto = case.model()
    nodes = [
        helper.make_node("DequantizeLinear", ["y", "sy", "zy"], ["m"]),
        helper.make_node(
            "MaxPool", ["m"], ["n"], kernel_shape=[3, 3], strides=[2, 1], pads=[1] * 4
        ),
        helper.make_node("QuantizeLinear", ["n", scale, "zy"], ["q"]),
    ]
    proto.graph.node.extend(nodes)
    size = [case.y[0], case.y[1], (case.y[2] + 1) // 2, case.y[3]]
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("q", TYPES[case.y_dtype], size))
    return proto


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_between_two_kernels_nothing_is_turned(dtype):
    kind = {"x_dtype": dtype, "y_dtype": dtype, "zeros": (5, 0, 7)}
    first = Case("Conv", (1, 8, 9, 9), (40, 8, 3, 3), (1, 40, 7, 7), **kind)
    second = Case("Conv", (1, 40, 4, 7), (8, 40, 1, 1), (1, 8, 4, 7), **kind)
    parts = [
        compose.add_prefix(part, prefix)
        for part, prefix in ((pooled(first), "a"), (second.model(), "b"))
    ]
    proto = compose.merge_models(*parts, [("aq", "bx")])
    changed, library = fused(proto)
    names = [node.op_type.partition("_")[0] for node in changed.graph.node]
    assert names == [
        "Transpose",
        "ConvQuantizeLinear",
        "MaxPool",
        "ConvQuantizeLinear",
        "Transpose",
    ]
    feeds = {f"a{name}": x for name, x in first.feeds(np.random.default_rng(1)).items()}
    wanted = opened(proto).run(None, feeds)
    np.testing.assert_array_equal(opened(changed, library, threads=2).run(None, feeds), wanted)


def found_in(proto, find=quantized_products):
    graph = typed(proto)
    separate(graph)
    return find(Meanings(graph), graph.nodes)


def changed(proto, **arrays):
    """The model with other constants."""
    for tensor in proto.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return proto


def with_output(proto, name, dtype, shape):
    proto.graph.output.append(helper.make_tensor_value_info(name, dtype, shape))
    return proto


GEMM = Case("Gemm", ("n", 36), (36, 70), ("n", 70))


def test_products_of_integers_say_that_they_are_exact():
    graph = typed(GEMM.model())
    separate(graph)
    (region_kernel,) = regions(Meanings(graph), graph.nodes)
    assert step_of(Kind([region_kernel]), region_kernel, ()).equal == "exact"


def test_a_product_whose_rows_others_read_is_found():
    proto = with_output(GEMM.model(), "negated", TensorProto.FLOAT, ("n", 36))
    proto.graph.node.append(helper.make_node("Neg", ["X"], ["negated"]))
    assert len(found_in(proto)) == 1


@pytest.mark.parametrize(
    "proto",
    [
        with_output(GEMM.model(), "P", TensorProto.FLOAT, ("n", 70)),
        changed(GEMM.model(), sb=np.full(70, 0.5, np.float32)),
        changed(GEMM.model(), zb=np.full(70, 1, np.int32)),
        replace(GEMM, attributes={"alpha": 0.5}).model(),
        changed(APART.model(), zw=np.full(72, 100, np.int8)),
    ],
    ids=[
        "the product is read",
        "a bias of its own scale",
        "a bias with a zero point",
        "half of it",
        "channels by themselves, of 9 bits",
    ],
)
def test_what_integers_alone_do_not_give_is_left(proto):
    assert not found_in(proto)


@pytest.mark.parametrize(
    ("scale", "count"), [("sy", 1), ("so", 0)], ids=["the same scale", "another scale"]
)
def test_a_pool_keeps_integers_of_the_same_scale_alone(scale, count):
    case = Case("Conv", (1, 8, 9, 9), (16, 8, 3, 3), (1, 16, 7, 7))
    proto = pooled(case, scale)
    if scale == "so":
        proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "so"))
    assert len(found_in(proto, quantized_pools)) == count


def test_a_region_has_all_nodes_of_what_the_runtime_makes_one_operator_of_or_none():
    """A sum of two tensors of integers is another one if it is rounded in between."""
    case = Case("Gemm", (5, 16), (16, 80), (5, 80), added="first")
    proto = case.model()
    del proto.graph.node[:5]
    del proto.graph.input[0]
    proto.graph.input.append(helper.make_tensor_value_info("p", TensorProto.UINT8, (5, 80)))
    changed, _ = fused(proto)
    assert [node.op_type.partition("_")[0] for node in changed.graph.node] == ["QuantizedAdd"]
