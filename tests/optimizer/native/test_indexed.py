"""Rows that are scattered by indices, with what is computed of them before, beside ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tensolog.optimizer.native.indexed.scatter_text import FOLDS

from tests.campaigns import examples

from .build import fused, kernels_of, model, needs_compiler, opened

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def indexed(proto, *names, dtype=TensorProto.INT64):
    """The model with some inputs integers."""
    for value in proto.graph.input:
        if value.name in names:
            value.type.tensor_type.elem_type = dtype
    return proto


def scatter(shape, updates, axis, reduction, constants=(), free=False):
    """A ScatterElements of rows, whose indices are expanded; sizes are free where told."""
    wide = list(updates)
    named = [size if i == axis else 1 for i, size in enumerate(updates)]
    if free:
        shape, wide, named = (
            [f"{kind}{size}" if i == axis else size for i, size in enumerate(sizes)]
            for kind, sizes in (("n", shape), ("m", wide), ("m", named))
        )
    nodes = [
        node("Shape", ["u"], ["sizes"]),
        node("Expand", ["i", "sizes"], ["e"]),
        node("ScatterElements", ["x", "e", "u"], ["y"], axis=axis, reduction=reduction),
    ]
    input_shapes = {"x": shape, "i": named, "u": wide}
    read = {name: entry for name, entry in input_shapes.items() if name not in constants}
    return indexed(model(nodes, read, {"y": shape}, constants), "i")


def results(proto, feeds, threads=2, **options):
    """What the model gives, and what it gives with its kernels."""
    changed, library = fused(proto, **options)
    plain = opened(proto, threads=threads).run(None, feeds)
    return plain, opened(changed, library, threads=threads).run(None, feeds), kernels_of(changed)


@pytest.mark.parametrize("reduction", sorted(FOLDS))
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((50, 64), 400, 0), ((7, 5), 30, 0), ((3, 20, 33), 60, 1), ((9, 4, 6), 40, 0), ((12,), 50, 0)],
)
def test_rows_are_scattered_as_the_runtime_does_to_the_bit(reduction, shape, count, axis):
    """Duplicates, negative indices, signed zeros and infinities among them."""
    updates = [count if i == axis else size for i, size in enumerate(shape)]
    proto = scatter(shape, updates, axis, reduction)
    named = [count if i == axis else 1 for i in range(len(shape))]
    moved = normal(*updates)
    moved.reshape(-1)[:6] = [0.0, -0.0, np.inf, -np.inf, -0.0, 0.0]
    size = shape[axis]
    feeds = {"x": normal(*shape), "i": rng.integers(-size, size, named), "u": moved}
    (plain,), (result,), kernels = results(proto, feeds)
    assert len(kernels) == 1
    np.testing.assert_array_equal(result.view(np.int32), plain.view(np.int32))


@pytest.mark.parametrize("reduction", sorted(FOLDS))
@pytest.mark.parametrize("width", [1, 20])
def test_what_does_not_compare_is_folded_as_the_runtime_does(reduction, width):
    """Which of several NaN comes out is left open."""
    proto = scatter([6, width], [40, width], 0, reduction)
    few = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1, -1], np.float32)
    x, moved = rng.choice(few, (6, width)), rng.choice(few, (40, width))
    feeds = {"x": x, "i": rng.integers(0, 6, (40, 1)), "u": moved}
    (plain,), (result,), kernels = results(proto, feeds)
    assert len(kernels) == 1
    np.testing.assert_array_equal(result, plain)
    np.testing.assert_array_equal(
        np.signbit(result[~np.isnan(result)]), np.signbit(plain[~np.isnan(plain)])
    )


def test_sizes_may_be_free_and_nothing_may_be_scattered():
    proto = scatter([30, 8], [50, 8], 0, "add", free=True)
    for rows, count in ((30, 50), (3, 0), (1, 7), (200, 2)):
        feeds = {
            "x": normal(rows, 8),
            "i": rng.integers(0, rows, (count, 1)),
            "u": normal(count, 8),
        }
        (plain,), (result,), kernels = results(proto, feeds)
        assert len(kernels) == 1
        np.testing.assert_array_equal(result, plain)


@pytest.mark.parametrize("outside", [6, -7, 2**40])
def test_an_index_out_of_bounds_is_an_error_as_in_the_runtime(outside):
    proto = scatter([6, 20], [15, 20], 0, "add")
    changed, library = fused(proto)
    places = rng.integers(0, 6, (15, 1))
    places[7] = outside
    feeds = {"x": normal(6, 20), "i": places, "u": normal(15, 20)}
    for session in (opened(proto), opened(changed, library)):
        with pytest.raises(Exception, match=r"out of.*bounds"):
            session.run(None, feeds)


def messages(edges, points, width, opset=18):
    """Messages along edges: both ends gathered, weighed, added up at the receiver."""
    nodes = [
        node("Gather", ["x", "from"], ["a"], axis=0),
        node("Gather", ["z", "to"], ["b"], axis=0),
        node("Add", ["a", "b"], ["s"]),
        node("LeakyRelu", ["s"], ["l"], alpha=0.2),
        node("Unsqueeze", ["w", "one"], ["v"]),
        node("Mul", ["l", "v"], ["u"]),
        node("Unsqueeze", ["to", "one"], ["t"]),
        node("Expand", ["t", "sizes"], ["e"]),
        node("ScatterElements", ["nothing", "e", "u"], ["y"], axis=0, reduction="add"),
    ]
    constants = {
        "one": ints(1),
        "sizes": ints(edges, width),
        "nothing": np.zeros((points, width), np.float32),
    }
    inputs = {"x": [points, width], "z": [points, width], "w": [edges]}
    inputs |= {"from": [edges], "to": [edges]}
    return indexed(model(nodes, inputs, {"y": [points, width]}, constants, opset), "from", "to")


@pytest.mark.parametrize("width", [3, 16, 100])
def test_messages_are_gathered_computed_and_added_up_in_one_kernel(width):
    feeds = {
        "x": normal(40, width),
        "z": normal(40, width),
        "w": normal(300),
        "from": rng.integers(-40, 40, 300),
        "to": rng.integers(0, 40, 300),
    }
    # Of one width with all instruction sets, as a result has them that is kept.
    options = {"levels": None} if width == 16 else {}
    (plain,), (result,), kernels = results(messages(300, 40, width), feeds, **options)
    assert len(kernels) == 1, kernels
    np.testing.assert_allclose(result, plain, rtol=1e-5, atol=1e-5)


def test_what_else_is_read_of_a_message_is_not_taken_into_the_kernel():
    proto = messages(30, 10, 8)
    proto.graph.output.append(helper.make_tensor_value_info("u", TensorProto.FLOAT, [30, 8]))
    feeds = {"x": normal(10, 8), "z": normal(10, 8), "w": normal(30)}
    feeds |= {"from": rng.integers(0, 10, 30), "to": rng.integers(0, 10, 30)}
    plain, fused_results, _ = results(proto, feeds)
    for wanted, other in zip(plain, fused_results, strict=True):
        np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("reduction", sorted(FOLDS))
def test_scattered_places_of_several_axes(parts, reduction):
    if reduction == "none":
        places = np.stack(np.unravel_index(rng.permutation(30)[:20], (5, 6)), 1)[:, :parts]
        places = places if parts == 2 else np.arange(5)[::-1, None].copy()
    else:
        places = rng.integers(-5, 5, (20, parts))
    shape = (5, 6, 17)
    moved = (len(places), *shape[parts:])
    nodes = [node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)]
    inputs = {"x": shape, "i": places.shape, "u": moved}
    proto = indexed(model(nodes, inputs, {"y": shape}), "i")
    feeds = {"x": normal(*shape), "i": places, "u": normal(*moved)}
    (plain,), (result,), kernels = results(proto, feeds)
    assert len(kernels) == 1
    np.testing.assert_allclose(result, plain, rtol=1e-6, atol=1e-6)


@settings(max_examples=examples(24), deadline=None)
@given(st.data())
def test_any_rows_go_where_the_runtime_puts_them(data):
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    count = draw(st.integers(2, 20))
    updates = [count if i == axis else size for i, size in enumerate(shape)]
    keeps_leading = draw(st.booleans())
    named = [
        size if i == axis or (keeps_leading and i < axis) else 1 for i, size in enumerate(updates)
    ]
    reduction = draw(st.sampled_from(sorted(FOLDS)))
    nodes = [
        node("Expand", ["i", "sizes"], ["e"]),
        node("ScatterElements", ["x", "e", "u"], ["y"], axis=axis, reduction=reduction),
    ]
    input_shapes = {"x": shape, "i": named, "u": updates}
    proto = indexed(model(nodes, input_shapes, {"y": shape}, {"sizes": ints(*updates)}), "i")
    seed = np.random.default_rng(draw(st.integers(0, 1000)))
    size = shape[axis]
    feeds = {
        "x": seed.standard_normal(shape).astype(np.float32),
        "i": seed.integers(-size, size, named),
        "u": seed.standard_normal(updates).astype(np.float32),
    }
    (plain,), (result,), kernels = results(proto, feeds)
    assert len(kernels) == 1
    np.testing.assert_array_equal(result, plain)


def test_indices_that_differ_along_a_row_stay_with_the_runtime():
    nodes = [node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")]
    inputs = {"x": [5, 8], "i": [9, 8], "u": [9, 8]}
    proto = indexed(model(nodes, inputs, {"y": [5, 8]}), "i")
    assert fused(proto) is None
