"""Deviations: rounding passes, anything else does not; each negative test breaks one thing."""

from contextlib import closing

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tensolog.optimizer.graph.widen import narrow_sums, why_not_widened, widen
from tensolog.optimizer.race.verify import Deviation, Verifier, compare, failures, nonfinite_share
from tensolog.profiles.sessions.feeds import NONFINITE

from tests.campaigns import examples
from tests.optimizer.builders import model, run, value

RNG = np.random.default_rng(0)
OUTPUT = RNG.standard_normal((4, 5)).astype(np.float32)
EPS = float(np.finfo(np.float32).eps)


def within(candidate, original=OUTPUT, plain=None, yardstick=None):
    plain = original if plain is None else plain
    yardstick = original if yardstick is None else yardstick
    *_, error, tolerance, _ = compare(candidate, (original, plain), yardstick)
    return error <= tolerance


def changed(index, number, array=OUTPUT):
    copy = array.copy()
    copy[index] = number
    return copy


def test_the_same_is_within():
    assert within(OUTPUT.copy())


@settings(max_examples=examples(50))
@given(st.floats(-8, 8))
def test_a_few_units_in_the_last_place_are_within(ulps):
    assert within(OUTPUT * np.float32(1 + ulps * EPS))


def test_a_yardstick_beyond_a_step_is_none():
    """In float64 some number fell into another bucket: the runtime's own results count then."""
    beyond = changed((1, 2), OUTPUT[1, 2] + 0.2)
    assert within(OUTPUT.copy(), yardstick=beyond)
    assert not within(changed((0, 0), OUTPUT[0, 0] + 1e-3), yardstick=beyond)
    assert not within(beyond, yardstick=beyond)


@pytest.mark.parametrize("error", [1e-4, -1e-3, 1.0])
def test_one_wrong_element_is_not(error):
    assert not within(changed((1, 2), OUTPUT[1, 2] + np.float32(error)))


def test_an_error_like_the_originals_own_is_within():
    exact = OUTPUT.astype(np.float64)
    sloppy = (OUTPUT + np.float32(1e-3)).astype(np.float32)
    also_sloppy = (OUTPUT - np.float32(1e-3)).astype(np.float32)
    assert within(also_sloppy, sloppy, yardstick=exact)
    assert not within(also_sloppy, OUTPUT, yardstick=exact)


def test_another_shape_is_not():
    assert not within(OUTPUT.reshape(5, 4))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_the_same_odd_number_is_within_another_is_not(number):
    odd = changed((0, 0), number)
    assert within(odd.copy(), odd)
    assert not within(OUTPUT, odd)
    assert not within(odd, OUTPUT)
    assert not within(changed((0, 0), -np.inf if number == np.inf else np.inf), odd)


def test_integers_must_agree_as_far_as_the_original_does_with_itself():
    ranks = np.arange(100)
    assert within(ranks.copy(), ranks)
    assert not within(changed(3, 0, ranks), ranks)
    assert within(changed(3, 0, ranks), ranks, plain=changed(5, 0, ranks))


def test_zero_sizes_and_zeros_are_within():
    empty = np.zeros((0, 3), np.float32)
    assert within(empty.copy(), empty)
    zeros = np.zeros(3, np.float32)
    assert within(zeros.copy(), zeros)
    assert not within(changed(0, 1e-2, zeros), zeros)


def matmul(weight):
    return model(
        [("MatMul", ["x", "w"], ["h"]), ("Softmax", ["h"], ["y"])],
        [value("x", [3, 8])],
        [value("y", [3, 4])],
        {"w": weight},
    )


def test_verifier_tells_a_right_candidate_from_a_wrong_one():
    weight = RNG.standard_normal((8, 4)).astype(np.float32)
    feeds = {"normal": {"x": RNG.standard_normal((3, 8)).astype(np.float32)}}
    original = matmul(weight)
    verifier = Verifier(original.SerializeToString(), feeds, threads=1)
    try:
        right = verifier.deviations("right", original.SerializeToString())
        wrong = verifier.deviations("wrong", matmul(weight * 1.01).SerializeToString())
    finally:
        verifier.close()
    assert [d.output for d in right] == ["y"]
    assert not list(failures(right))
    assert "normal" in next(failures(wrong))


