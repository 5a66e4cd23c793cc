"""Packages whose names load on first use show them all the same."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["catalog", "optimizer", "rules"])
def test_names_are_shown_and_load(name):
    package = import_module(f"tensolog.{name}")
    assert {*package.__all__, "__path__"} <= {*dir(package)}
    for exported in package.__all__:
        assert getattr(package, exported) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018
