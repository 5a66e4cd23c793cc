"""Small programs get kernels too, which are compiled quickly."""

import pytest

from tests.optimizer.fuse.small_programs import node_by_node, plan_small_programs_too

__all__ = ["node_by_node", "plan_small_programs_too"]


@pytest.fixture(autouse=True)
def values_alone(quickly_compiled):
    """Of kernels, only what they compute is tested here."""
