"""Kernels whose values alone are tested are optimized less in a run of all tests."""

import os

import pytest
from tensolog.optimizer.codegen import compiler

from tests.campaigns import SLICED


def _optimized_less(flags):
    return tuple("-O1" if flag == "-O3" else flag for flag in flags)


@pytest.fixture
def quickly_compiled(monkeypatch):
    """Compile with -O1, in half of the time, where campaigns are sliced; -O3 everywhere else.

    Loops that are told to use vectors do with either, and no flag lets the compiler change values.
    """
    if SLICED not in os.environ:
        return
    key, build = compiler.key, compiler._build
    monkeypatch.setattr(
        compiler, "key", lambda source, by, flags: key(source, by, _optimized_less(flags))
    )
    monkeypatch.setattr(
        compiler,
        "_build",
        lambda source, by, flags, entry: build(source, by, _optimized_less(flags), entry),
    )
