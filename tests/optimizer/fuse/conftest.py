"""Plans are made at the default rates: what they are must not depend on the machine's speed."""

import pytest
from tensolog.optimizer.fuse.planning import machine_rates


@pytest.fixture(autouse=True)
def default_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_rates, "_measured", machine_rates.Machine)
