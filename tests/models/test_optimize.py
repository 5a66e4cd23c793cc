"""The whole way, measuring included: what `optimize` hands over computes what it was given."""

import pytest

import tensolog
from benchmarks.zoo import build, random_feeds

from .agreement import disagreement

pytestmark = pytest.mark.whole


@pytest.mark.parametrize(("name", "dynamic"), [("mobilenetv3", False), ("bert", True)])
def test_optimized_architecture_agrees(name, dynamic):
    model = build(name, tiny=True, dynamic=dynamic)
    result = tensolog.optimize(model, catalog=":memory:", budget=1.0, threads=1).model
    assert list(result.graph.input) == list(model.graph.input)
    for distribution in ("normal", "zeros"):
        feeds = random_feeds(model, distribution=distribution, dimensions={"batch": 3, "tokens": 5})
        assert disagreement(model, result, feeds, level="all") is None
