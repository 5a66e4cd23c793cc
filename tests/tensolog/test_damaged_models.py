"""Damaged models: a result or one clear line, whatever the damage (a slice of the campaign)."""

import os

import pytest

from tests.campaigns import examples
from tests.corruption.campaign import campaign


@pytest.mark.skipif(os.name == "nt", reason="memory is limited by what POSIX systems have")
@pytest.mark.parametrize("seed", range(2))
def test_damaged_models_give_a_result_or_one_line(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSOLOG_KERNELS", str(tmp_path / "kernels"))
    wrong = {
        f"{case.number} {case.model}: {case.damage}": problems
        for case, problems in campaign(tmp_path, examples(30), 7 + seed)
        if problems
    }
    assert wrong == {}
