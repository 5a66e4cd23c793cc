"""Sizes followed through a model, checked against the sizes that values have when it runs."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.native.shapes.constant_shapes import resolve_shapes
from tensolog.optimizer.native.shapes.named_sizes import Sizes

from benchmarks.zoo import ARCHITECTURES, build
from tests.campaigns import examples

from .build import fused, kernels_of, needs_compiler, opened
from .test_zoo_regions import inputs

node = helper.make_node
FREE = {"batch": 3, "tokens": 5}
RENAMED = sorted(
    name for name, architecture in ARCHITECTURES.items() if "tokens" in architecture.dynamic
)


def value_of(size, dimensions):
    """The number that a size is, its name read as Python."""
    return size if isinstance(size, int) else eval(size, {"min": min, **dimensions})


PLACES = [{"a": 2, "b": 3, "c": 5}, {"a": 1, "b": 1, "c": 1}, {"a": 11, "b": 7, "c": 13}]
START = st.sampled_from(["a", "b", "c", 0, 1, 2, 7])
STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c", 1, 3])), max_size=4)


def computed(book, start, steps):
    """A size, and the number that it is in each of the PLACES."""
    size, numbers = start, [value_of(start, place) for place in PLACES]
    for adds, other in steps:
        size = book.add(size, other) if adds else book.times([size, other])
        for i, place in enumerate(PLACES):
            number = value_of(other, place)
            numbers[i] = numbers[i] + number if adds else numbers[i] * number
    return size, numbers


@given(START, STEPS, START, STEPS)
@settings(max_examples=examples(80), deadline=None)
def test_sizes_with_one_name_are_equal_and_a_name_says_the_number(start, steps, other, others):
    book = Sizes()
    size, numbers = computed(book, start, steps)
    two, numbers_2 = computed(book, other, others)
    assert [value_of(size, place) for place in PLACES] == numbers
    assert size != two or numbers == numbers_2
    assert book.add(book.add(size, two), two, -1) == size
    quotient = book.divide(book.times([size, two]), two)
    assert quotient == size or quotient is None or two == 0


def test_the_lesser_of_a_number_and_a_size_is_that_size_where_they_have_to_fit():
    book = Sizes()
    cut = book.least(512, "tokens")
    assert cut not in (512, "tokens")
    assert book.broadcast([cut, "tokens"]) == "tokens"
    assert book.least(512, "tokens") == "tokens"
    assert book.add(cut, 1) == book.add("tokens", 1)


@pytest.mark.parametrize("sizes", [("a", "b"), ("min(1, a)", "a"), ("min(9, b)", "a")])
def test_sizes_that_may_differ_stay_apart(sizes):
    book = Sizes()
    for number, name in ((1, "a"), (9, "b")):
        book.least(number, name)
    assert book.broadcast(sizes) is None


@pytest.mark.parametrize("name", RENAMED)
def test_each_name_is_one_size_and_outputs_stay(name):
    proto = build(name, tiny=True, dynamic=True)
    graph = load_graph(proto)
    assert resolve_shapes(graph), "nothing was settled"
    shapes = {
        graph.names[value]: type_.shape
        for value, type_ in graph.types.items()
        if value in graph.producer and type_.shape is not None and type_.dtype != "string"
    }
    settled = to_model(graph)
    plain = opened(settled, level="ORT_DISABLE_ALL")
    original = opened(proto, level="ORT_DISABLE_ALL")
    exposed = _exposing(settled, shapes, {graph.names[v]: t.dtype for v, t in graph.types.items()})
    for dimensions in (FREE, {"batch": 1, "tokens": 8}, {"batch": 2, "tokens": 1}):
        feeds = inputs(original, dimensions)
        for result, other in zip(plain.run(None, feeds), original.run(None, feeds), strict=True):
            np.testing.assert_array_equal(result, other)
        known = dict(dimensions)
        for value, array in zip(shapes, exposed.run(list(shapes), feeds), strict=True):
            assert len(shapes[value]) == array.ndim, value
            for size, extent in zip(shapes[value], array.shape, strict=True):
                if isinstance(size, str) and not set(size) & set("*+(") and size not in known:
                    known[size] = extent
                assert value_of(size, known) == extent, (value, size)


def _exposing(proto, names, dtypes):
    """A session of the model with all values among its outputs."""
    changed = type(proto)()
    changed.CopyFrom(proto)
    present = {entry.name for entry in changed.graph.output}
    for name in names:
        if name not in present:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtypes[name]))
            changed.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(changed.SerializeToString(), options)


def masked(mask, *, cut=True):
    """Heads split off by sizes that the model computes, attention under a mask, heads joined."""
    integers = {"one": [1], "heads": [4], "width": [8], "both": [2, 3], "zeros": [0, 0]}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["b"], axis=0),
        node("Gather", ["shape", "one"], ["t"], axis=0),
        node("Concat", ["b", "t", "heads", "width"], ["apart"], axis=0),
        node("Reshape", ["x", "apart"], ["h"]),
        node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["p"]),
        node("Concat", ["t", "t"], ["ends"], axis=0),
        node("Slice", ["mask", "zeros", "ends", "both"], ["m"]),
        node("Add", ["p", "m" if cut else "mask"], ["s"]),
        node("Softmax", ["s"], ["w"], axis=-1),
        node("MatMul", ["w", "q"], ["o"]),
        node("Transpose", ["o"], ["u"], perm=[0, 2, 1, 3]),
        node("Reshape", ["u", "joined"], ["y"]),
    ]
    integers |= {"first": [0], "joined": [0, 0, 32]}
    arrays = {name: np.array(value, np.int64) for name, value in integers.items()}
    input_shapes = {"x": ["n", "s", 32]}
    if isinstance(mask, list):
        input_shapes["mask"] = mask
    else:
        arrays["mask"] = mask
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in input_shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LOW = np.triu(np.full((1, 1, 64, 64), np.finfo(np.float32).min, np.float32), 1)


@needs_compiler
def test_attention_whose_mask_is_cut_to_a_size_that_is_computed():
    proto = masked(LOW)
    changed, library = fused(proto)
    assert any(name.startswith("Attention") for name in kernels_of(changed))
    original, candidate = opened(proto), opened(changed, library, threads=2)
    for batch, tokens in ((1, 64), (2, 33), (3, 1), (1, 2), (0, 4), (2, 0)):
        x = np.random.default_rng(tokens).standard_normal((batch, tokens, 32)).astype(np.float32)
        wanted, result = (session.run(None, {"x": x})[0] for session in (original, candidate))
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)
    x = np.zeros((1, 65, 32), np.float32)
    for session in (original, candidate):  # the mask is too small for it, for both of them
        with pytest.raises(Exception, match=r"65|size"):
            session.run(None, {"x": x})


@needs_compiler
def test_a_mask_of_sizes_that_nothing_ties_to_the_scores_stays_outside():
    proto = masked(["n", 1, "rows", "columns"], cut=False)
    fusion = fused(proto)
    kernels = kernels_of(fusion[0]) if fusion else []
    assert not any(name.startswith("Attention") for name in kernels)


def test_tiles_and_the_last_of_an_axis_have_sizes_that_are_known():
    nodes = [
        node("Unsqueeze", ["x", "one"], ["u"]),
        node("Tile", ["u", "counts"], ["z"]),
        node("Shape", ["z"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"], axis=0),
        node("Concat", ["n", "rest"], ["target"], axis=0),
        node("Reshape", ["z", "target"], ["r"]),
        node("Slice", ["r", "last", "end", "one"], ["l"]),
        node("Slice", ["r", "third", "end", "one"], ["y"]),
    ]
    integers = {
        "one": [1],
        "counts": [1, 3, 1, 2],
        "first": [0],
        "rest": [-1, 8],
        "last": [-1],
        "third": [-3],
        "end": [np.iinfo(np.int64).max],
    }
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "t", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("l", "y")],
        [numpy_helper.from_array(np.array(a, np.int64), n) for n, a in integers.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settled = load_graph(proto)
    resolve_shapes(settled)
    known = {settled.names[value]: type_.shape for value, type_ in settled.types.items()}
    assert known["z"] == ("b", 3, "t", 8)
    assert known["r"] == ("b", "3*t", 8)
    for batch, tokens in ((2, 5), (1, 1), (3, 0)):
        x = np.zeros((batch, tokens, 4), np.float32)
        for name, result in zip("ly", opened(proto).run(None, {"x": x}), strict=True):
            place = {"b": batch, "t": tokens, "3*t": 3 * tokens}
            sizes = [size.replace("3*t", str(3 * tokens)) if isinstance(size, str) else size
                    for size in known[name]]  # fmt: skip
            assert [value_of(size, place) for size in sizes] == list(result.shape), name
