"""What Python's own objects and functions do with values inside of a fused function."""

import collections
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensolog import fuse

X = np.random.default_rng(0).normal(size=(6, 4))
L = np.array([2, 0, 1, 2, 2, 0])


def compared(text: str) -> None:
    operands = X, L
    function = eval(f"lambda X, L: ({text})", {"np": np, "collections": collections})
    expected, result = (call(*map(np.copy, operands)) for call in (function, fuse(function)))
    same(result, expected)


def same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, np.ndarray | float | np.inexact):
        np.testing.assert_allclose(result, expected)
    elif isinstance(expected, dict):
        same(list(result.items()), list(expected.items()))
    elif isinstance(expected, set | frozenset):
        same(sorted(result), sorted(expected))
    elif isinstance(expected, list | tuple):
        assert len(result) == len(expected)
        for first, other in zip(result, expected, strict=True):
            same(first, other)
    else:
        assert result == expected


@pytest.mark.parametrize(
    "text",
    [
        "{X.argmax(): X + 1, L[0]: L * 2}",
        "{label: (L == label).sum() for label in L}",
        "{label for label in L}, frozenset([L.max(), 7]), {(L.max(), 1): 'a'}",
        "collections.Counter(L)",
        "collections.OrderedDict([(L[0], X), (L[1], X * 2)])",
        "[found.setdefault(label, len(found)) for found in [{}] for label in L]",
        "hash(L[0]) == hash(2), hash(X.sum()) == hash(float(X.sum()))",
    ],
)
def test_numbers_are_keys(text: str) -> None:
    compared(text)


@pytest.mark.parametrize(
    "text",
    [
        "[0] * L.max(), L.max() * (1, 2), 'ab' * L.max(), [1.0] * L, [2] + X[0]",
        "X != 'a', L == b'a', X.sum() == 'a'",
        "X.sum().real, X.sum().imag, X.real, __import__('math').trunc(X.sum())",
    ],
)
def test_python_sees_numbers(text: str) -> None:
    compared(text)


@pytest.mark.parametrize(
    "text",
    [
        "L * np.asmatrix(np.ones((len(L), 2))), np.asmatrix(L) * L[:, None]",
        "X + np.asmatrix(X), X / np.asmatrix(X), X < np.asmatrix(X)",
        "X * np.ma.masked_array(X, X > 1), X - np.ma.masked_array(X, X > 1)",
    ],
)
def test_a_kind_of_array_with_operators_of_its_own_is_asked_first(text: str) -> None:
    compared(text)


def test_arrays_are_none() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        fuse(lambda x: {x + 1: 1})(X)


@pytest.mark.parametrize(
    "text",
    [
        "(lambda pair: (pair, pair, [pair]))((X + 1, [X * 2]))",
        "(lambda kept: {'a': kept, 'b': (kept,)})(frozenset([L.sum()]))",
    ],
)
def test_what_stands_in_two_places_is_one(text: str) -> None:
    compared(text)
    pairs = fuse(lambda x: (lambda pair: [pair, pair])((x + 1, x * 2)))(X)
    assert pairs[0] is pairs[1]


REFUSED: list[Callable[[Any, Any], Any]] = [
    lambda x, _: x.transpose(3, 0),
    lambda x, _: x.transpose(0, -2),
    lambda x, _: x.transpose(1.0, 0),
    lambda x, _: np.transpose(x, (0, 1, 2)),
    lambda x, _: x.reshape(4.0, 6),
    lambda x, _: x.reshape("4", 6),
    lambda x, _: np.expand_dims(x, 1.0),
    lambda x, _: np.expand_dims(x, 3),
]


@pytest.mark.parametrize("function", REFUSED)
def test_axes_and_extents_that_numpy_refuses(function: Callable[[Any, Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as expected:
        function(X, L)
    with pytest.raises(expected.type):
        fuse(function)(X, L)


def test_a_power_that_numpy_refuses_is_refused_where_it_stands() -> None:
    @fuse
    def function(x: Any, exponents: Any) -> Any:
        try:
            power = x**exponents
        except ValueError:
            power = x + 1
        return power

    np.testing.assert_array_equal(function(L, -L), L + 1)
    np.testing.assert_array_equal(function(L, L), L**L)
    np.testing.assert_array_equal(function(L, 3), L**3)


def test_a_shape_of_none_is_that_of_the_array() -> None:
    compared("np.zeros_like(X, shape=None) + 1, np.ones_like(X, shape=(2, 3))")


def test_warnings_are_off_in_a_region_alone():
    @fuse(heuristic="all")
    def divided(x, y):
        total = (x / y).sum()
        return total / total

    kept = np.geterr()
    with np.errstate(divide="warn", invalid="warn", under="print"):
        within = np.geterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                assert np.isnan(divided(np.ones(50), np.zeros(50)))
        assert np.geterr() == within
    assert np.geterr() == kept


def test_what_waits_in_another_trace_is_another_value():
    def outer(x, y):
        z = x * 2

        @fuse
        def inner(y):
            return (y + 1) * z

        return inner(y.copy() if type(y) is np.ndarray else np.asarray(y)) + z

    x, y = np.arange(5.0), np.arange(5.0) + 10
    np.testing.assert_array_equal(fuse(outer)(x, y), (y + 1) * (x * 2) + x * 2)
