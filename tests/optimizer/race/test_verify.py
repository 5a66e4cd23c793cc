"""Deviations: rounding passes, anything else does not; each negative test breaks one thing."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.graph.widen import widen
from tensolog.optimizer.race.verify import Verifier, compare, failures, nonfinite_share

from tests.campaigns import examples
from tests.optimizer.builders import model, run, value

RNG = np.random.default_rng(0)
OUTPUT = RNG.standard_normal((4, 5)).astype(np.float32)
EPS = float(np.finfo(np.float32).eps)


def within(candidate, original=OUTPUT, plain=None, yardstick=None):
    plain = original if plain is None else plain
    yardstick = original if yardstick is None else yardstick
    *_, relative, tolerance = compare(candidate, (original, plain), yardstick)
    return relative <= tolerance


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


def test_widened_models_compute_in_float64():
    from onnx import helper, numpy_helper

    built = model(
        [
            ("MatMul", ["x", "w"], ["h"]),
            ("Erf", ["h"], ["e"]),
            helper.make_node("Cast", ["e"], ["c"], to=1),
            ("Softmax", ["c"], ["y"]),
        ],
        [value("x", [3, 64])],
        [value("y", [3, 4])],
        {"w": RNG.standard_normal((64, 4)).astype(np.float32)},
    )

    def double(tensor):
        return numpy_helper.from_array(
            numpy_helper.to_array(tensor).astype(np.float64), tensor.name
        )

    wide = widen(built, double)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    (narrow,), (exact,) = run(built, {"x": x}), run(wide, {"x": x.astype(np.float64)})
    assert exact.dtype == np.float64
    assert np.allclose(narrow, exact, atol=1e-5)
    assert not np.array_equal(narrow, exact)


def test_models_whose_sums_have_no_double_kernel_are_not_widened():
    built = model(
        [("Conv", ["x", "w"], ["y"])],
        [value("x", [1, 1, 4, 4])],
        [value("y", [1, 1, 2, 2])],
        {"w": np.ones((1, 1, 3, 3), np.float32)},
    )
    assert widen(built, lambda tensor: tensor) is None


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
