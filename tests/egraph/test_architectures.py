"""Whole architectures, small ones: what is taken out of their e-graphs computes the same."""

import numpy as np
import onnx
import pytest
from tensolog.profiles.feeds import random_feeds
from tensolog.profiles.kernel import dtype_name

from benchmarks.zoo import build

from ..models.agreement import run
from .pricing import searched, shipped_rules


@pytest.mark.parametrize("name", ["bert", "mobilenetv3", "llama"])
def test_an_architecture_agrees_under_drawn_prices(name):
    model = build(name, tiny=True)
    held = {tensor.name for tensor in model.graph.initializer}
    types = {
        entry.name: (
            dtype_name(entry.type.tensor_type.elem_type),
            tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim),
        )
        for entry in model.graph.input
        if entry.name not in held
    }
    feeds = dict(random_feeds(types, "normal", 0, high=2))
    result, found = searched(model, shipped_rules(), seed=3)
    onnx.checker.check_model(result)
    assert found.cost_ns < found.own_cost_ns
    assert found.extraction.bound <= found.extraction.cost
    for got, expected in zip(run(result, feeds), run(model, feeds), strict=True):
        scale = float(np.max(np.abs(expected))) if expected.size else 1.0
        assert np.allclose(got, expected, rtol=0, atol=1e-4 * max(scale, 1e-6))
