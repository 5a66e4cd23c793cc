"""Attention as one kernel: any mask, any sizes, and what is left out contributes nothing."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler, opened

pytestmark = needs_compiler
node = helper.make_node
LOWEST = np.finfo(np.float32).min


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def heads_apart(batch, heads, queries, keys, depth, width, mask=None, after=(), choose=False):
    """Attention over [batch, heads, tokens, depth]; `mask` is a shape, `after` nodes behind s."""
    inputs = {
        "q": [batch, heads, queries, depth],
        "k": [batch, heads, depth, keys],
        "v": [batch, heads, keys, width],
    }
    nodes = [node("MatMul", ["q", "k"], ["product"]), node("Mul", ["product", "scale"], ["s"])]
    last = "s"
    for follower in after:
        nodes.append(follower)
        last = follower.output[0]
    if mask is not None:
        inputs["mask"] = mask
        if choose:
            nodes += [node("Greater", ["mask", "zero"], ["alive"])]
            nodes += [node("Where", ["alive", last, "fill"], ["masked"])]
        else:
            nodes += [node("Add", [last, "mask"], ["masked"])]
        last = "masked"
    nodes += [node("Softmax", [last], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    constants = {
        "scale": np.float32(0.3),
        "zero": np.float32(0),
        "fill": np.float32(LOWEST),
    }
    used = {name for node in nodes for name in node.input}
    kept = {name: value for name, value in constants.items() if name in used}
    return model(nodes, inputs, {"y": [batch, heads, queries, width]}, kept)


def causal(queries, keys, value):
    return np.triu(np.full((1, 1, queries, keys), value, np.float32), 1 + keys - queries)


def feeds(batch, heads, queries, keys, depth, width, seed=0):
    return {
        "q": normal(batch, heads, queries, depth, seed=seed),
        "k": normal(batch, heads, depth, keys, seed=seed + 1),
        "v": normal(batch, heads, keys, width, seed=seed + 2),
    }


@pytest.mark.parametrize("value", [-np.inf, LOWEST, -1e4, -30.0])
@pytest.mark.parametrize("choose", [False, True])
def test_a_causal_mask_of_any_value(value, choose):
    mask = causal(70, 70, value)
    if choose:
        mask = (mask == 0).astype(np.float32)
    proto = heads_apart("b", 2, "s", "t", 16, 16, mask=[1, 1, "s", "t"], choose=choose)
    check(proto, {**feeds(2, 2, 70, 70, 16, 16), "mask": mask}, expect=1, threads=2)


def test_queries_and_keys_of_different_numbers():
    proto = heads_apart(1, 3, "s", "t", 24, 40, mask=[1, 1, "s", "t"])
    all_feeds = [
        {**feeds(1, 3, queries, keys, 24, 40), "mask": causal(queries, keys, LOWEST)}
        for queries, keys in ((1, 1), (1, 65), (50, 133), (7, 7))
    ]
    check(proto, *all_feeds, expect=1)


def test_rows_that_are_masked_everywhere():
    mask = causal(40, 40, -np.inf)
    mask[0, 0, 5] = LOWEST
    mask[0, 0, 9] = -np.inf
    proto = heads_apart(1, 2, 40, 40, 8, 8, mask=[1, 1, 40, 40])
    check(proto, {**feeds(1, 2, 40, 40, 8, 8), "mask": mask}, expect=1)


@pytest.mark.parametrize("operand", ["q", "k", "v"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_is_no_number_passes_a_mask_as_it_does_without_the_kernel(operand, value):
    proto = heads_apart(1, 1, 64, 64, 8, 8, mask=[1, 1, 64, 64])
    inputs = {**feeds(1, 1, 64, 64, 8, 8), "mask": causal(64, 64, LOWEST)}
    inputs[operand][0, 0, 3, 5] = value
    inputs[operand][0, 0, -1, -1] = value
    check(proto, inputs, expect=1)


def test_scores_so_large_that_they_outweigh_a_small_mask():
    proto = heads_apart(1, 1, 64, 64, 8, 8, mask=[1, 1, 64, 64])
    inputs = {**feeds(1, 1, 64, 64, 8, 8), "mask": causal(64, 64, -200.0)}
    inputs["q"] *= 100
    check(proto, inputs, expect=1)


def test_a_window_and_a_slope():
    behind = np.subtract.outer(np.arange(90), np.arange(90)).astype(np.float32)
    window = np.where((behind >= 0) & (behind < 20), 0, LOWEST).astype(np.float32)[None, None]
    slope = (-np.abs(behind) * 8).astype(np.float32)[None, None]
    proto = heads_apart(1, 2, 90, 90, 16, 16, mask=[1, 1, 90, 90])
    base = feeds(1, 2, 90, 90, 16, 16)
    check(proto, {**base, "mask": window}, {**base, "mask": slope}, expect=1)


def test_a_mask_of_keys_for_each_sentence_and_scores_that_are_capped():
    after = [node("Tanh", ["s"], ["capped"])]
    proto = heads_apart("b", 2, "s", "s", 8, 8, mask=["b", 1, 1, "s"], after=after)
    mask = np.zeros((3, 1, 1, 33), np.float32)
    mask[1, ..., 20:], mask[2, ..., 5:] = LOWEST, -np.inf
    check(proto, {**feeds(3, 2, 33, 33, 8, 8), "mask": mask}, expect=1)


def test_heads_are_read_and_written_where_they_lie():
    nodes, heads, depth = [], 3, 8
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(node("Reshape", [name, "shape"], [f"{name}r"]))
        nodes.append(node("Transpose", [f"{name}r"], [f"{name}t"], perm=perm))
    nodes += [
        node("MatMul", ["qt", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "vt"], ["o"]),
        node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3]),
    ]
    inputs = {name: [2, 21, heads * depth] for name in "qkv"}
    constants = {"shape": np.array([0, 0, heads, depth])}
    proto = model(nodes, inputs, {"y": [2, 21, heads, depth]}, constants)
    arrays = {name: normal(2, 21, heads * depth, seed=seed) for seed, name in enumerate("qkv")}
    changed, _ = check(proto, arrays, expect=1)
    assert len(changed.graph.node) == 1


@pytest.mark.parametrize("way", ["both", "divided", "needed outside"])
def test_numbers_that_operands_are_multiplied_by(way):
    nodes = [
        node("Mul", ["q", "scale"], ["a"]),
        node("Div" if way == "divided" else "Mul", ["k", "scale"], ["b"]),
        node("MatMul", ["a", "b"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    shapes = {"q": ["b", 2, "s", 16], "k": ["b", 2, 16, "t"], "v": ["b", 2, "t", 8]}
    outputs = {"y": ["b", 2, "s", 8]}
    if way == "needed outside":
        outputs["a"] = shapes["q"]
    constants = {"scale": np.array([-0.4], np.float32)}
    proto = model(nodes, {**shapes, "mask": [1, 1, "s", "t"]}, outputs, constants)
    inputs = {**feeds(2, 2, 41, 41, 16, 8), "mask": causal(41, 41, LOWEST)}
    changed, _ = check(proto, inputs, expect=1)
    assert [node.op_type for node in changed.graph.node].count("Mul") == (way == "needed outside")


@pytest.mark.parametrize("also", [None, "b", "c"])
def test_parts_of_one_tensor_are_read_where_they_lie(also):
    heads, depth = 2, 8
    nodes = [node("Split", ["x"], ["a", "b", "c"], axis=2, num_outputs=3)]
    for part, name in zip("abc", "qkv", strict=True):
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes.append(node("Reshape", [part, "shape"], [f"{name}r"]))
        nodes.append(node("Transpose", [f"{name}r"], [name], perm=perm))
    nodes += [
        node("MatMul", ["q", "k"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3]),
    ]
    outputs = {"y": ["n", "t", heads, depth]}
    if also is not None:  # a part that something else needs as well
        nodes.append(node("Neg", [also], ["z"]))
        outputs["z"] = ["n", "t", heads * depth]
    proto = model(
        nodes,
        {"x": ["n", "t", 3 * heads * depth]},
        outputs,
        {"shape": np.array([0, 0, heads, depth])},
    )
    changed, _ = check(proto, {"x": normal(2, 21, 48)}, {"x": normal(1, 1, 48)})
    assert any(name.startswith("Attention") for name in kernels_of(changed))
    left = {node.op_type for node in changed.graph.node}
    assert ("Split" in left) == (also is not None)


def test_probabilities_that_are_an_output_keep_the_operators():
    proto = heads_apart(1, 2, 9, 9, 8, 8)
    proto.graph.output.append(helper.make_tensor_value_info("p", 1, [1, 2, 9, 9]))
    changed, _ = check(proto, feeds(1, 2, 9, 9, 8, 8))
    assert not any(name.startswith("Attention") for name in kernels_of(changed))


def test_several_threads_run_one_session():
    proto = heads_apart("b", 2, "s", "t", 16, 16, mask=[1, 1, "s", "t"])
    changed, library = fused(proto)
    session, original = opened(changed, library, threads=2), opened(proto)
    all_feeds = [
        {**feeds(2, 2, size, size, 16, 16), "mask": causal(size, size, LOWEST)}
        for size in (20, 70, 33)
    ]
    wanted = [original.run(None, feeds)[0] for feeds in all_feeds]

    def run(i):
        (result,) = session.run(None, all_feeds[i % 3])
        return np.abs(result - wanted[i % 3]).max()

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(run, range(60))) < 1e-4


def test_an_empty_batch():
    proto = heads_apart("b", 2, 5, 6, 8, 8)
    check(proto, feeds(0, 2, 5, 6, 8, 8), expect=1)


@st.composite
def any_attention(draw):
    """A model and what it is given: sizes around those of blocks and panels, a mask or none."""
    batch = draw(st.integers(1, 3))
    sizes = [draw(st.sampled_from([1, 2, 6, 31, 49, 97])) for _ in range(4)]
    kind = draw(st.sampled_from([None, "add", "choose"]))
    seed = draw(st.integers(0, 1000))
    queries, keys, depth, width = sizes
    mask = None if kind is None else [1, 1, "s", "t"]
    proto = heads_apart("b", 2, "s", "t", depth, width, mask=mask, choose=kind == "choose")
    inputs = feeds(batch, 2, *sizes, seed=seed)
    if kind is not None:
        inputs["mask"] = normal(1, 1, queries, keys, seed=seed) * 100
    if draw(st.booleans()):  # keys whose rows lie side by side, as most models have them
        (entry,) = (input_ for input_ in proto.graph.input if input_.name == "k")
        entry.CopyFrom(helper.make_tensor_value_info("rows", 1, ["b", 2, "t", depth]))
        proto.graph.node.insert(0, node("Transpose", ["rows"], ["k"], perm=[0, 1, 3, 2]))
        inputs["rows"] = np.ascontiguousarray(inputs.pop("k").swapaxes(2, 3))
    return proto, inputs


@settings(max_examples=examples(12), deadline=None)
@given(any_attention())
def test_any_sizes(case):
    check(*case)


@pytest.mark.parametrize("free", [True, False])
def test_copies_between_a_softmax_and_a_product_are_none(free):
    """Libraries compute a softmax in float32 and go back to the model's type, float32 as well."""
    sizes = ("b", "s", "t") if free else (2, 41, 37)
    proto = heads_apart(sizes[0], 2, sizes[1], sizes[2], 16, 8)
    softmax = next(node for node in proto.graph.node if node.op_type == "Softmax")
    position = list(proto.graph.node).index(softmax)
    softmax.input[0], softmax.output[0] = "wide", "narrow"
    proto.graph.node.insert(position, node("Cast", ["s"], ["wide"], to=1))
    proto.graph.node.insert(position + 2, node("Identity", ["narrow"], ["p"]))
    changed, _ = check(proto, feeds(2, 2, 41, 37, 16, 8), expect=1)
    assert len(changed.graph.node) == 1


