"""Models whose sums the runtime adds up in threads without a lock are judged on one thread."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.race import verify
from tensolog.optimizer.race.unlocked_sums import unlocked_sums
from tensolog.optimizer.result.outcome import unlocked_text

from tests.optimizer.builders import model, value


def scatter(**attributes):
    return model(
        [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], **attributes)],
        [value("x", [9, 4]), value("u", [30, 4]), value("i", [30, 1], TensorProto.INT64)],
        [value("y", [9, 4])],
        opset=18,
    )


@pytest.mark.parametrize(
    ("attributes", "count"), [({"reduction": "add"}, 1), ({"reduction": "none"}, 0), ({}, 0)]
)
def test_only_sums_are_in_doubt(attributes, count):
    assert len(unlocked_sums(load_graph(scatter(**attributes)))) == count


def test_it_is_said_where_several_threads_compute():
    (sentence,) = unlocked_text(["a", "b"], 2)
    assert "a, b (ScatterND)" in sentence
    assert not list(unlocked_text(["a"], 1))
    assert not list(unlocked_text([], 2))


def test_the_reference_runs_on_threads_of_its_own(monkeypatch):
    opened = []

    def noted(source, *, threads, **options):
        opened.append(threads)
        return verify_open(source, threads=threads, **options)

    verify_open = verify.open_session
    monkeypatch.setattr(verify, "open_session", noted)
    proto = scatter(reduction="add").SerializeToString()
    rng = np.random.default_rng(0)
    feeds = {
        "x": np.zeros((9, 4), np.float32),
        "i": rng.integers(0, 9, (30, 1)),
        "u": rng.standard_normal((30, 4)).astype(np.float32),
    }
    verifier = verify.Verifier(proto, {"normal": feeds}, threads=2, reference_threads=1)
    try:
        verifier.deviations("same", proto)
    finally:
        verifier.close()
    assert opened == [1, 1, 2]
