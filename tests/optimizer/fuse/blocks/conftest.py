"""Small programs get kernels too, where NumPy keeps what it does as quickly."""

import pytest
from tensolog.optimizer.fuse.tracing import prepare


@pytest.fixture(autouse=True)
def plan_small_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 0.0)