@pytest.mark.parametrize("value", [-np.inf, LOWEST])
def test_rows_that_are_masked_everywhere_may_have_no_weights(value):
    proto = heads_apart("b", 2, "s", "t", 16, 8, mask=[1, 1, "s", "t"])
    position = [node.op_type for node in proto.graph.node].index("Softmax")
    proto.graph.node[position].output[0] = "weights"
    proto.graph.node.insert(position + 1, node("IsNaN", ["weights"], ["none"]))
    proto.graph.node.insert(position + 2, node("Where", ["none", "nothing", "weights"], ["p"]))
    nothing = helper.make_tensor("nothing", 1, [], [0.0])
    proto.graph.initializer.append(nothing)
    mask = causal(41, 41, value)
    mask[0, 0, [5, 40]] = -np.inf
    inputs = {**feeds(2, 2, 41, 41, 16, 8), "mask": mask}
    spoilt = {**inputs, "q": inputs["q"].copy()}
    spoilt["q"][0, 0, 7, 3] = np.nan
    changed, library = check(proto, inputs, spoilt, expect=1)
    assert len(changed.graph.node) == 1
    (result,) = opened(changed, library).run(None, spoilt)
    assert not result[0, 0, [5, 7, 40]].any()


def test_parts_of_one_tensor_that_gathers_cut_from_it_are_read_where_they_lie():
    """As timm writes it: queries, keys and values by their number, of a transposed tensor."""
    heads, tokens, depth = 2, 24, 16
    take = [node("Gather", ["t", f"n{i}"], [name], axis=0) for i, name in enumerate("qkv")]
    nodes = [
        node("Reshape", ["x", "apart"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[2, 0, 3, 1, 4]),
        *take,
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    constants = {"apart": np.array([1, tokens, 3, heads, depth])}
    constants |= {f"n{i}": np.array(i - 3 * (i == 2)) for i in range(3)}
    shapes = {"x": [1, tokens, 3 * heads * depth]}
    result = {"y": [1, heads, tokens, depth]}
    x = np.random.default_rng(0).standard_normal(shapes["x"]).astype(np.float32)
    changed, _ = check(model(nodes, shapes, result, constants), {"x": x}, expect=1)
    assert len(changed.graph.node) == 1
    outputs = {**result, "v": [1, heads, tokens, depth]}  # values that are needed as they are
    changed, _ = check(model(nodes, shapes, outputs, constants), {"x": x}, expect=1)
    assert len(changed.graph.node) > 1
