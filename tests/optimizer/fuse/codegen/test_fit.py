"""The fitted coefficients are those that are shipped."""

from importlib import resources

import pytest


@pytest.mark.slow
def test_coefficients_are_up_to_date():
    pytest.importorskip("mpmath")
    from tensolog.optimizer.fuse.codegen.fit import header

    shipped = resources.files("tensolog.optimizer.fuse.codegen").joinpath("coefficients.h")
    assert shipped.read_text(encoding="utf-8") == header() + "\n"
