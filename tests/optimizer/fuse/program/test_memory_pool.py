"""Memory that is lent for results: never to two arrays at once, to the next one when they go."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.fuse.program import memory_pool

import tensolog

LEAST, LARGEST, KEPT = memory_pool._LEAST, memory_pool._LARGEST, memory_pool._KEPT


@pytest.fixture(autouse=True)
def nothing_spare() -> None:
    gc.collect()
    memory_pool._spare.clear()


def spare() -> dict[int, int]:
    return {size: len(kept) for size, kept in memory_pool._spare.items() if kept}


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_of_an_array_that_is_gone_serves_the_next_of_its_size() -> None:
    first = memory_pool.empty((LEAST // 8, 1), "float64")
    place = address(first)
    del first
    assert spare() == {LEAST: 1}
    second = memory_pool.empty((2, LEAST // 8), "float32")
    assert address(second) == place
    assert spare() == {}


@pytest.mark.parametrize("view", [lambda a: a[3:], lambda a: a.T, lambda a: a.base, memoryview])
def test_whoever_has_a_view_keeps_the_memory(view) -> None:
    array = memory_pool.empty((LEAST // 8, 4), "float64")
    kept = view(array)
    del array
    assert spare() == {}
    del kept
    assert spare() == {4 * LEAST: 1}


def test_a_view_of_a_lease_gives_nothing_back() -> None:
    array = memory_pool.empty((LEAST,), "uint8")
    view = array.base[5:]
    del view
    assert spare() == {}


@pytest.mark.parametrize("size", [LEAST - 1, LARGEST + 1, 0])
def test_what_is_small_or_large_owns_its_memory(size: int) -> None:
    assert memory_pool.empty((size,), "uint8").flags.owndata
    assert spare() == {}


def test_no_more_is_kept_than_said() -> None:
    arrays = [memory_pool.empty((LARGEST - i,), "uint8") for i in range(5)]
    while arrays:
        arrays.pop()
        assert sum(size * count for size, count in spare().items()) <= KEPT


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_two_arrays_never_share_memory(steps: list[tuple[bool, int, int]]) -> None:
    live: list[tuple[int, np.ndarray]] = []
    for number, (drops, size, which) in enumerate(steps):
        if drops and live:
            live.pop(which % len(live))
        else:
            new_array = memory_pool.empty((LEAST + size,), "uint8")
            new_array[:] = number
            live.append((number, new_array[1:]))
        assert all((array == number).all() for number, array in live)


def test_threads_never_share_memory() -> None:
    wrong = []

    def work(number: int) -> None:
        for _ in range(200):
            new_array = memory_pool.empty((LEAST,), "uint8")
            new_array[:] = number
            if not (new_array == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_a_loop_are_numpys_while_memory_is_used_again() -> None:
    def walk(X, y):
        kept = []
        for step in range(4):
            mean = np.exp(X @ y * 0.01)
            y = y + X.T @ (mean - step)
            y = y / float(np.abs(y).max())
            kept.append(mean)
        return kept, y

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(LEAST // 4, 3)), rng.normal(size=3)
    means, last = tensolog.fuse(walk)(X, y)
    expected, expected_last = walk(X, y)
    np.testing.assert_allclose(last, expected_last, rtol=1e-9)
    for mean, wanted in zip(means, expected, strict=True):
        np.testing.assert_allclose(mean, wanted, rtol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_results_lie_as_numpys_do(order: str) -> None:
    X = np.asarray(np.random.default_rng(1).normal(size=(LEAST // 16, 4)), order=order)
    out = tensolog.fuse(lambda X: np.sqrt(np.abs(X)))(X)
    expected = np.sqrt(np.abs(X))
    np.testing.assert_allclose(out, expected)
    assert out.flags.c_contiguous == expected.flags.c_contiguous
