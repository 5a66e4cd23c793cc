"""The fitted coefficients are those that are shipped."""

from importlib import resources

import pytest


@pytest.mark.slow
def test_coefficients_are_up_to_date():
    pytest.importorskip("mpmath")
    from tensolog.optimizer.codegen.fit import header

    shipped = resources.files("tensolog.optimizer.codegen").joinpath("coefficients.h")
    assert shipped.read_text(encoding="utf-8") == header() + "\n"