def test_sequences_are_compared_part_by_part():
    nodes = [("SplitToSequence", ["x", "s"], ["y"])]

    def cut(sizes):
        from onnx import TensorProto, helper

        output = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
        return model(nodes, [value("x", [6])], [output], {"s": np.array(sizes)})

    feeds = {"normal": {"x": np.arange(6, dtype=np.float32)}}
    verifier = Verifier(cut([2, 4]).SerializeToString(), feeds, threads=1)
    try:
        assert not list(failures(verifier.deviations("same", cut([2, 4]).SerializeToString())))
    finally:
        verifier.close()


# --------------------------------------------------------------------------------- float64


def biased(offset, name="c"):
    """Sums of 4,096 numbers, with what a candidate does wrong added to them."""
    constants = {"axes": np.array([1]), name: np.float32(offset)}
    nodes = [("ReduceSum", ["x", "axes"], ["s"]), ("Add", ["s", name], ["y"])]
    return model(nodes, [value("x", [8, 4096])], [value("y", [8, 1])], constants)


def deviation(offset, wide):
    """What is found of a candidate that is off by so much of the output's scale."""
    feeds = {"large_mean": {"x": (100 + RNG.standard_normal((8, 4096))).astype(np.float32)}}
    verifier = Verifier(biased(0.0).SerializeToString(), feeds, threads=1, wide=wide)
    try:
        candidate = biased(offset * 4096 * 100).SerializeToString()
        (deviation_,) = verifier.deviations("candidate", candidate)
    finally:
        verifier.close()
    return deviation_


def in_float64(error=0.0):
    """The model in float64, from which the original seems to be off by an error of its scale."""
    wide = widen(biased(error * 4096 * 100), _double)
    return lambda: (wide.SerializeToString(), "")


def _double(tensor):
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def test_what_is_near_the_original_is_not_compared_in_float64():
    def never():
        pytest.fail("it is asked")

    deviation_ = deviation(0.0, never)
    assert deviation_.within and deviation_.reference == "original"


def test_what_is_no_farther_from_float64_than_the_original_allows_passes():
    deviation_ = deviation(3e-5, in_float64(error=2e-5))
    assert deviation_.within and deviation_.reference == "float64"
    assert deviation_.original_error == pytest.approx(2e-5, rel=0.2)
    assert deviation_.max_error == pytest.approx(1e-5, rel=0.4)


def test_what_is_farther_is_refused_with_both_distances():
    deviation_ = deviation(1e-4, in_float64())
    assert not deviation_.within
    (sentence,) = failures([deviation_])
    assert "is off by 1.0e-04 of its scale from float64 on large_mean inputs" in sentence
    assert (
        f"the original by {deviation_.original_error:.1e} (tolerance {deviation_.tolerance:.1e}"
        in sentence
    )


def test_without_float64_the_reason_is_told():
    deviation_ = deviation(1e-4, lambda: (None, "Loop has a graph of its own"))
    assert not deviation_.within and deviation_.reference == "original"
    (sentence,) = failures([deviation_])
    assert sentence.endswith("not compared in float64: Loop has a graph of its own)")


def test_a_model_that_does_not_run_in_float64_is_compared_with_the_original():
    deviation_ = deviation(1e-4, lambda: (b"no model", ""))
    assert "does not run in float64" in deviation_.no_float64


def widened_and_exact(built, *feeds):
    """What a widened model gives, and ONNX's own evaluator in float64."""
    wide = widen(built, _double)
    onnx.checker.check_model(wide)
    widened_feeds = {
        name: array.astype(np.float64) for name, array in zip("xyz", feeds, strict=False)
    }
    return run(wide, widened_feeds)[0], ReferenceEvaluator(wide_reference(built)).run(
        None, widened_feeds
    )[0]


