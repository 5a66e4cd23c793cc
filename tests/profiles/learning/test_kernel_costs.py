"""Trees over the bound: what ONNX Runtime makes of them, and what they foretell."""

import numpy as np
import onnxruntime
import pytest
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernels.costs import Cost
from tensolog.profiles.learning import kernel_costs
from tensolog.profiles.learning.errors import LearningError
from tensolog.profiles.learning.kernel_costs import (
    Forecast,
    KernelPredictor,
    load_predictor,
    shipped_forecast,
    shipped_model,
)
from tensolog.profiles.learning.predictor import CostPredictor, PredictorError
from tensolog.profiles.learning.samples.kernel_rows import COLUMNS, kernel_rows
from tensolog.profiles.learning.training import kernel_trees
from tensolog.profiles.machine import Machine

from .cost_graphs import DATA, frozen_graphs, tile_graph

MACHINE = Machine(1, "a machine", 2, 50e9, 100e9)
LEFT_OUT = ("bert", "products", "squeezenet", "unet")


@pytest.fixture(scope="module")
def kernels():
    return [kernel_rows(graph) for graph in frozen_graphs()]


@pytest.fixture(scope="module")
def shipped():
    return KernelPredictor(shipped_model("amd-avx512"))


def matmul(rows, columns=64):
    operands = (TensorSpec("float32", (rows, 64)), TensorSpec("float32", (64, columns), True))
    return Kernel("", "MatMul", 13, (), operands)


def test_onnx_runtime_goes_the_way_that_scikit_learn_goes(kernels, monkeypatch):
    """On rows that lie at thresholds, too: those of training do, as float32."""
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    monkeypatch.setattr(kernel_trees, "_TREES", 6)
    few = kernels[::25]
    operators = kernel_trees.operators_of(few)
    trees = kernel_trees.fit_trees(few, operators)
    model = kernel_trees.exported(trees, {}).SerializeToString()
    random, rows = np.random.default_rng(0), kernel_trees.table(few, operators)
    mixed = np.stack([random.permutation(column) for column in rows.T], 1)
    on_thresholds = []
    for estimator in trees.estimators_[:, 0]:
        tree = estimator.tree_
        for node in np.flatnonzero(tree.feature >= 0):
            near = np.float32(tree.threshold[node])
            for value in (near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)):
                row = mixed[int(random.integers(len(mixed)))].copy()
                row[tree.feature[node]] = value
                on_thresholds.append(row)
    every = np.concatenate([rows, mixed, on_thresholds]).astype(np.float32)
    (predicted,) = onnxruntime.InferenceSession(model).run(None, {"rows": every})
    np.testing.assert_allclose(predicted[:, 0], trees.predict(every), rtol=1e-5, atol=1e-5)


def test_trees_are_written_with_what_they_need(kernels, monkeypatch):
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    monkeypatch.setattr(kernel_trees, "_TREES", 4)
    predictor = KernelPredictor(kernel_trees.train_trees(kernels[::12]).SerializeToString())
    assert predictor.metadata["configured"] == {"threads": [1, 2], "levels": [1, 3]}
    assert 1.0 < predictor.factor < 100.0 and predictor.spread.variance > 0
    of_bert = [kernel for kernel in kernels if kernel.architecture == "bert"]
    with pytest.raises(LearningError, match="of two models at least"):
        kernel_trees.train_trees(of_bert)


def test_architectures_left_out_are_foretold_better_than_by_the_bound(kernels, monkeypatch):
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    monkeypatch.setattr(kernel_trees, "_TREES", 80)
    tested = [kernel for kernel in kernels if kernel.architecture in LEFT_OUT]
    scored = kernel_trees.left_out(kernels, tested)
    guesses = {
        name: np.concatenate([k.logs - k.guess for k in tested if k.architecture == name])
        for name in LEFT_OUT
    }
    assert set(scored) == set(LEFT_OUT)
    for name, (_, _, errors) in scored.items():
        assert np.abs(errors).mean() < 0.85 * np.abs(guesses[name]).mean(), name
    together = np.abs(np.concatenate([errors for _, _, errors in scored.values()]))
    factor = KernelPredictor(shipped_model("amd-avx512")).factor
    assert 0.8 < np.mean(together <= np.log(factor)) < 0.98


