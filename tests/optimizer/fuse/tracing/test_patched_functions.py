"""Whoever puts another function in a name's place is heard of, also where calls are replayed."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.special

from tensolog import fuse

X = np.random.default_rng(0).normal(size=(60, 40))


def helper(x: Any, by: float = 2.0) -> Any:
    return x * by


def functions() -> dict[str, Callable[[Any], Any]]:
    return {
        "exp": lambda x: np.exp(x) * 2,
        "sum": lambda x: np.sum(x * x, axis=0),
        "norm": lambda x: np.linalg.norm(x * 2, axis=1),
        "expit": lambda x: scipy.special.expit(x) * 2,
        "pi": lambda x: np.exp(x) * np.pi,
        "where": lambda x: np.where(x > 0, x, 1.0) * 2,
        "abs": lambda x: abs(x) * 2,
        "helper": lambda x: helper(x) + 1,
    }


PATCHES = {
    "exp": ("numpy.exp", np.sin),
    "sum": ("numpy.sum", np.max),
    "norm": ("numpy.linalg.norm", lambda x, axis: (x * x).sum(axis=axis)),
    "expit": ("scipy.special.expit", np.cos),
    "pi": ("numpy.pi", 3.0),
    "where": ("numpy.where", lambda condition, x, y: x * 3),
    "abs": ("builtins.abs", np.sin),
    "helper": (f"{__name__}.helper", lambda x: x * 5),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_name_that_is_patched_means_what_it_was_patched_with(name: str) -> None:
    plain, fused = functions()[name], fuse(functions()[name])
    for _ in range(3):
        np.testing.assert_allclose(fused(X), plain(X), rtol=1e-12)
    assert fused._replays, "nothing is replayed: the test would see no difference"
    with mock.patch(*PATCHES[name]):
        expected = plain(X)
        results = [fused(X) for _ in range(3)]
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), plain(X), rtol=1e-12)


@pytest.mark.parametrize("name", PATCHES)
def test_one_that_was_patched_before_is_called_each_time(name: str) -> None:
    path, instead = PATCHES[name]
    if not callable(instead):
        pytest.skip("a number isn't called")
    counting = mock.Mock(side_effect=instead)
    fused = fuse(functions()[name])
    with mock.patch(path, counting):
        for count in range(1, 4):
            fused(X)
            assert counting.call_count == count
    np.testing.assert_allclose(fused(X), functions()[name](X), rtol=1e-12)


def test_other_defaults_and_another_body_are_seen() -> None:
    def inner(x: Any, by: float = 2.0, *, plus: float = 1.0) -> Any:
        return np.exp(x) * by + plus

    space = {"np": np, "inner": inner}
    exec("def outer(x, by=1.0):\n    return inner(x) * by", space)
    plain: Any = space["outer"]
    fused = fuse(plain)

    def agree() -> None:
        for _ in range(2):
            np.testing.assert_allclose(fused(X), plain(X), rtol=1e-12)

    agree()
    assert fused._replays
    inner.__defaults__ = (3.0,)
    agree()
    assert inner.__kwdefaults__ is not None
    inner.__kwdefaults__ = {"plus": 5.0}
    agree()
    plain.__defaults__ = (7.0,)
    agree()
    inner.__code__ = (lambda x, by=2.0, *, plus=1.0: np.sin(x) * by + plus).__code__
    agree()
    plain.__code__ = (lambda x, by=1.0: np.cos(x) * by).__code__
    agree()
