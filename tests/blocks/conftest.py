"""Plans are made at the default rates: what they are must not depend on the machine's speed."""

import pytest
from tensolog.optimizer.fuse.planning import machine
from tensolog.optimizer.fuse.tracing import prepare


@pytest.fixture(autouse=True)
def default_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_measured", machine.Machine)


@pytest.fixture(autouse=True)
def plan_small_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 0.0)
