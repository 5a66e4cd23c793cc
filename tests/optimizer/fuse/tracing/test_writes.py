"""Functions that write: into arguments, views, results, and what others hold meanwhile."""

import collections
import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing.decorator import FuseError

from tensolog import fuse
from tests.optimizer.fuse.compare import compare

pytestmark = pytest.mark.usefixtures("node_by_node")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4))
Y = RNG.normal(size=(6, 4))
v = RNG.normal(size=4)


def writes_an_argument(X: Any, Y: Any) -> Any:
    before = X * Y
    X += Y
    X[0] = 7.0
    return before, X, X.sum()


def writes_a_view_of_an_argument(X: Any, Y: Any) -> Any:
    before = (X * Y).sum()
    column = X[:, 1]
    column *= 3.0
    row = X.T[2]
    row[...] = Y[:, 0]
    return before, X * 1, column


def writes_what_it_computed(X: Any, Y: Any) -> Any:
    Z = X + Y
    view = Z[1:3]
    same = Z
    old = Z * 1
    Z += 1
    view -= 5
    same[0, 0] = 9
    np.exp(Z, out=Z)
    return Z, view, same, old


def writes_before_it_views(X: Any, Y: Any) -> Any:
    Z = X + Y
    Z *= 2
    T = Z.T
    Z += 1
    return T, Z.reshape(-1), T[0]


def writes_a_flat_view(X: Any, Y: Any) -> Any:
    Z = X - Y
    flat = Z.reshape(-1)
    flat[::3] = 0
    Z.ravel()[1] = 5
    Z.T.reshape(-1)[2] = 100
    return Z, flat


def writes_into_foreign_arrays(X: Any, Y: Any) -> Any:
    total = np.zeros(4)
    kept = X @ total
    total += X[0]
    total[1] = 3.0
    again = X @ total
    np.add(X[1], Y[1], out=total)
    return kept, again, total, X @ total


def writes_through_asarray(X: Any, Y: Any) -> Any:
    Z = X * 2
    real = np.asarray(Z)
    later = Z + 1
    real[0] = 0
    return later, Z + 1, real


def writes_by_functions(X: Any, Y: Any) -> Any:
    Z = X.copy()
    waits = Z * Y
    np.copyto(Z, Y)
    Z.sort(axis=0)
    np.fill_diagonal(Z, 0)
    Z.fill(3.0) if Z[0, 0] > 100 else None
    np.put(Z, [1], 8)
    Z.put([2], 4)
    return waits, Z


def writes_an_argument_by_functions(X: Any, Y: Any) -> Any:
    first = X * Y
    np.copyto(X, Y)
    second = X + 0.5
    np.add.at(X, ([0, 0], [1, 1]), 2.0)
    third = X * 3
    np.putmask(Y, Y > 0, 0.0)
    np.nan_to_num(X.T, copy=False)
    return first, second, third, X * Y


def writes_what_an_inner_function_reads(X: Any, Y: Any) -> Any:
    Z = X * 2

    def later() -> Any:
        return X.sum() + Z

    kept = X * Y
    X = X + 1
    Y += 1
    return later(), kept


def writes_a_view_of_what_is_gone(X: Any, Y: Any) -> Any:
    row = (X + Y)[1]
    part = (X * Y).T[:2]
    X[1] = 0
    row += 1
    part[0] *= 2
    return row, part, float(row.sum())


def writes_parts(X: Any, Y: Any) -> Any:
    Z = np.zeros_like(X)
    first, second = np.split(Z, 2)
    first[...] = X[:3]
    second += 1
    Z[Z > 0.5] = -1
    Z[[0, 1], :] *= 2
    return Z, first


def swaps(X: Any, Y: Any) -> Any:
    X, Y = X + 0, Y + 0
    X[:2], Y[:2] = Y[:2] * 1, X[:2] * 1
    X[1:] = X[:-1]
    return X, Y


def accumulates(X: Any, Y: Any) -> Any:
    total = np.zeros(4)
    steps = []
    for row in X:
        total += row * Y[0]
        steps.append(total.copy())
    return total, steps


FUNCTIONS = [value for name, value in globals().items() if name.startswith(("writes", "swaps"))]


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, accumulates], ids=lambda function: function.__name__
)
def test_writes_as_numpy_does(function: Any) -> None:
    compare(function, fuse(function), [X, Y])


@pytest.mark.parametrize("function", [writes_an_argument, writes_a_view_of_an_argument])
def test_arguments_that_overlap(function: Any) -> None:
    def over(Z: Any) -> Any:
        return function(Z[:4], Z[2:6])

    def fused_over(Z: Any) -> Any:
        return fuse(function)(Z[:4], Z[2:6])

    compare(over, fused_over, [X])


def test_an_argument_given_twice_is_one_array() -> None:
    def function(a: Any, b: Any) -> Any:
        a += 1
        return b * 1, a is b

    first, other = X.copy(), X.copy()
    result, same = fuse(function)(first, first)
    np.testing.assert_array_equal(result, function(other, other)[0])
    assert same


def test_a_view_of_the_result_is_a_view() -> None:
    def function(X: Any) -> Any:
        Z = X + 1
        return Z, Z[0], Z.T

    Z, row, turned = fuse(function)(X)
    row[0] = 99
    assert Z[0, 0] == turned[0, 0] == 99
    assert np.shares_memory(Z, turned)


