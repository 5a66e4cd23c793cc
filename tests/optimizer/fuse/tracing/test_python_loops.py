"""Loops of Python's over elements, rows and numbers: a call traces so many operators, no more."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing import prepare, region_engine, trace

from tensolog import fuse

x = np.random.default_rng(0).normal(size=3000)


@pytest.fixture(autouse=True)
def small_arrays_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 30e-6)


def adds_up_by_index(x: Any) -> Any:
    total = 0.0
    for place in range(len(x)):
        total += x[place]
    return total


def writes_elements(x: Any) -> Any:
    y = np.empty_like(x)
    for place in range(len(x)):
        y[place] = x[place] * 2 + 1
    return y


def writes_what_it_reads(x: Any) -> Any:
    y = x * 1
    for place in range(1, len(y)):
        y[place] = y[place] + 0.5 * y[place - 1]
    return y


def grows(x: Any) -> Any:
    total = x[:1] * 0
    for end in range(1, 400):
        total = total + (x[:end] * x[:end]).sum()
    return total


def eliminates(x: Any) -> Any:
    A = x[:900].reshape(30, 30)
    b = A.copy()
    for row in range(30):
        for above in range(row):
            b[row] -= b[above] * A[row, above]
    return b


def halves(x: Any) -> Any:
    def total(part: Any, depth: int) -> Any:
        if not depth:
            return part.sum()
        return total(part[::2], depth - 1) + total(part[1::2], depth - 1)

    return total(x, 10)


def walks(x: Any) -> Any:
    place, total = 0, 0.0
    while total < 900 and place < len(x):
        total += abs(x[place])
        place += 1
    return place, total


def keeps_views(x: Any) -> Any:
    views = [x[start : start + 3] for start in range(len(x) - 3)]
    views[5][1] = 9
    return views


def goes_on_after_the_limit(x: Any) -> Any:
    y, views, holder = x * 2, [x[1:]], {"x": x}
    total = 0.0
    for place in range(2000):
        total = total + float(x[place])
    y += total
    views[0][3] = 7.0
    np.multiply(y, 2.0, out=y)
    y[::2] = holder["x"][::2]
    return y, views[0] + 1, y.reshape(-1, 2).T.copy(), y.astype("f4"), y.real is y


def many_iterations(x: Any) -> Any:
    total = x * 0
    for step in range(3000):
        total = total + x * step
    return total


LOOPS: list[Callable[[Any], Any]] = [
    lambda x: sum(x.ravel()),
    lambda x: sum((row * 2).sum() for row in x.reshape(300, -1)),
    lambda x: [row.max() for row in x.reshape(300, -1) * 2],
    lambda x: functools.reduce(lambda first, other: first + other, [v * 2 for v in x]),
    lambda x: list(map(functools.partial(np.multiply, 3.0), x)),
    lambda x: [np.dot(x[start : start + 4], x[start : start + 4]) for start in range(len(x) - 4)],
    lambda x: [(x[start : start + 2]).sum() for start in range(0, len(x), 2)],
    lambda x: (max(itertools.accumulate(x)), sorted(x), any(v > 3 for v in x)),
    lambda x: [list(row) for row in x.reshape(-1, 3)],
    lambda x: {number: x * number for number in range(1500)},
    lambda x: np.array([[a * b for a in x[:60]] for b in x[:60]]),
    lambda x: list(x.reshape(-1, 2)),
    *(adds_up_by_index, writes_elements, writes_what_it_reads, grows, eliminates, halves, walks),
    *(keeps_views, goes_on_after_the_limit, many_iterations),
]


def same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(result) == len(expected)
        for first, other in zip(result, expected, strict=True):
            same(first, other)
    elif isinstance(expected, dict):
        same(list(result.items()), list(expected.items()))
    else:
        np.testing.assert_allclose(result, expected, rtol=1e-9)


@pytest.mark.parametrize("number", range(len(LOOPS)))
def test_a_loop_traces_so_much_and_no_more(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[None] = []
    planned: list[prepare.Program] = []
    step, prepared = trace.Trace.step, prepare.prepare

    def counted_step(self: trace.Trace) -> None:
        steps.append(None)
        step(self)

    def counted(program: prepare.Program, options: prepare.Options) -> prepare.Prepared:
        planned.append(program)
        return prepared(program, options)

    monkeypatch.setattr(trace.Trace, "step", counted_step)
    monkeypatch.setattr(region_engine, "prepare", counted)
    fused = fuse(LOOPS[number])
    expected = LOOPS[number](x.copy())
    same(fused(x.copy()), expected)
    assert len(steps) < 4000
    assert len(planned) <= 16
    assert max((len(region.nodes) for region in planned), default=0) < 4 * trace.OPERATORS
    known = len(steps)
    for _ in range(2):
        same(fused(x.copy()), expected)
    assert len(steps) == known, "a later call was traced"
    assert "Later calls like this one" in fused.explain()


def test_explain_says_why_tracing_stopped() -> None:
    fused = fuse(adds_up_by_index)
    fused(x)
    assert "Tracing stopped in the call: more than 8 different regions" in fused.explain()
    fused = fuse(many_iterations)
    fused(x)
    assert "Tracing stopped in the call: NumPy alone was done sooner" in fused.explain()


def test_a_method_that_stopped_is_known_by_its_instance() -> None:
    seen = []

    class Model:
        def total(self, values: list[Any], x: Any) -> Any:
            seen.append(type(x) is np.ndarray)
            return adds_up_by_index(x) + len(values)

    model = Model()
    fused = fuse(model.total)
    for _ in range(3):
        assert fused([x, None], x) == pytest.approx(x.sum() + 2)
    assert seen == [False, True, True]


def test_loops_that_gain_are_traced_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "TRACING_S", 1e-9)  # as over arrays for which it is nothing
    fused = fuse(many_iterations)
    same(fused(x), many_iterations(x))
    assert "Tracing stopped" not in fused.explain()


def test_what_an_exception_meets_after_the_limit_is_real() -> None:
    def function(x: Any) -> Any:
        y = x * 3
        total = adds_up_by_index(x)
        raise ValueError(y, total)

    with pytest.raises(ValueError) as caught:
        fuse(function)(x)
    assert type(caught.value.args[0]) is np.ndarray
    np.testing.assert_array_equal(caught.value.args[0], x * 3)
