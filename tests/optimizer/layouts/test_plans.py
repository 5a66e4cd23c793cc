"""Plans with blocked values compute what the model does, whatever is laid out and how."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts import plans
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.profiles.kernels.costs import Cost

from tests.campaigns import examples
from tests.optimizer.builders import run
from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of

from .networks import has_blocks, in_blocks, laid_out, network, operators

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")


def assert_equal(model, laid, feeds, levels=("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")):
    expected = run(model, feeds)
    for level in levels:
        for ours, theirs in zip(run(laid, feeds, level), expected, strict=True):
            assert ours.shape == theirs.shape
            scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
            assert np.abs(ours - theirs).max(initial=0.0) <= 2e-5 * scale


def image(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    batch=st.sampled_from([1, 1, 2]),
    sized=st.booleans(),
    favour=st.booleans(),
)
def test_random_networks_compute_what_they_did(seed, batch, sized, favour):
    drawn = network(seed, batch=batch, sized=sized)
    model = drawn.model()
    laid = laid_out(model, in_blocks if favour else None, seed)
    if laid is not None:
        assert_equal(model, laid, {"x": image(*drawn.shape, seed=seed)})


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_networks_of_any_batch_run_with_others(seed):
    drawn = network(seed)
    model = drawn.model(free_batch=True)
    laid = laid_out(model, seed=seed, sizes={"batch": 1})
    if laid is not None:
        for batch in (1, 3):
            assert_equal(model, laid, {"x": image(batch, *drawn.shape[1:], seed=seed)})


def build(nodes, shape, constants):
    outputs = {node.output[0] for node in nodes} - {i for node in nodes for i in node.input}
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(outputs)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def two_convolutions():
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]),
             helper.make_node("Conv", ["a", "w"], ["y"])]  # fmt: skip
    return build(nodes, (1, 32, 8, 8), {"w": weights(32, 32, 1, 1)})


def weights(*shape):
    return image(*shape, seed=1) * np.float32(0.2)


def checked(nodes, shape, constants):
    """Lay a model out, compare, and count the operators of the plan."""
    model = build(nodes, shape, constants)
    laid = laid_out(model)
    assert laid is not None
    assert_equal(model, laid, {"x": image(*shape)})
    return operators(laid)


def test_what_follows_a_convolution_is_done_with_it():
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Conv", ["a", "v"], ["b"]),
            helper.make_node("Add", ["b", "a"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
        ],
        (1, 32, 8, 8),
        {"w": weights(32, 32, 1, 1), "v": weights(32, 32, 1, 1)},
    )
    assert counts["blocked Conv"] == 2 and counts["blocked ReorderOutput"] == 1
    assert "Relu" not in counts and counts["Add"] == 1  # the guard's


def test_channels_that_end_within_a_block_are_joined_in_blocks():
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Conv", ["x", "v"], ["b"]),
            helper.make_node("Concat", ["a", "b", "a"], ["c"], axis=1),
            helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
            helper.make_node("Conv", ["p", "u"], ["y"]),
        ],
        (2, 32, 8, 8),
        {"w": weights(11, 32, 1, 1), "v": weights(20, 32, 3, 3)[:, :, :1, :1],
         "u": weights(16, 42, 1, 1)},
    )  # fmt: skip
    assert counts["blocked ReorderOutput"] == 1 and counts["blocked MaxPool"] == 1


def test_groups_that_share_blocks_stay_outside():
    """Filters that are 0 on another group's channels would make NaN of its infinities."""
    model = build(
        [
            helper.make_node("Conv", ["x", "v"], ["a"]),
            helper.make_node("Conv", ["a", "v"], ["d"]),
            helper.make_node("Conv", ["d", "w", "b"], ["c"], group=16, pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["c", "v"], ["e"]),
            helper.make_node("Conv", ["e", "v"], ["y"]),
        ],
        (1, 64, 8, 8),
        {"v": weights(64, 64, 1, 1), "w": weights(64, 4, 3, 3), "b": weights(64)},
    )
    laid = laid_out(model)
    counts = operators(laid)
    assert counts["blocked Conv"] == 4 and counts["Conv"] == 1
    assert_equal(model, laid, {"x": image(1, 64, 8, 8)})


def test_channels_that_come_last_enter_and_leave_by_one_operator():
    counts = checked(
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["t", "w"], ["a"], group=32, pads=[1, 1, 1, 1]),
            helper.make_node("Transpose", ["a"], ["y"], perm=[0, 2, 3, 1]),
        ],
        (1, 8, 8, 32),
        {"w": weights(32, 1, 3, 3)},
    )
    assert "Transpose" not in counts


def test_an_activation_of_joined_values_is_taken_before():
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Conv", ["x", "v"], ["b"]),
            helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Conv", ["r", "u"], ["y"]),
        ],
        (1, 32, 8, 8),
        {"w": weights(16, 32, 1, 1), "v": weights(32, 32, 1, 1), "u": weights(16, 48, 1, 1)},
    )
    assert "Relu" not in counts and counts["Concat"] == 1