def test_the_trees_that_ship_read_the_columns_that_there_are(kernels, shipped):
    assert shipped.metadata["columns"] == list(COLUMNS)
    logs = shipped.logs(kernels)
    truth = np.concatenate([kernel.logs for kernel in kernels])
    assert np.abs(logs - truth).mean() < 0.15  # what it was trained on
    assert len(shipped_model("amd-avx512")) < 1_000_000
    assert shipped_model("no-such") is None


def test_predictions_have_an_interval_and_neighbours(kernels, shipped):
    kernel = next(kernel for kernel in kernels if kernel.architecture == "products")
    prediction = shipped.predict(kernel)
    np.testing.assert_allclose(prediction.most_ns / prediction.times_ns, shipped.factor)
    near = shipped.nearest(kernel)
    assert near[0].distance == pytest.approx(0.0, abs=0.1)
    assert all("MatMul" in kernel.label for kernel in near)


def test_an_operator_that_nothing_was_learned_of_has_no_prediction(shipped):
    forecast = Forecast(shipped, MACHINE, 1, "all")
    strange = Kernel("test", "Strange", 1, (), (TensorSpec("float32", (8,)),))
    assert forecast.cost(strange) is None
    known = forecast.cost(matmul(64))
    assert known.source == "predicted" and known.least_ns < known.ns < known.most_ns


def test_what_was_measured_moves_what_is_like_it_and_narrows_it(shipped):
    forecast = Forecast(shipped, MACHINE, 1, "all")
    near, far = matmul(65), Kernel("", "Relu", 14, (), (TensorSpec("float32", (64, 64)),))
    before, other = forecast.cost(near), forecast.cost(far)
    first = forecast.cost(matmul(64))
    forecast.learn([(matmul(64), 3 * first.ns)])
    after = forecast.cost(near)
    assert after.ns > 1.2 * before.ns and after.factor < before.factor
    same = forecast.cost(far)
    assert same.ns == pytest.approx(other.ns, rel=0.3)
    forecast.learn([(matmul(64), first.ns)])  # the first measurement stands
    assert forecast.cost(near) == after


def test_only_what_data_exists_of_is_predicted(monkeypatch):
    monkeypatch.setattr(kernel_costs, "processor_class", lambda: "amd-avx512")
    assert shipped_forecast(MACHINE, 1, "all") is not None
    assert shipped_forecast(MACHINE, 64, "all") is None
    assert shipped_forecast(MACHINE, 1, "disabled") is None
    monkeypatch.setattr(kernel_costs, "processor_class", lambda: "")
    assert shipped_forecast(MACHINE, 1, "all") is None


def test_a_model_of_either_kind_is_loaded_and_nothing_else(tmp_path):
    (tmp_path / "trees.onnx").write_bytes(shipped_model("amd-avx512"))
    assert isinstance(load_predictor(tmp_path / "trees.onnx"), KernelPredictor)
    assert isinstance(load_predictor(DATA / "kernels.onnx"), CostPredictor)
    (tmp_path / "none.onnx").write_bytes(b"nothing")
    with pytest.raises(PredictorError, match=r"none\.onnx is no model of costs"):
        load_predictor(tmp_path / "none.onnx")


def test_foreign_graphs_are_no_kernels(shipped):
    with pytest.raises(PredictorError, match="is no kernel"):
        shipped.example(tile_graph())


def test_a_cost_has_ends():
    assert Cost(10.0, 0.0, "measured").most_ns == 10.0
    assert Cost(10.0, 0.0, "predicted", 2.0).least_ns == 5.0
    assert Cost(10.0, 0.0, "bound").most_ns == np.inf
