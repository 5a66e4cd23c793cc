"""The whole way, measuring included: what `optimize` hands over computes what it was given."""

import gc
import tempfile

import numpy as np
import onnxruntime
import pytest

import tensolog
from benchmarks.zoo import build, random_feeds

from .agreement import disagreement, run

pytestmark = pytest.mark.whole


@pytest.mark.parametrize(("name", "dynamic"), [("mobilenetv3", False), ("bert", True)])
def test_optimized_architecture_agrees(name, dynamic):
    model = build(name, tiny=True, dynamic=dynamic)
    result = tensolog.optimize(model, catalog=":memory:", budget=0.3, threads=1).model
    assert list(result.graph.input) == list(model.graph.input)
    for distribution in ("normal", "zeros"):
        feeds = random_feeds(model, distribution=distribution, dimensions={"batch": 3, "tokens": 5})
        assert disagreement(model, result, feeds, level="all") is None


def test_a_result_is_opened_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = build("mobilenetv3", tiny=True)
    result = tensolog.optimize(model, catalog=":memory:", budget=0.2, threads=1)
    feeds = random_feeds(model)
    before = set(tmp_path.iterdir())
    session = result.session()
    assert set(tmp_path.iterdir()) > before
    results = session.run(None, feeds)
    for first, other in zip(results, run(model, feeds), strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-3, atol=1e-4)
    del session
    gc.collect()
    assert set(tmp_path.iterdir()) == before
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    assert result.session(options).get_session_options().intra_op_num_threads == 1
