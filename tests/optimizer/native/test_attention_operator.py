"""ONNX's own operator Attention as a kernel, where it is one."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from .build import check, fused, kernels_of, model, needs_compiler
from .test_attention import LOWEST, causal, normal

pytestmark = needs_compiler
node = helper.make_node
SHAPES = {"q": ["b", 2, "s", 16], "k": ["b", 2, "t", 16], "v": ["b", 2, "t", 8]}


def attended(inputs=("q", "k", "v"), shapes=SHAPES, outputs=("y",), **attributes):
    nodes = [node("Attention", list(inputs), list(outputs), **attributes)]
    input_shapes = {name: shapes[name] for name in inputs if name}
    return model(nodes, input_shapes, dict.fromkeys(outputs), (), opset=23)


def feeds(queries=41, keys=41, **others):
    sizes = {"q": (queries, 16), "k": (keys, 16), "v": (keys, 8)}
    return {n: normal(2, 2, *s, seed=seed) for seed, (n, s) in enumerate(sizes.items())} | others


def is_kernel(proto):
    fusion = fused(proto)
    return fusion is not None and any(
        name.startswith("Attention") for name in kernels_of(fusion[0])
    )


@pytest.mark.parametrize("scale", [None, 0.5])
def test_queries_keys_and_values(scale):
    attributes = {} if scale is None else {"scale": scale}
    check(attended(**attributes), feeds(), feeds(3, 97), expect=1, threads=2)


@pytest.mark.parametrize("shape", [["s", "t"], [1, 1, "s", "t"], ["b", 1, "s", "t"], [2, "s", "t"]])
def test_a_mask_that_is_added(shape):
    proto = attended(("q", "k", "v", "mask"), {**SHAPES, "mask": shape})
    sizes = tuple({"b": 2, "s": 30, "t": 41}.get(size, size) for size in shape)
    mask = np.ascontiguousarray(np.broadcast_to(causal(30, 41, LOWEST)[0, 0], sizes))
    check(proto, feeds(30, 41, mask=mask), expect=1)


@pytest.mark.parametrize(("queries", "keys"), [(30, 41), (41, 30)])
def test_a_causal_one_of_known_sizes(queries, keys):
    shapes = {"q": [2, 2, queries, 16], "k": [2, 2, keys, 16], "v": [2, 2, keys, 8]}
    proto = attended(shapes=shapes, is_causal=1)
    check(proto, feeds(queries, keys), expect=1)


def test_two_layers_of_one_kernel_share_their_mask():
    shapes = {"q": [2, 2, 41, 16], "k": [2, 2, 41, 16], "v": [2, 2, 41, 16]}
    nodes = [
        node("Attention", ["q", "k", "v"], ["a"], is_causal=1),
        node("Attention", ["a", "k", "v"], ["y"], is_causal=1),
    ]
    proto = model(nodes, shapes, {"y": None}, opset=23)
    inputs = {name: normal(2, 2, 41, 16, seed=seed) for seed, name in enumerate("qkv")}
    changed, _ = check(proto, inputs, expect=2)
    assert len(set(kernels_of(changed))) == 1
    assert len(changed.graph.initializer) == 1


OTHERS = {
    "a cap": {"softcap": 2.0},
    "free sizes and causal": {"is_causal": 1},
    "scores": {"outputs": ("y", "", "", "scores")},
    "fewer heads of keys": {"shapes": {**SHAPES, "q": ["b", 4, "s", 16]}},
    "three axes": {
        "shapes": {"q": ["b", "s", 32], "k": ["b", "t", 32], "v": ["b", "t", 16]},
        "q_num_heads": 2,
        "kv_num_heads": 2,
    },
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_anything_else_stays_what_it_is(name):
    assert is_kernel(attended())
    assert not is_kernel(attended(**OTHERS[name]))


def test_a_mask_of_truth_values_stays_what_it_is():
    proto = attended(("q", "k", "v", "mask"), {**SHAPES, "mask": ["s", "t"]})
    assert is_kernel(proto)
    (entry,) = (input_ for input_ in proto.graph.input if input_.name == "mask")
    entry.type.tensor_type.elem_type = TensorProto.BOOL
    assert not is_kernel(proto)
