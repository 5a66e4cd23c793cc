"""A model timed against its kernels: factors of operators that are right on average."""

import os
from itertools import pairwise

import numpy as np
import onnx
import pytest
from tensolog.parallel import calibration as calibration_module
from tensolog.parallel import measure as measure_module
from tensolog.parallel.calibration import calibrate
from tensolog.parallel.devices import Cluster, Device
from tensolog.parallel.simulation.tasks import Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.workload import read_workload

from .models import perceptron
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
    found = calibrate(problem, tmp_path / "model.onnx", inputs_of(model), tmp_path)
    kernels_s = [problem.times.operator(one.kernel, 0) for one in problem.workload.operators]
    assert found.factor > 0 and found.contention_s_per_byte >= 0
    assert len(found.of_average) == len(kernels_s)
    # Pieces are neighbours, and their factors leave the sum as it is.
    changes = sum(a != b for a, b in pairwise(found.of_average))
    assert changes < 8
    assert np.dot(found.of_average, kernels_s) == pytest.approx(sum(kernels_s))
    calibrated = Times(cluster, None, found)
    total_s = sum(calibrated.operator(one.kernel, 0) for one in problem.workload.operators)
    assert total_s == pytest.approx(found.factor * sum(kernels_s))


def test_what_a_byte_of_weights_takes_among_more_of_them(monkeypatch):
    monkeypatch.setattr(measure_module, "_LENGTHS", (1, 2, 4))
    monkeypatch.setattr(measure_module, "_ROUNDS", 3)
    sizes, longer = zip(*measure_module.measure_weights(1), strict=True)
    assert sizes == (2.0**18, 2.0**19, 2.0**20)
    assert longer[0] == 0.0 and sorted(longer) == list(longer)


def test_what_each_device_goes_through_anyway_takes_no_longer():
    curve = ((1.0, 0.0), (3.0, 2.0), (5.0, 6.0))
    assert calibration_module._beyond(curve, 2) == ((1.0, 0.0), (3.0, 1.0), (5.0, 5.0))
