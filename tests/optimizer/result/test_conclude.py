"""Which weights of a result lie beside it: those that would take longer to read than before."""

from pathlib import Path

import numpy as np
import pytest
from tensolog.catalog.store.constants import LARGE_BYTES
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.result import conclude
from tensolog.optimizer.result.conclude import outside_bytes
from tensolog.profiles.sessions.execution import Execution

from tests.optimizer.builders import model, value


def plan(*sizes, **options):
    """A plan whose constants have so many elements of four bytes."""
    constants = {f"c{i}": np.zeros(size, np.float32) for i, size in enumerate(sizes)}
    nodes = [("Mul", ["x", name], [f"y{i}"]) for i, name in enumerate(constants)]
    outputs = [value(f"y{i}", ["n"]) for i in range(len(sizes))]
    return Plan("plan", load_graph(model(nodes, [value("x", [1])], outputs, constants)), **options)


@pytest.mark.parametrize(("largest", "wanted"), [(10, 100), (24, 100), (25, 101), (80, 321)])
def test_what_is_larger_than_all_before_is_mapped(largest, wanted, monkeypatch):
    monkeypatch.setattr(conclude, "MAPPED_BYTES", 100)
    assert outside_bytes(plan(3, largest, 2), plan(200)) == wanted


def test_all_large_weights_lie_beside_a_library():
    native = Execution(libraries=(Path("a.so"),))
    assert outside_bytes(plan(3), plan(3, execution=native)) == LARGE_BYTES


def test_the_original_stays_as_it_was():
    original = plan(3)
    assert outside_bytes(original, original) is None
