"""Calls that aren't traced again do what NumPy does, and those that might do something else are."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing import prepare
from tensolog.optimizer.fuse.tracing.replay import dependencies_of

from tensolog import fuse

RNG = np.random.default_rng(0)
SCALE = 2.0


def half(x: Any) -> Any:
    return x / 2


@fuse
def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


STRAIGHT = [
    "np.exp(X) * Y",
    "X @ v, X.T @ w",
    "X.sum(), (X * Y).sum(axis=0), 3, None",
    "half(X) * SCALE + 1, X",
    "sigmoid(X @ v) - w",
    "(X - X.mean(axis=0)) / X.shape[0]",
    "(X[1:] - X[:-1]).max(axis=1), len(X)",
    "(X > Y).sum() + 0.0, abs(X)",
    "((X + rate) * rate, (Y * X.shape[1]).sum())",
    "np.where(X > 0, X, 1) ** rate * Y",
]
# Each does something that only a call tells, or that a name's meaning decides.
OTHERS = [
    "X.T, X * 2",
    "X[0], X + 1",
    "X * 2 if rate > 0 else Y",
    "[X * 2, Y]",
    "np.add(X, Y, X)",
    "np.exp(X, out=X)",
    "X.sort()",
    "X.__iadd__(1)",
    "np.random.default_rng(0).random() * X",
    "float(X[0, 0]) * X",
    "np.sort(X, axis=0) + 1",
    "np.zeros(3) + X.sum()",
    "{'a': X + 1}",
    "(lambda: X + 1)()",
]


def function_of(text: str, **names: Any) -> Any:
    space = {"np": np, "half": half, "sigmoid": sigmoid, "SCALE": SCALE, **names}
    exec(f"def function(X, Y, w, v, rate):\n    return {text}", space)
    return space["function"]


def drawn(kind: str = "float64", m: int = 6, n: int = 4) -> list[Any]:
    return [RNG.normal(size=shape).astype(kind) for shape in ((m, n), (m, n), (m,), (n,))]


def agree(plain: Callable[..., Any], fused: Callable[..., Any], *arguments: Any) -> None:
    first = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    other = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    for left, right in ((plain(*first), fused(*other)), (first, other)):
        same(right, left)


def same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, tuple | list):
        for left, right in zip(result, expected, strict=True):
            same(left, right)
    elif isinstance(expected, dict):
        same(list(result.values()), list(expected.values()))
    elif isinstance(expected, np.ndarray | np.generic):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    else:
        assert result == expected


@pytest.mark.parametrize("text", [*STRAIGHT, *OTHERS])
def test_as_numpy_each_time(text: str) -> None:
    """Other values, numbers, types and layouts between calls, and one array twice."""
    plain = function_of(text)
    fused = fuse(plain)
    kinds = ["float64", "float64", "float32", "float64"]
    for kind, rate in zip(kinds * 2, [0.5, 0.5, 0.5, 2.0, 2.0, 0.5, -0.0, 0.0], strict=True):
        X, Y, w, v = drawn(kind)
        Y = abs(Y)
        agree(plain, fused, X, Y, w, v, rate)
        agree(plain, fused, np.asfortranarray(X), Y[::-1], w, v, rate)
        agree(plain, fused, X, X, w, v, rate)
    swapped = [array.astype(">f8") for array in drawn()]
    agree(plain, fused, *swapped, 0.5)


@pytest.mark.parametrize("text", STRAIGHT)
def test_straight_ones_are_traced_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = fuse(function_of(text))
    fused(*(abs(array) for array in drawn()), 0.5)
    assert len(fused._replays) == 1
    explanation = fused.explain()
    assert "run the region at once" in explanation
    arguments = [abs(array) for array in drawn()]
    expected = function_of(text)(*arguments, 0.5)
    monkeypatch.setattr("tensolog.optimizer.fuse.tracing.decorator.Trace", None)
    same(fused(*arguments, 0.5), expected)
    assert fused.explain() == explanation


@pytest.mark.parametrize("text", OTHERS)
def test_others_are_traced_again(text: str) -> None:
    fused = fuse(function_of(text))
    for _ in range(2):
        fused(*drawn(), 0.5)
    assert not fused._replays


def test_results_are_those_that_numpy_would_hand_out() -> None:
    X, Y, w, v = drawn()
    fused = fuse(function_of("(X, X * 2, (Y, w))"))
    for _ in range(3):
        results = fused(X, Y, w, v, 0.5)
        assert results[0] is X
        assert results[2][0] is Y
        assert results[1].flags.writeable
        assert results[1].base is None or not np.may_share_memory(results[1], X)
        results[1][:] = 0  # must not be seen in the next call
        assert (fused(X, Y, w, v, 0.5)[1] == X * 2).all()

    def twice(X: Any) -> Any:
        increased = X + 1
        return increased, increased

    again = fuse(twice)
    for _ in range(3):
        first, other = again(X)
        assert first is other


def test_what_a_name_means_counts() -> None:
    X, Y, w, v = drawn()
    plain = function_of("half(X) + SCALE")
    fused = fuse(plain)
    fused(X, Y, w, v, 0.5)
    assert fused._replays
    plain.__globals__["SCALE"] = 5.0
    agree(plain, fused, X, Y, w, v, 0.5)
    plain.__globals__["half"] = abs
    agree(plain, fused, X, Y, w, v, 0.5)
    plain.__globals__["abs"] = np.exp
    plain.__globals__["half"] = np.exp
    agree(plain, fused, X, Y, w, v, 0.5)


def test_errors_that_are_asked_for_are_given() -> None:
    X, Y, w, v = drawn()
    fused = fuse(function_of("X / w[:, None]"))
    fused(X, Y, w, v, 0.5)
    assert fused._replays
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fused(X, Y, w * 0, v, 0.5)


def test_numbers_of_numpys_are_traced() -> None:
    X, Y, w, v = drawn()
    plain = function_of("X * rate")
    fused = fuse(plain)
    for rate in (np.float64(0.5), np.float64(2.5), np.float32(2.5), 0.5, 2, True):
        agree(plain, fused, X, Y, w, v, rate)
        agree(plain, fused, X, Y, w, v, rate)


@pytest.mark.parametrize("text", ["X * 2, rate", "((X > 0) + rate) * X"])
def test_true_is_another_number_than_one(text: str) -> None:
    plain = function_of(text)
    fused = fuse(plain)
    for rate in (1, True, 0, False, 1.0, 0.0, -0.0, True, 1):
        agree(plain, fused, *drawn(), rate)


def outer() -> Any:
    inner = 3

    def closure(x: Any) -> Any:
        return x + inner

    return closure


def test_functions_that_are_replayed_and_those_that_are_not() -> None:
    assert dependencies_of(half) is not None
    assert dependencies_of(sigmoid.__wrapped__) is not None
    assert dependencies_of(lambda x: x if x else 0) is None
    assert dependencies_of(lambda x: [item + 1 for item in x]) is None
    assert dependencies_of(lambda x, *rest: x) is None
    assert dependencies_of(lambda x: x.tofile("x")) is None
    assert dependencies_of(lambda x: sys.getsizeof(x)) is None
    assert dependencies_of(lambda x: print(x)) is None
    assert dependencies_of(outer()) is None
    assert dependencies_of(lambda x: (yield x)) is None


def test_what_numpy_does_in_one_pass_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """np.clip is two operators here, and one function of NumPy's."""
    monkeypatch.setattr(prepare, "TRACING_S", 30e-6)
    X = RNG.normal(size=(1000, 1000))
    alone_s = []
    for plain in (lambda X: np.clip(X, -1, 1), lambda X: np.maximum(-1, X)):
        fused = fuse(plain)
        np.testing.assert_array_equal(fused(X), plain(X))
        (prepared,) = fused._engine.prepared_regions()
        assert isinstance(prepared, prepare.Prepared) and prepared.seconds is not None
        alone_s.append(prepared.seconds[1])
    assert alone_s[0] == pytest.approx(alone_s[1], rel=1e-6)
