"""What is remembered of a call must not show in the next: values, numbers, types, ways change."""

from typing import Any

import numpy as np
import pytest

from tensolog import fuse

pytestmark = pytest.mark.usefixtures("node_by_node")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4))
Y = RNG.normal(size=(6, 4))
v = RNG.normal(size=4)


def same(function: Any, *calls: tuple[Any, ...]) -> Any:
    """Call a function fused and plain with all of the arguments, twice; return it fused."""
    fused = fuse(function)
    for arguments in (*calls, *calls):
        with np.errstate(all="ignore"):
            expected, result = function(*arguments), fused(*arguments)
        for is_, should in zip(np.atleast_1d(result), np.atleast_1d(expected), strict=True):
            np.testing.assert_allclose(is_, should, rtol=1e-12)
        assert type(result) is type(expected)
        assert np.asarray(result).dtype == np.asarray(expected).dtype
    return fused


def test_numbers_that_change() -> None:
    numbers = [0.5, 0.25, 0.5, 1e-300, np.inf, 0.0, -0.0, 2.0, 2]
    same(lambda x, rate: 1 / (x * rate) + rate, *[(X, number) for number in numbers])


def test_equal_numbers_of_several_types() -> None:
    numbers = [1, 1.0, True, np.float32(1), np.float64(1), np.int8(1), np.bool_(True)]
    halves = X.astype(np.float32)
    whole = np.arange(6)
    for array in (X, halves, whole):
        same(lambda x, factor: x * factor + factor, *[(array, number) for number in numbers])


def test_numbers_that_are_equal_in_one_call() -> None:
    same(lambda x, a, b: x * a - x * b, (X, 2.0, 3.0), (X, 2.5, 2.5), (X, 3.0, 2.0))


def test_whole_numbers_that_count() -> None:
    def powers(x: Any) -> Any:
        total = x * 0
        for count in range(1, 80):
            total = total + x**count / count
        return total

    same(powers, (X / 4,), (Y / 4,))


def test_whole_numbers_that_a_type_lacks() -> None:
    small = np.arange(6, dtype=np.uint8)
    fused = fuse(lambda x, n: x + n)
    assert np.array_equal(fused(small, 1), small + 1)
    for _ in range(2):
        with pytest.raises(OverflowError):
            fused(small, 300)
        with pytest.raises(OverflowError):
            fused(small, -1)
    assert np.array_equal(fused(small, 1), small + 1)


def test_axes_that_only_equal_others() -> None:
    fused = fuse(lambda x, axis: x.sum(axis=axis))
    for axis in (1, 0, -1, (0, 1), None, 1):
        np.testing.assert_allclose(fused(X, axis), X.sum(axis=axis))
    with pytest.raises(TypeError):
        X.sum(axis=1.0)
    with pytest.raises(TypeError):
        fused(X, 1.0)


def test_zeros_of_both_signs() -> None:
    fused = fuse(lambda x, zero: np.where(x > 0, zero, x))
    for zero in (0.0, -0.0, 0.0):
        assert np.array_equal(np.signbit(fused(X, zero)), np.signbit(np.where(X > 0, zero, X)))
    fused = fuse(lambda x, zero: x * zero)
    for zero in (0.0, -0.0, 0.0):
        assert np.array_equal(np.signbit(fused(X, zero)), np.signbit(X * zero))


def test_arguments_that_are_one_array() -> None:
    same(lambda x, y: ((x - y) * x).sum(), (X, Y), (X, X), (Y, X), (Y, Y))


def test_branches_taken_otherwise_in_later_calls() -> None:
    def way(x: Any, y: Any, turn: bool) -> Any:
        z = x * y
        z = z + x if turn else z - y
        return z.sum(axis=0)

    fused = same(way, (X, Y, True), (X, Y, False))
    assert len(list(fused._engine.prepared_regions())) == 2


def test_a_way_that_is_known_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensolog.optimizer.fuse.tracing import region_engine

    def step(x: Any, w: Any, rate: float) -> Any:
        error = np.maximum(1 - x @ w, 0.0)
        return w - rate * (x.T @ error)[:, None][:, 0], np.sum(error, axis=0)

    fused = fuse(step)
    for rate in (0.1, 0.2):
        fused(X, v, rate)
    monkeypatch.setattr(region_engine, "region", None)
    for rate in (0.3, 0.4):
        results, expected = fused(X, v, rate), step(X, v, rate)
        for is_, should in zip(results, expected, strict=True):
            np.testing.assert_allclose(is_, should)


def test_what_nobody_reads_may_be_read_after_all() -> None:
    def keeps(x: Any, y: Any) -> Any:
        z = x * y

        def later() -> Any:
            return z + 1

        first = float((z * 2).sum())
        return later() * first

    same(keeps, (X, Y), (Y, X))


def test_values_are_freed_when_a_region_is_over() -> None:
    import gc
    import weakref

    def steps(x: Any) -> Any:
        first = x * 2
        second = float(first.sum())
        kept = weakref.ref(first)
        del first
        gc.collect()
        assert kept() is None
        return x * second

    same(steps, (X,), (Y,))


def test_more_kinds_of_values_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensolog.optimizer.fuse.tracing import expressions, region_engine

    monkeypatch.setattr(expressions, "_KINDS", 4)
    monkeypatch.setattr(region_engine, "_WAYS", 2)
    arguments = [(np.ones(size), np.arange(float(size))) for size in range(2, 12)]
    same(lambda x, y: (x * y).sum() + 1, *arguments)