def test_a_normalization_before_a_convolution_stays_in_blocks_with_its_activation():
    statistics = {name: weights(42, 1, 1, 1).reshape(42) for name in ("scale", "shift", "mean")}
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Conv", ["x", "v"], ["b"]),
            helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
            helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("Conv", ["r", "u"], ["y"]),
        ],
        (2, 32, 8, 8),
        {"w": weights(20, 32, 1, 1), "v": weights(22, 32, 1, 1), "u": weights(16, 42, 1, 1),
         "var": np.linspace(0.1, 2, 42, dtype=np.float32), **statistics},
    )  # fmt: skip
    assert counts["blocked Conv"] == 4 and counts["blocked ReorderOutput"] == 1
    assert "BatchNormalization" not in counts and "Relu" not in counts


@pytest.mark.parametrize("trains", [False, True])
def test_a_normalization_by_what_the_model_computes_stays_outside(trains):
    names = ["scale", "shift", "mean", "var" if trains else "computed"]
    outputs, attributes = (["n", "p", "q"], {"training_mode": 1}) if trains else (["n"], {})
    model = build(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Abs", ["x"], ["positive"]),
            helper.make_node("ReduceMean", ["positive"], ["computed"], axes=[0, 2, 3], keepdims=0),
            helper.make_node("BatchNormalization", ["a", *names], outputs, **attributes),
            helper.make_node("Conv", ["n", "w"], ["b"]),
            helper.make_node("Conv", ["b", "w"], ["y"]),
        ],
        (1, 16, 4, 4),
        {"w": weights(16, 16, 1, 1), "var": np.ones(16, np.float32),
         **{name: weights(16, 1, 1, 1).reshape(16) for name in ("scale", "shift", "mean")}},
    )  # fmt: skip
    laid = laid_out(model)
    assert laid is not None and operators(laid)["BatchNormalization"] == 1
    assert operators(laid)["blocked Conv"] >= 2


def test_a_factor_for_each_channel_is_a_convolution():
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("GlobalAveragePool", ["a"], ["m"]),
            helper.make_node("Conv", ["m", "v"], ["s"]),
            helper.make_node("Mul", ["s", "a"], ["p"]),
            helper.make_node("Conv", ["p", "w"], ["y"]),
        ],
        (1, 24, 8, 8),
        {"w": weights(24, 24, 1, 1), "v": weights(24, 24, 1, 1)},
    )
    assert "Mul" not in counts and counts["blocked Conv"] == 4


@pytest.mark.parametrize(("m", "taps", "batch"), [(32, 2, 1), (20, 2, 2), (6, 3, 1)])
def test_transposed_convolutions_of_tiles_stay_in_blocks(m, taps, batch):
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("ConvTranspose", ["a", "t", "b"], ["u"], strides=[taps, taps]),
            helper.make_node("Conv", ["u", "v"], ["y"]),
        ],
        (batch, 32, 5, 6),
        {"w": weights(24, 32, 1, 1), "t": weights(24, m, taps, taps), "b": weights(m),
         "v": weights(16, m, 1, 1)},
    )  # fmt: skip
    assert "ConvTranspose" not in counts


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [1, 1]}, {"strides": [2, 2], "pads": [0, 0, 1, 1]},
     {"strides": [2, 2], "output_padding": [1, 1]}, {"strides": [2, 2], "dilations": [2, 2]},
     {"strides": [2, 2], "group": 2}],
)  # fmt: skip
def test_transposed_convolutions_that_overlap_stay(attributes):
    m = 32 // attributes.get("group", 1)
    model = build(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("ConvTranspose", ["a", "t"], ["u"], **attributes),
            helper.make_node("Conv", ["u", "v"], ["y"]),
        ],
        (1, 32, 5, 6),
        {"w": weights(32, 32, 1, 1), "t": weights(32, m, 2, 2), "v": weights(16, 32, 1, 1)},
    )
    laid = laid_out(model)
    assert laid is None or operators(laid)["ConvTranspose"] == 1


RESIZES = [
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     [1, 1, 2, 3], True),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, [1, 1, 2, 2], True),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [1, 1, 3, 2], True),
    ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, [1, 1, 3, 2], True),
    # Each breaks one condition of the first ones.
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
     [1, 1, 2.1, 3], False),
    ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
     [1, 1, 2, 3], False),
    ({"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}, [1, 1, 2, 2], False),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel", "exclude_outside": 1},
     [1, 1, 2, 2], False),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, [1, 1, 0.5, 0.5], False),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "scales", "stays_in_blocks"), RESIZES)
def test_images_are_resized_in_blocks_by_whole_numbers(attributes, scales, stays_in_blocks):
    model = build(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Resize", ["a", "", "s"], ["r"], **attributes),
            helper.make_node("Conv", ["r", "w"], ["y"]),
        ],
        (1, 32, 4, 6),
        {"w": weights(32, 32, 1, 1), "s": np.array(scales, np.float32)},
    )
    laid = laid_out(model)
    counts = {} if laid is None else operators(laid)
    assert ("blocked Upsample" in counts) == stays_in_blocks
    if laid is not None:
        assert_equal(model, laid, {"x": image(1, 32, 4, 6)})