def wide_reference(built):
    """The same nodes over float64, which the evaluator takes as they are."""
    wide = onnx.ModelProto.FromString(built.SerializeToString())
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(_double(tensor))
    for entry in (*wide.graph.input, *wide.graph.output):
        entry.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def random(*sizes):
    return (100 + RNG.standard_normal(sizes)).astype(np.float32)


CONVOLUTIONS = [
    ([2, 4, 9, 8], [6, 4, 3, 2], {}),
    ([1, 4, 9, 8], [6, 2, 3, 3], {"group": 2, "pads": [1, 0, 2, 1]}),
    ([1, 4, 9, 8], [4, 1, 3, 3], {"group": 4, "strides": [2, 3], "dilations": [2, 1]}),
    ([1, 3, 9, 8], [5, 3, 3, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ([1, 3, 9, 8], [5, 3, 2, 4], {"auto_pad": "SAME_LOWER"}),
    ([1, 3, 20], [5, 3, 7], {"auto_pad": "VALID", "strides": [3]}),
    ([1, 2, 5, 6, 7], [3, 2, 2, 2, 2], {"pads": [1, 1, 0, 0, 1, 1]}),
]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("image", "weight", "attributes"), CONVOLUTIONS)
def test_convolutions_are_spelled_in_float64(image, weight, attributes, has_bias):
    weights = {"w": random(*weight)} | ({"b": random(weight[0])} if has_bias else {})
    conv = helper.make_node("Conv", ["x", *weights], ["y"], **attributes)
    built = model([conv], [value("x", image)], [value("y", [None] * len(image))], weights)
    result, exact = widened_and_exact(built, random(*image))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, exact, rtol=1e-13)
    assert not narrow_sums(widen(built, _double))


@pytest.mark.parametrize("image", [[2, 3, 50], [2, 3, 9, 8]])
def test_means_and_normalizations_are_spelled_in_float64(image):
    scales = {"g": random(3), "b": random(3)}
    for node, used in (
        (helper.make_node("GlobalAveragePool", ["x"], ["y"]), {}),
        (helper.make_node("InstanceNormalization", ["x", "g", "b"], ["y"]), scales),
    ):
        built = model([node], [value("x", image)], [value("y", [None] * len(image))], used)
        result, exact = widened_and_exact(built, random(*image))
        np.testing.assert_allclose(result, exact, rtol=1e-9, atol=1e-9)


def test_widened_models_compute_in_float64():
    built = model(
        [
            ("MatMul", ["x", "w"], ["h"]),
            ("Erf", ["h"], ["e"]),
            helper.make_node("Cast", ["e"], ["c"], to=1),
            ("LeakyRelu", ["c"], ["r"]),
            ("Softmax", ["r"], ["y"]),
        ],
        [value("x", [3, 64])],
        [value("y", [3, 4])],
        {"w": RNG.standard_normal((64, 4)).astype(np.float32)},
    )
    wide = widen(built, _double)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    (narrow,), (exact,) = run(built, {"x": x}), run(wide, {"x": x.astype(np.float64)})
    assert exact.dtype == np.float64
    assert np.allclose(narrow, exact, atol=1e-5)
    assert not np.array_equal(narrow, exact)


def test_sums_that_run_in_float32_all_the_same_are_named():
    weights = {"w": random(4, 5, 2, 2)}
    nodes = [("ConvTranspose", ["x", "w"], ["y"])]
    built = model(nodes, [value("x", [1, 4, 3, 3])], [value("y", [None] * 4)], weights)
    wide = widen(built, _double)
    assert narrow_sums(wide) == ["ConvTranspose"]
    (result,) = run(wide, {"x": random(1, 4, 3, 3).astype(np.float64)})
    assert result.dtype == np.float64


