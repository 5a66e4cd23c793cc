import numpy as np
import pytest
from onnx import TensorProto
from tensolog.profiles.kernel import dtype_name, numpy_dtype
from tensolog.profiles.sessions.feeds import DISTRIBUTIONS, NONFINITE, random_array, random_feeds

DTYPES = [dtype_name(element) for element in TensorProto.DataType.values() if element != 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", (*DISTRIBUTIONS, *NONFINITE))
def test_every_dtype_and_distribution(dtype, distribution):
    feeds = random_feeds(
        {"x": (dtype, (3, 5)), "s": (dtype, ()), "e": (dtype, (0, 2))}, distribution
    )
    for name, shape in (("x", (3, 5)), ("s", ()), ("e", (0, 2))):
        assert feeds[name].shape == shape
        assert feeds[name].dtype == numpy_dtype(dtype)


def test_distributions_are_what_they_are_called():
    def draw(distribution):
        return random_feeds({"x": ("float32", (20000,))}, distribution)["x"]

    assert abs(draw("normal").mean()) < 0.05 and abs(draw("normal").std() - 1) < 0.05
    assert draw("uniform").min() >= -1 and draw("uniform").max() < 1
    assert abs(draw("large_mean").mean() - 100) < 0.1
    assert 0.9 < np.mean(draw("sparse") == 0) < 0.99
    assert set(draw("integers").tolist()) == {-3, -2, -1, 0, 1, 2, 3}
    nan, infinite = draw("nan"), draw("infinite")
    assert 0 < np.isnan(nan).sum() < 9 and not np.isinf(nan).any()
    assert {-np.inf, np.inf} < set(infinite.tolist()) and not np.isnan(infinite).any()
    assert np.isinf(infinite).sum() < 9
    with pytest.raises(ValueError, match="known: normal, uniform"):
        draw("cauchy")


def test_integers_are_valid_indices():
    drawn = random_feeds({"ids": ("int64", (1000,))})["ids"]
    assert set(drawn.tolist()) == {0, 1}
    drawn = random_feeds({"ids": ("int32", (1000,))}, high=7)["ids"]
    assert set(drawn.tolist()) == set(range(7))


def test_the_seed_and_the_name_decide():
    inputs = {"a": ("float32", (64,)), "b": ("float32", (64,))}
    feeds = random_feeds(inputs, seed=1)
    assert not np.array_equal(feeds["a"], feeds["b"])
    assert np.array_equal(feeds["b"], random_feeds({"b": inputs["b"]}, seed=1)["b"])
    assert not np.array_equal(feeds["a"], random_feeds(inputs, seed=2)["a"])


def test_large_arrays_are_filled():
    array = random_array(np.random.default_rng(0), "float32", (3, 1 << 20))
    assert np.count_nonzero(array) == array.size