@pytest.mark.parametrize(
    ("batch", "sizes", "stays_in_blocks"),
    [
        (1, [1, 32, 8, 18], True),
        # Each breaks one condition of the first one.
        ("batch", [1, 32, 8, 18], False),
        (1, [1, 32, 9, 18], False),
        (1, [1, 32, 2, 18], False),
    ],
)
def test_images_are_resized_in_blocks_to_sizes(batch, sizes, stays_in_blocks):
    transform = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model = build(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Resize", ["a", "", "", "s"], ["r"], mode="nearest", **transform),
            helper.make_node("Conv", ["r", "w"], ["y"]),
        ],
        (batch, 32, 4, 6),
        {"w": weights(32, 32, 1, 1), "s": np.array(sizes, np.int64)},
    )
    laid = laid_out(model)
    found = {} if laid is None else operators(laid)
    assert ("blocked Upsample" in found) == stays_in_blocks
    if laid is not None:
        assert_equal(model, laid, {"x": image(1, 32, 4, 6)})


def test_a_mean_over_the_image_is_a_pool():
    counts = checked(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("ReduceMean", ["a"], ["m"], axes=[-1, 2]),
            helper.make_node("Conv", ["m", "w"], ["y"]),
        ],
        (1, 32, 4, 6),
        {"w": weights(32, 32, 1, 1)},
    )
    assert counts["blocked GlobalAveragePool"] == 1


def test_values_that_are_no_images_stay():
    model = build([helper.make_node("Relu", ["x"], ["y"])], (1, 32, 8), {})
    assert laid_out(model) is None


def test_a_free_number_of_channels_stays():
    model = build(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        (1, "channels", 8, 8),
        {"w": weights(32, 32, 1, 1)},
    )
    assert laid_out(model) is None


def test_weights_that_are_computed_stay():
    model = build(
        [helper.make_node("Relu", ["x"], ["w"]), helper.make_node("Conv", ["x", "w"], ["y"])],
        (32, 32, 3, 3),
        {},
    )
    assert laid_out(model) is None


def test_a_plan_refuses_blocks_of_another_width(monkeypatch):
    """The same file on a machine with narrower or wider vectors must not give other numbers."""
    other = 8 if block_size() == 16 else 16
    monkeypatch.setattr(plans, "block_size", lambda: other)
    model = two_convolutions()
    laid = laid_out(model)
    assert laid is not None
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        with pytest.raises(Exception, match=r"(?i)reshape|shape"):
            run(laid, {"x": image(1, 32, 8, 8)}, level)


def test_only_a_plan_that_reorders_less_than_the_runtime_is_news():
    from collections import Counter

    from tensolog.optimizer.graph.convert import load_graph

    model = two_convolutions()
    laid = load_graph(laid_out(model))
    reorders = sum(node.op_type.startswith("Reorder") for node in laid.nodes.values())
    assert plans.reorders_less(laid, Counter(ReorderOutput=reorders + 1))
    assert not plans.reorders_less(laid, Counter(ReorderInput=reorders))
    assert not plans.reorders_less(load_graph(model), Counter(ReorderInput=9))


class HalfMeasured(Prices):
    """What is blocked was measured; of anything else the bound is known, and no time is left."""

    remaining_s = 0.0

    def cost(self, kernel):
        is_measured = kernel.domain == NCHWC and kernel.op_type == "Conv"
        cost = 0.0 if kernel.is_constant else 50.0 if is_measured else 1.0
        return Cost(cost, 0.0, "measured" if is_measured else "bound")


def test_what_nobody_measured_does_not_lead_in_and_out():
    """A depthwise convolution of odd channels is plain to the runtime; its bound is no reason."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"])]
    for i in range(4):
        reads = "a" if i == 0 else f"c{i - 1}"
        nodes.append(helper.make_node("Conv", [reads, "d"], [f"b{i}"], group=44, pads=[1] * 4))
        nodes.append(helper.make_node("Conv", [f"b{i}", "p"], [f"c{i}"]))
    constants = {"w": weights(44, 32, 1, 1), "d": weights(44, 1, 3, 3), "p": weights(44, 44, 1, 1)}
    graph = graph_of(build(nodes, (1, 32, 8, 8), constants))
    laid, _ = plans.lay_out(graph, HalfMeasured(), sizes={}, fold_limit=FOLD_LIMIT)
    assert laid is not None
    assert operators(to_model(laid.graph))["blocked ReorderOutput"] == 1


def test_without_such_kernels_there_is_no_plan(monkeypatch):
    monkeypatch.setattr(plans, "block_size", lambda: None)
    model = two_convolutions()
    assert laid_out(model) is None


def test_operators_are_imported():
    model = two_convolutions()
    laid = laid_out(model)
    assert NCHWC in {entry.domain for entry in laid.opset_import}
