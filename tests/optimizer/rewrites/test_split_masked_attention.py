"""Attention under a constant mask by blocks: the same numbers, fewer of them, or left alone."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.rewrites.split_masked_attention import (
    GAP,
    NAME,
    blocks_of,
    masked_by,
    split_masked_attention,
    work,
)

from tests.campaigns import examples

from ..builders import model, run, value

RNG = np.random.default_rng(3)


def causal(rows, columns=None, low=-1e9):
    columns = rows if columns is None else columns
    return np.triu(np.full((rows, columns), low, np.float32), 1 + columns - rows)


def window(rows, width, low=-np.inf):
    away = np.arange(rows)[:, None] - np.arange(rows)
    return np.where((away >= 0) & (away < width), 0, low).astype(np.float32)


def attention(mask, *, heads=2, width=8, scale="Div", form="Add", shared=False, opset=17):
    """softmax(scale(Q Kt) + mask) V, or the scores replaced where a mask of truth values says."""
    rows, columns = mask.shape[-2:]
    nodes = [("MatMul", ["q", "k"], ["s"])]
    constants = {"factor": np.float32(width**0.5), "mask": mask, "low": np.float32(-np.inf)}
    if scale:
        nodes.append((scale, ["s", "factor"], ["t"]))
    scores = nodes[-1][2][0]
    if form == "Add":
        nodes.append(("Add", [scores, "mask"], ["u"]))
    elif form == "Where":
        constants["mask"] = mask <= -GAP
        nodes.append(("Where", ["mask", "low", scores], ["u"]))
    else:
        constants["mask"] = mask > -GAP
        nodes.append(("Where", ["mask", scores, "low"], ["u"]))
    nodes += [("Softmax", ["u"], ["p"]), ("MatMul", ["p", "v"], ["y"])]
    outputs = [value("y", [1, heads, rows, width])]
    if shared:
        outputs.append(value("p", [1, heads, rows, columns]))
    read = {name for _, inputs, _ in nodes for name in inputs}
    built = model(
        nodes,
        [value("q", [1, heads, rows, width]), value("k", [1, heads, width, columns]),
         value("v", [1, heads, columns, width])],
        outputs,
        {name: array for name, array in constants.items() if name in read},
        opset=opset,
    )  # fmt: skip
    feeds = {
        "q": RNG.standard_normal((1, heads, rows, width)).astype(np.float32),
        "k": RNG.standard_normal((1, heads, width, columns)).astype(np.float32),
        "v": RNG.standard_normal((1, heads, columns, width)).astype(np.float32),
    }
    return built, feeds


def split(built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    steps = split_masked_attention(graph)
    return to_model(graph), steps


masks = st.one_of(
    st.tuples(st.integers(24, 300), st.sampled_from([-1e4, -1e9, -3.4e38, -np.inf])).map(
        lambda drawn: causal(drawn[0], low=drawn[1])
    ),
    st.tuples(st.integers(40, 200), st.integers(1, 24)).map(lambda drawn: window(*drawn)),
    st.integers(24, 90).map(lambda rows: causal(rows, 2 * rows)),
)


@settings(max_examples=examples(25), deadline=None)
@given(
    masks,
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from(["Div", "Mul", ""]),
    st.sampled_from(["Add", "Where", "WhereNot"]),
)
def test_blocks_compute_the_same(mask, heads, width, scale, form):
    built, feeds = attention(mask, heads=heads, width=width, scale=scale, form=form)
    changed, steps = split(built)
    onnx.checker.check_model(changed, full_check=True)
    hidden = masked_by(mask)
    assert bool(steps) == bool(blocks_of(hidden))
    (expected,), (got,) = run(built, feeds), run(changed, feeds)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    if steps:
        assert steps[0].rule == NAME
        assert sum(node.op_type == "Softmax" for node in changed.graph.node) >= 2


@settings(max_examples=examples(60), deadline=None)
@given(masks)
def test_no_block_leaves_out_what_a_row_sees(mask):
    hidden = masked_by(mask)
    blocks = blocks_of(hidden)
    rows, columns = mask.shape
    if blocks:
        assert [b for block in blocks for b in range(*block[:2])] == list(range(rows))
        assert work(blocks, hidden) <= 0.8
    covered = np.zeros((rows, columns), bool)
    for start, end, low, high in blocks or [(0, rows, 0, columns)]:
        covered[start:end, low:high] = True
    assert not (~hidden & ~covered).any()


def test_a_mask_that_differs_by_head_is_the_union():
    mask = np.stack([causal(128), window(128, 4)])[None]
    built, feeds = attention(mask, heads=2)
    changed, steps = split(built)
    assert len(steps) == 1
    np.testing.assert_allclose(run(changed, feeds)[0], run(built, feeds)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "options"),
    [
        (np.zeros((128, 128), np.float32), {}),  # hides nothing
        (causal(128, low=-100.0), {}),  # penalizes, but hides nothing for sure
        (np.where(np.arange(128)[:, None] < 3, -np.inf, causal(128)).astype(np.float32), {}),
        (causal(128), {"shared": True}),  # somebody else reads the probabilities
        (causal(128), {"opset": 9}),
        (causal(16), {}),  # one block
    ],
)
def test_what_does_not_fit_is_left_alone(mask, options):
    changed, steps = split(attention(mask, **options)[0])
    assert not steps
    assert sum(node.op_type == "Softmax" for node in changed.graph.node) == 1


def test_a_mask_that_is_an_input_is_left_alone():
    built, _ = attention(causal(128))
    (tensor,) = (
        initializer for initializer in built.graph.initializer if initializer.name == "mask"
    )
    built.graph.initializer.remove(tensor)
    built.graph.input.append(value("mask", [128, 128]))
    assert not split(built)[1]
