"""Whole architectures, small ones: what is taken out of their e-graphs computes the same."""

import random

import numpy as np
import onnx
import pytest
from tensolog.profiles.kernel import dtype_name
from tensolog.profiles.sessions.feeds import random_feeds

from benchmarks.zoo import ARCHITECTURES, build
from tests.models.agreement import run
from tests.models.rewriting import half_of

from .pricing import modelled, searched, shipped_rules


def feeds_of(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    types = {
        entry.name: (
            dtype_name(entry.type.tensor_type.elem_type),
            tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim),
        )
        for entry in model.graph.input
        if entry.name not in constants
    }
    return dict(random_feeds(types, "normal", 0, high=2))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_agrees_without_rules_with_half_of_them_and_with_all(name):
    """Prices are drawn, so that rules win that no machine would choose; next best plans as well."""
    model = build(name, tiny=True)
    feeds = feeds_of(model)
    expected = run(model, feeds)
    half = half_of(shipped_rules(), random.Random(name))
    for seed, rules, count in ((1, (), 1), (2, half, 1), (3, shipped_rules(), 3)):
        _, search_result = searched(model, rules, seed=seed, count=count)
        assert search_result.cost_ns <= search_result.original_cost_ns
        assert search_result.extraction.bound <= search_result.extraction.cost
        assert [plan.cost_ns for plan in search_result.plans] == sorted(
            p.cost_ns for p in search_result.plans
        )
        for plan in search_result.plans:
            result = modelled(plan)
            onnx.checker.check_model(result)
            for got, exact in zip(run(result, feeds), expected, strict=True):
                scale = float(np.max(np.abs(exact))) if exact.size else 1.0
                assert np.allclose(got, exact, rtol=0, atol=1e-4 * max(scale, 1e-6))
