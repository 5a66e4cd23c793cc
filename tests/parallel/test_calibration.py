"""A model timed against its kernels: factors of operators that are right on average."""

import os
from itertools import pairwise

import numpy as np
import onnx
import pytest
from tensolog.parallel import calibration as calibration_module
from tensolog.parallel import measure as measure_module
from tensolog.parallel.calibration import calibrate, calibrate_each, pieces_of
from tensolog.parallel.cluster import piece_times
from tensolog.parallel.devices import Cluster, Device, links_of_each_pair
from tensolog.parallel.simulation.tasks import Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.workload import read_workload

from .models import Builder, perceptron
from .test_materialized import inputs_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")


def test_a_model_and_its_pieces_are_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration_module, "_SECONDS", 0.005)
    monkeypatch.setattr(calibration_module, "_ROUNDS", 1)
    monkeypatch.setattr(calibration_module, "measure_weights", lambda threads: ((1.0, 0.0),))
    model = perceptron(rows=32, width=64, layers=3)
    onnx.save(model, tmp_path / "model.onnx")
    device = Device("d", memory_bytes=1 << 30, flops_per_s=1e10, memory_bytes_per_s=1e10)
    cluster = Cluster("one", (device,))
    problem = Problem(read_workload(model), cluster, Times(cluster))
    calibration = calibrate(problem, tmp_path / "model.onnx", inputs_of(model), tmp_path)
    kernels_s = [
        problem.times.operator(operator.kernel, 0) for operator in problem.workload.operators
    ]
    assert calibration.factor > 0 and calibration.contention_s_per_byte >= 0
    assert len(calibration.of_average) == len(kernels_s)
    # Pieces are neighbours, and their factors leave the sum as it is.
    changes = sum(a != b for a, b in pairwise(calibration.of_average))
    assert changes < 8
    assert np.dot(calibration.of_average, kernels_s) == pytest.approx(sum(kernels_s))
    calibrated = Times(cluster, None, calibration)
    total_s = sum(
        calibrated.operator(operator.kernel, 0) for operator in problem.workload.operators
    )
    assert total_s == pytest.approx(calibration.factor * sum(kernels_s))


def test_what_a_byte_of_weights_takes_among_more_of_them(monkeypatch):
    monkeypatch.setattr(measure_module, "_LENGTHS", (1, 2, 4))
    monkeypatch.setattr(measure_module, "_ROUNDS", 3)
    sizes, longer = zip(*measure_module.measure_weights(1), strict=True)
    assert sizes == (2.0**18, 2.0**19, 2.0**20)
    assert longer[0] == 0.0 and sorted(longer) == list(longer)


def test_what_each_device_goes_through_anyway_takes_no_longer():
    curve = ((1.0, 0.0), (3.0, 2.0), (5.0, 6.0))
    assert calibration_module._beyond(curve, 2) == ((1.0, 0.0), (3.0, 1.0), (5.0, 5.0))


def test_pieces_are_timed_with_weights_that_are_drawn(tmp_path, monkeypatch):
    """On a worker: what is sent has no large weights, and what it is given is as it was."""
    monkeypatch.setattr(piece_times, "_SECONDS", 0.001)
    monkeypatch.setattr(piece_times, "_ROUNDS", 1)
    model = perceptron(rows=4, width=256, layers=2)
    devices = [
        Device(name, memory_bytes=1 << 30, flops_per_s=rate, memory_bytes_per_s=1e10)
        for name, rate in (("slow", 1e9), ("fast", 4e9))
    ]
    cluster = Cluster("two", tuple(devices), links_of_each_pair(devices, 1e-3, 1e9))
    problem = Problem(read_workload(model), cluster, Times(cluster))
    pieces = pieces_of(problem, inputs_of(model), tmp_path)
    models = piece_times.light_models(pieces)
    weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    assert sum(map(len, models)) < 0.05 * weights
    seconds = piece_times._times(models, pieces.piece_feeds, 1)
    assert len(seconds) == len(pieces.parted.partition.stages) and min(seconds) > 0
    calibration = calibrate_each(pieces, [seconds, [2 * value for value in seconds]])
    assert len(calibration.of_average) == len(problem.workload.operators)
    times = Times(cluster, None, calibration)
    for device, measured_s in enumerate((sum(seconds), 2 * sum(seconds))):
        kernels_s = [times.operator(o.kernel, device) for o in problem.workload.operators]
        assert sum(kernels_s) == pytest.approx(measured_s)


def test_constants_that_decide_what_is_computed_are_sent(tmp_path):
    """Whole numbers, and what is small: only large weights are drawn."""
    build = Builder()
    x = build.input(64, 256)
    rows = build.node("Gather", x, build.ints(*range(0, 64, 2)), shape=(32, 256))
    model = build.model(build.node("MatMul", rows, build.weight(256, 256), shape=(32, 256)))
    light = onnx.load_from_string(piece_times._light(model, tmp_path))
    places = {tensor.name: tensor.data_location for tensor in light.graph.initializer}
    assert sorted(places.values()) == [onnx.TensorProto.DEFAULT, onnx.TensorProto.EXTERNAL]
    (kept,) = (t for t in light.graph.initializer if t.data_type == onnx.TensorProto.INT64)
    assert onnx.numpy_helper.to_array(kept).tolist() == list(range(0, 64, 2))
    file = tmp_path / "model.onnx"
    onnx.save(light, file)
    piece_times._draw_weights(light, tmp_path / "drawn.data")
    drawn = onnx.numpy_helper.to_array(onnx.load(file).graph.initializer[1])
    assert drawn.shape == (256, 256) and np.std(drawn) == pytest.approx(1 / 16, rel=0.05)