def test_operators_of_others_are_named_where_nothing_is_widened():
    nodes = [("Erf", ["x"], ["h"]), ("Neg", ["h"], ["y"])]
    built = model(nodes, [value("x", [3])], [value("y", [3])])
    built.graph.node[0].op_type, built.graph.node[0].domain = "Gelu", "example.com"
    assert widen(built, _double) is None
    assert why_not_widened(built) == "nobody tells the types of example.com:Gelu"


def test_models_whose_declared_shapes_contradict_a_constant_are_not_widened():
    built = model(
        [("Add", ["x", "w"], ["y"])],
        [value("x", [4]), value("w", [4])],
        [value("y", [4])],
        {"w": np.ones(4, np.float32)},
    )
    assert widen(built, lambda tensor: tensor) is not None
    built.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2**31
    assert widen(built, lambda tensor: tensor) is None


# ------------------------------------------------------------------------------ NaN and infinities

NONE = np.zeros((3, 4), np.float32)
KINDS = (np.nan, np.inf, -np.inf, 1.0)


def holding(value, dtype=np.float32):
    array = NONE.astype(dtype)
    array[1, 2] = value
    return array


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("candidate", KINDS)
@pytest.mark.parametrize("original", KINDS)
def test_kinds_of_floats_are_compared_by_element(candidate, original, dtype):
    originals = (holding(original, dtype), holding(original, dtype))
    same = np.array_equal(candidate, original, equal_nan=True)
    assert nonfinite_share(holding(candidate, dtype), originals) == (0.0 if same else 1 / 12)


@pytest.mark.parametrize("candidate", [np.nan, 1.0])
def test_either_level_of_the_runtime_may_be_followed(candidate):
    originals = (holding(np.nan), holding(1.0))
    assert nonfinite_share(holding(candidate), originals) == 0.0
    assert nonfinite_share(holding(np.inf), originals) == 1 / 12


def test_finite_numbers_are_another_distributions_matter():
    assert nonfinite_share(holding(7.0), (holding(1.0), holding(1.0))) == 0.0


def test_integers_are_compared_as_they_are():
    """The place of a largest element is another one where NaN is largest."""
    assert nonfinite_share(np.array([1, 2]), (np.array([1, 2]), np.array([0, 2]))) == 0.0
    assert nonfinite_share(np.array([1, 3]), (np.array([1, 2]), np.array([0, 2]))) == 0.5


def test_another_shape_is_wrong_throughout():
    assert nonfinite_share(NONE[:2], (NONE, NONE)) == 1.0


def test_outputs_of_another_shape_are_compared_with_the_run_that_has_it():
    """As many boxes as one level of the runtime's optimizer gives, and as neither does."""
    three, four = np.arange(3), np.arange(4)
    assert compare(four, (three, four), three)[2:4] == (0.0, 0.0)
    assert compare(four.astype(np.float32), (three.astype(np.float32),), three)[2] == np.inf
    refusal = next(failures([Deviation("plan", "normal", "boxes", *[np.inf] * 3, 0.0)]))
    assert refusal.startswith("output 'boxes' has another shape on normal inputs")


def test_an_original_that_refuses_nan_is_compared_on_other_inputs():
    """As RoiAlign does where a box is not finite."""
    weights = {"w": RNG.standard_normal((1, 2, 6, 6)).astype(np.float32), "of": np.zeros(2, int)}
    roi = helper.make_node("RoiAlign", ["w", "boxes", "of"], ["y"], output_height=2, output_width=2)
    built = model([roi], [value("boxes", [2, 4])], [value("y", [2, 2, 2, 2])], weights)
    sound = np.array([[0, 0, 3, 3], [1, 1, 5, 4]], np.float32)
    drawn = {"normal": {"boxes": sound}, NONFINITE[0]: {"boxes": sound * np.float32(np.nan)}}
    source = built.SerializeToString()
    with closing(Verifier(source, drawn, threads=1)) as verifier:
        assert {deviation_.distribution for deviation_ in verifier.deviations("same", source)} == {
            "normal"
        }
    with pytest.raises(Exception, match="finite"):
        Verifier(source, {"normal": drawn[NONFINITE[0]]}, threads=1)
