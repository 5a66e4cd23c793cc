"""Tracing is tested apart from kernels: the same programs, rewritten, computed node by node."""

from collections.abc import Iterator

import pytest
from tensolog.optimizer.fuse.planning import fusion_planner
from tensolog.optimizer.fuse.tracing import prepare, region_engine


@pytest.fixture(autouse=True)
def plan_small_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test kernels on arrays for which NumPy would do."""
    monkeypatch.setattr(prepare, "TRACING_S", 0.0)
    monkeypatch.setattr(fusion_planner, "_FEW", 0)


@pytest.fixture
def node_by_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def prepared(program: prepare.Program, options: prepare.Options) -> prepare.Prepared:
        return prepare.Prepared(program, prepare.rewrite(program), options, refusal="a test")

    monkeypatch.setattr(region_engine, "prepare", prepared)
    yield
