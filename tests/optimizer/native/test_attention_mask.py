"""Masks in several steps, any order: what is left out by them contributes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.native.attention.attentions import attentions
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .build import check, model, needs_compiler, typed
from .test_attention import LOWEST, causal, feeds, normal

pytestmark = needs_compiler
node = helper.make_node
SIZE, WIDTH = 70, 16
CONSTANTS = {
    "scale": np.float32(0.25),
    "shrink": np.float32(-4.0),
    "zero": np.float32(0),
    "fill": np.float32(LOWEST),
    "low": np.float32(-np.inf),
}
# Each step makes y of x; what it reads besides is a mask for queries and keys, or one for keys.
STEPS = {
    "add": [node("Add", ["x", "causal"], ["y"])],
    "add first": [node("Add", ["keys", "x"], ["y"])],
    "subtract": [node("Sub", ["x", "weight"], ["y"])],
    "scale": [node("Mul", ["x", "scale"], ["y"])],
    "divide": [node("Div", ["x", "shrink"], ["y"])],
    "cap": [node("Tanh", ["x"], ["y"])],
    "choose": [node("Equal", ["causal", "zero"], ["c"]), node("Where", ["c", "x", "fill"], ["y"])],
    "choose otherwise": [
        node("Less", ["causal", "zero"], ["c"]),
        node("Where", ["c", "low", "x"], ["y"]),
    ],
    "choose by not": [
        node("Less", ["causal", "zero"], ["b"]),
        node("Not", ["b"], ["c"]),
        node("Where", ["c", "x", "fill"], ["y"]),
    ],
}
MASKING = {"add", "choose", "choose otherwise", "choose by not"}


def chained(steps):
    """An attention whose scores go through steps."""
    nodes = [node("MatMul", ["q", "k"], ["s0"])]
    for i, step in enumerate(steps):
        for operator in STEPS[step]:
            names = {"x": f"s{i}", "y": f"s{i + 1}", "b": f"b{i}", "c": f"c{i}"}
            inputs = [names.get(name, name) for name in operator.input]
            nodes.append(node(operator.op_type, inputs, [names[operator.output[0]]]))
    nodes += [
        node("Softmax", [f"s{len(steps)}"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    inputs = {
        "q": [1, 2, "s", WIDTH],
        "k": [1, 2, WIDTH, "t"],
        "v": [1, 2, "t", WIDTH],
        "causal": [1, 1, "s", "t"],
        "keys": [1, 1, 1, "t"],
        "weight": [1, 1, "s", "t"],
    }
    used = {name for node in nodes for name in node.input}
    input_shapes = {name: shape for name, shape in inputs.items() if name in used}
    constants = {name: value for name, value in CONSTANTS.items() if name in used}
    return model(nodes, input_shapes, {"y": [1, 2, "s", WIDTH]}, constants)


def masks(value):
    keys = np.zeros((1, 1, 1, SIZE), np.float32)
    keys[..., 60:] = LOWEST
    weight = np.abs(normal(1, 1, SIZE, SIZE, seed=9)) * 40
    return {"causal": causal(SIZE, SIZE, value), "keys": keys, "weight": weight}


def skips(proto):
    graph = typed(proto)
    (attention,) = attentions(Meanings(graph), graph.nodes)
    return attention.kernel.skips


@st.composite
def any_masked(draw):
    """A model whose scores go through masks, what it is given, and whether one must be known."""
    steps = draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3))
    value = draw(st.sampled_from([LOWEST, -np.inf, -1e4, -30.0]))
    if value == -np.inf and "divide" in steps:
        value = LOWEST  # else what was masked would be infinite
    proto = chained(steps)
    every = {**feeds(1, 2, SIZE, SIZE, WIDTH, WIDTH), **masks(value)}
    names = {entry.name for entry in proto.graph.input}
    inputs = {name: array for name, array in every.items() if name in names}
    uncapped = steps[-steps[::-1].index("cap") :] if "cap" in steps else steps
    uncapped = [] if steps[-1] == "cap" else uncapped
    return proto, inputs, bool(MASKING & set(uncapped))


@given(any_masked())
@settings(max_examples=4, deadline=None)
def test_masks_of_several_steps(case):
    proto, inputs, is_masked = case
    check(proto, inputs)
    assert skips(proto) or not is_masked


@pytest.mark.parametrize(
    "steps",
    [
        ["choose", "add first"],
        ["add", "choose"],
        ["scale", "choose by not", "add first"],
        ["divide", "cap", "scale", "add"],
    ],
)
def test_what_exporters_write_is_known_for_a_mask(steps):
    assert skips(chained(steps))


def test_a_mask_that_is_capped_is_none():
    assert not skips(chained(["add", "cap"]))


def test_scores_that_are_squared_have_no_mask_that_bounds_them():
    proto = chained(["add"])
    for node_ in proto.graph.node:
        if node_.op_type == "Softmax":
            node_.input[0] = "squared"
    proto.graph.node.insert(2, node("Mul", ["s1", "s1"], ["squared"]))
    assert not skips(proto)
