"""Features of kernels where they are known, and models that have to learn what generates times."""

import math

import numpy as np
import pytest
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.learning.errors import LearningError
from tensolog.profiles.learning.samples.features import NAMES, features
from tensolog.profiles.learning.samples.kernel_samples import Sample, measured_samples
from tensolog.profiles.learning.scores.baselines import score_baselines
from tensolog.profiles.learning.training.training_options import Training
from tensolog.profiles.machine import Machine

from tensolog import Catalog

BRIEFLY = Training(steps=20)  # where torch is, a graph network is among the models
MACHINE = Machine(1, "test", 1, 50e9, 100e9)


def matmul(m, k, n):
    operands = (TensorSpec("float32", (m, k)), TensorSpec("float32", (k, n), constant=True))
    return Kernel("", "MatMul", 13, (), operands)


def relu(*shape):
    return Kernel("", "Relu", 14, (), (TensorSpec("float32", shape),))


def named(kernel):
    values = features(kernel, MACHINE, 1)
    assert values.shape == (len(NAMES),) and np.isfinite(values).all()
    return dict(zip(NAMES, values, strict=True))


def test_roles_of_a_products_indices():
    by_name = named(matmul(4, 8, 16))
    assert by_name["contracted_extent"] == pytest.approx(math.log1p(8))
    assert by_name["free_extent"] == pytest.approx(math.log1p(64))
    assert by_name["flops"] == pytest.approx(math.log1p(2 * 4 * 8 * 16))
    assert by_name["constant_bytes"] == pytest.approx(math.log1p(4 * 8 * 16))
    assert by_name["output_4"] == pytest.approx(math.log1p(16))
    assert by_name["output_2"] == -1.0


def test_a_convolution_contracts_channels_and_taps():
    operands = (TensorSpec("float32", (1, 6, 10, 10)), TensorSpec("float32", (8, 3, 3, 3), True))
    by_name = named(Kernel("", "Conv", 11, (("group", 2), ("strides", (2, 2))), operands))
    assert by_name["contracted_extent"] == pytest.approx(math.log1p(27))
    assert (by_name["group"], by_name["stride"]) == (2.0, 4.0)


def test_what_acts_element_by_element_contracts_nothing():
    by_name = named(relu(3, 5))
    assert by_name["contracted_extent"] == -1.0
    assert by_name["operations"] == pytest.approx(math.log1p(15))


def test_an_operator_without_a_meaning_has_features():
    named(Kernel("com.example", "Strange", 1, (), (TensorSpec("float32", (2, 3)), None)))


def samples():
    """Architectures of two operators whose times are sums of operations, with a factor of 2."""
    random = np.random.default_rng(0)
    for name in "ab":
        for _ in range(60):
            m, k, n = (int(size) for size in random.integers(4, 200, 3))
            yield Sample(name, matmul(m, k, n), 2, 500.0 + 0.05 * m * k * n, 1.0, 9)
            yield Sample(name, relu(m, k), 1, 300.0 + 0.5 * m * k, 1.0, 9)


def test_models_learn_what_bounds_do_not_know():
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    scores = {
        (baseline.model, baseline.architecture): baseline
        for baseline in score_baselines([*samples()], MACHINE, 1, training=BRIEFLY)
    }
    for architecture in "ab":
        bound = scores["roofline", architecture]
        for name in ("boosted trees", "perceptron"):
            learned = scores[name, architecture]
            assert learned.error < 0.25 < bound.error
            assert learned.tau > 0.85
            assert 0.8 < learned.total < 1.2
        assert scores["measured again", architecture].error < 0.01
        assert learned.kernels == 120 and learned.trained_on <= 120


def test_no_kernel_of_the_architecture_is_trained_on():
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    shared, only = matmul(8, 8, 8), [matmul(size, 8, 8) for size in range(10, 30)]
    rows = [Sample("a", shared, 1, 10.0, 0.1, 9), Sample("b", shared, 1, 10.0, 0.1, 9)]
    rows += [Sample("b", kernel, 1, 20.0, 0.1, 9) for kernel in only]
    scores = score_baselines(rows, MACHINE, 1, training=BRIEFLY)
    assert {score.trained_on for score in scores if score.architecture == "a"} == {len(only)}
    assert not [
        score for score in scores if score.architecture == "b"
    ]  # nothing is left to learn from


def test_one_architecture_is_too_few():
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    with pytest.raises(LearningError, match="two models at least"):
        score_baselines([Sample("a", relu(2), 1, 5.0, 0.1, 9)], MACHINE, 1)


def test_nothing_is_left_to_learn_from():
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    rows = [Sample(name, relu(2), 1, 5.0, 0.1, 9) for name in "ab"]
    with pytest.raises(LearningError, match="the same kernels"):
        score_baselines(rows, MACHINE, 1)


def test_measured_kernels_of_a_model():
    with Catalog(":memory:") as catalog:
        kernels = [("one", relu(2, 2)), ("two", relu(2, 2)), ("other", relu(3, 3))]
        assert measured_samples(catalog, "a", kernels, 1) == []
        from tensolog.profiles.machine import load_machine
        from tensolog.profiles.sessions.session import runtime_version

        for median in (7.0, 5.0):
            catalog.connection.execute(
                "INSERT INTO measurement (device_id, kernel_hash, runtime, runtime_version,"
                " configuration, threads, median_ns, spread_ns, minimum_ns, samples, measured_at)"
                " VALUES (?, ?, 'onnxruntime', ?, 'all', 1, ?, 0.5, 4.0, 9, now())",
                [load_machine(catalog).device_id, relu(2, 2).hash, runtime_version(), median],
            )
        (sample,) = measured_samples(catalog, "a", kernels, 1)
        assert (sample.calls, sample.time_ns, sample.samples) == (2, 5.0, 9)
        assert measured_samples(catalog, "a", kernels, 2) == []