def test_a_view_of_an_argument_is_a_view() -> None:
    argument = X.copy()
    view = fuse(lambda X: X[1:])(argument)
    assert view.base is argument or np.shares_memory(view, argument)


def test_results_share_nothing_otherwise() -> None:
    argument = X.copy()
    a, b, c = fuse(lambda X: (X + 1, X + 1, X.copy()))(argument)
    a[...] = 0
    assert b[0, 0] == argument[0, 0] + 1
    assert not np.shares_memory(c, argument)


def test_an_argument_returned_is_itself() -> None:
    argument = X.copy()
    assert fuse(lambda X: X)(argument) is argument


def test_a_read_only_argument_is_not_written() -> None:
    argument = X.copy()
    argument.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        fuse(writes_an_argument)(argument, Y)


def test_what_is_kept_outside_has_the_values_of_its_time() -> None:
    kept: list[Any] = []

    @fuse
    def function(X: Any) -> Any:
        kept.append(X * 2)
        return X.sum()

    argument = X.copy()
    function(argument)
    argument[...] = 0
    np.testing.assert_array_equal(np.asarray(kept[0]), X * 2)
    np.testing.assert_array_equal(kept[0] + 1, X * 2 + 1)
    np.testing.assert_array_equal(fuse(lambda Z: Z + 1)(kept[0]), X * 2 + 1)


def test_a_global_array_may_change_meanwhile() -> None:
    shared = np.ones(4)
    large = np.ones((1000, 200))

    @fuse
    def function(X: Any, row: Any) -> Any:
        first = X * shared
        second = row * large
        shared[...] = 5.0
        large[...] = 7.0
        return first, X * shared, second.sum(), (row * large).sum()

    first, later, second, last = function(X, np.ones(200))
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(later, X * 5)
    assert (second, last) == (2e5, 1.4e6)


def test_after_an_exception_nothing_is_lost() -> None:
    kept: list[Any] = []

    @fuse
    def function(X: Any) -> Any:
        kept.append(X + 1)
        raise KeyError("no")

    with pytest.raises(KeyError):
        function(X)
    np.testing.assert_array_equal(np.asarray(kept[0]), X + 1)


def test_threads_share_a_fused_function() -> None:
    @fuse
    def function(X: Any, step: float) -> Any:
        for _ in range(3):
            X = X - step * np.tanh(X)
        return X.sum()

    expected = [function(X, i / 10) for i in range(20)]
    results: dict[int, Any] = {}

    def call(i: int) -> None:
        results[i] = function(X, i / 10)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[i] for i in range(20)] == expected


def test_methods_static_methods_and_nesting() -> None:
    inner = fuse(lambda X: X * 2)

    class Model:
        scale = 3.0

        @fuse
        def predict(self, X: Any) -> Any:
            return inner(X) * self.scale

        @staticmethod
        @fuse
        def twice(X: Any) -> Any:
            return X + X

    np.testing.assert_array_equal(Model().predict(X), X * 6)
    np.testing.assert_array_equal(Model.twice(X), X * 2)


@pytest.mark.parametrize("wrong", [3, print, np.add])
def test_only_functions_are_fused(wrong: Any) -> None:
    with pytest.raises(FuseError, match="takes a function"):
        fuse(wrong)


def test_generators_are_refused() -> None:
    def function(X: Any) -> Any:
        yield X

    with pytest.raises(FuseError, match="generator"):
        fuse(function)


def test_errors_that_numpy_should_raise_are_raised() -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fuse(lambda X: 1 / (X * 0))(np.ones(3))


@dataclasses.dataclass
class State:
    weights: Any
    history: list[Any]
    more: Any = None


def test_what_holds_arrays_keeps_its_identity() -> None:
    """Objects, lists and dicts that leave, or that were passed, hold real arrays afterwards."""

    @fuse
    def function(X: Any, state: State, log: list[Any], numbers: dict[str, Any]) -> Any:
        state.weights = X.sum(axis=0)
        state.history.append(X.mean())
        log.append([X * 2])
        numbers["norm"] = np.linalg.norm(X)
        objects = np.empty(2, object)
        objects[0] = X.T
        container = collections.defaultdict(list, {"state": state})
        container["deque"] = collections.deque([X - 1])
        return log, container, State(X + 1, [], objects)

    state, log, numbers = State(None, []), [1], {}
    first, container, other = function(X, state, log, numbers)
    assert first is log
    assert container["state"] is state
    assert type(container) is collections.defaultdict
    np.testing.assert_allclose(state.weights, X.sum(axis=0))
    kinds = [
        type(array) for array in (state.weights, log[1][0], container["deque"][0], other.weights)
    ]
    assert kinds == [np.ndarray] * 4
    assert type(state.history[0]) is type(numbers["norm"]) is np.float64
    assert type(other.more[0]) is np.ndarray


def test_attributes_that_a_method_sets_are_arrays() -> None:
    class Model:
        def __init__(self) -> None:
            self.weights = np.zeros(4)

        @fuse
        def step(self, X: Any) -> None:
            self.weights = self.weights + X.sum(axis=0)

    model = Model()
    model.step(X)
    model.step(X)
    assert type(model.weights) is np.ndarray
    np.testing.assert_allclose(model.weights, 2 * X.sum(axis=0))
