"""Whatever a caller can get hold of after a call is a real array, wherever the function put it."""

import asyncio
import collections
import functools
import gc
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.fuse.tracing.marker_types import is_lazy

from tensolog import fuse
from tests.campaigns import examples

pytestmark = pytest.mark.usefixtures("node_by_node")

X = np.random.default_rng(0).normal(size=(6, 4))
KEPT: dict[str, Any] = {}
LAST: Any = None


class Slotted:
    __slots__ = ("__hidden", "shown")

    def __init__(self, value: Any) -> None:
        self.shown = value
        self.__hidden = value

    def both(self) -> tuple[Any, Any]:
        return self.shown, self.__hidden


class Narrow(Slotted):
    __slots__ = ("more",)


class Plain:
    cached: Any = None


class KeptError(Exception):
    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text, value)
        self.value = value


def calls_back(value: Any) -> Callable[[], Any]:
    def back(extra: Any = value) -> tuple[Any, Any]:
        return value, extra

    return back


def narrow(value: Any) -> Narrow:
    narrow_array = Narrow(value)
    narrow_array.more = value
    return narrow_array


def deep(value: Any) -> Any:
    for depth in range(12):
        value = types.SimpleNamespace(inner=value) if depth % 2 else [value]
    return value


def dug(value: Any) -> Any:
    for depth in reversed(range(12)):
        value = value.inner if depth % 2 else value[0]
    return value


# How a value is put into something, and how it is found there.
HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (lambda v: [v], lambda h: h[0]),
    "tuple": (lambda v: (1, (v,)), lambda h: h[1][0]),
    "dict": (lambda v: {"a": {"b": v}}, lambda h: h["a"]["b"]),
    "deque": (lambda v: collections.deque([v]), lambda h: h[0]),
    "namespace": (lambda v: types.SimpleNamespace(a=v), lambda h: h.a),
    "slots": (Slotted, lambda h: h.both()[1]),
    "slots of several classes": (narrow, lambda h: h.shown),
    "closure": (calls_back, lambda h: h()[0]),
    "default": (calls_back, lambda h: h()[1]),
    "partial": (lambda v: functools.partial(Slotted, v), lambda h: h.args[0]),
    "partial by name": (lambda v: functools.partial(Slotted, value=v), lambda h: h().shown),
    "generator": (lambda v: (item for item in [v] * 2), next),
    "variable of a generator": (lambda v: (v for _ in range(2)), next),
    "map": (lambda v: map(np.negative, [v]), lambda h: -next(h)),
    "method": (lambda v: Slotted(v).both, lambda h: h()[0]),
    "object": (lambda v: [Slotted([v])], lambda h: h[0].shown[0]),
    "deep": (deep, dug),
    "exception": (lambda v: KeptError("no", v), lambda h: h.args[1]),
    "exception's attribute": (lambda v: KeptError("no", v), lambda h: h.value),
    "array of objects": (lambda v: np.array([v, None, 1], object), lambda h: h[0]),
    "user dict": (lambda v: collections.UserDict(a=v), lambda h: h["a"]),
    "ordered": (lambda v: collections.OrderedDict(a=v), lambda h: h["a"]),
    "chain": (lambda v: collections.ChainMap({}, {"a": v}), lambda h: h["a"]),
}


def keep_in_a_global_dict(array: Any) -> None:
    KEPT["held"] = array


def keep_in_a_global_name(array: Any) -> None:
    global LAST
    LAST = array


def keep_in_a_class(array: Any) -> None:
    Plain.cached = array


def put_in(where: str, array: Any, collection: list[Any]) -> None:
    if where == "argument":
        collection.append(array)
    elif where == "dict":
        keep_in_a_global_dict(array)
    elif where == "name":
        keep_in_a_global_name(array)
    elif where == "class":
        keep_in_a_class(array)
    else:
        raise KeptError("an end", array)


PLACES = ["returned", "argument", "dict", "name", "class", "exception"]


def escaped(where: str, function: Callable[[], Any], collection: list[Any]) -> Any:
    if where == "exception":
        with pytest.raises(KeptError) as caught:
            function()
        return caught.value.value
    returned = function()
    by_place = {
        "returned": returned,
        "argument": collection and collection[-1],
        "dict": KEPT.get("held"),
        "name": LAST,
        "class": Plain.cached,
    }
    return by_place[where]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_kept_is_an_array(how: str, where: str) -> None:
    hold, find = HOLDERS[how]

    def function(x: Any, collection: list[Any]) -> Any:
        y = x * 2
        holder = hold(y)
        if where != "returned":
            put_in(where, holder, collection)
            return None
        return holder

    collection: list[Any] = []
    kept = find(escaped(where, functools.partial(fuse(function), X, collection), collection))
    if how in ("map",):
        kept = np.asarray(kept)
    assert type(kept) is np.ndarray
    np.testing.assert_array_equal(kept, X * 2)
    assert memoryview(kept).shape == X.shape
    kept[0, 0] = 5.0
    KEPT.clear()
    keep_in_a_global_name(None)
    Plain.cached = None


def test_an_array_is_one_wherever_it_is_kept() -> None:
    def function(x: Any, collection: list[Any]) -> Any:
        y = x * 2
        KEPT["one"], KEPT["view"] = y, y.T
        collection.append(y)
        return y, [y]

    kept: list[Any] = []
    y, (other,) = fuse(function)(X, kept)
    assert y is other is kept[0] is KEPT["one"]
    assert np.shares_memory(y, KEPT["view"])
    y[0, 1] = 7.0
    assert KEPT["view"][1, 0] == 7.0
    KEPT.clear()


def test_numbers_are_numbers_of_numpys() -> None:
    def function(x: Any) -> Any:
        KEPT["sum"] = x.sum()
        raise KeptError("no", x.max())

    with pytest.raises(KeptError) as caught:
        fuse(function)(X)
    assert type(KEPT["sum"]) is type(caught.value.value) is np.float64
    assert hash(KEPT.pop("sum")) == hash(X.sum())


def test_an_exception_s_frames_have_arrays() -> None:
    def inner(y: Any) -> Any:
        z = y + 1
        raise KeptError("no", z)

    def function(x: Any) -> Any:
        y = x * 2
        return inner(y)

    with pytest.raises(KeptError) as caught:
        fuse(function)(X)
    step, seen = caught.value.__traceback__, {}
    while step is not None:
        if step.tb_frame.f_code in (inner.__code__, function.__code__):
            seen |= step.tb_frame.f_locals
        step = step.tb_next
    assert {name: type(value) for name, value in seen.items() if name in "xyz"} == dict.fromkeys(
        "xyz", np.ndarray
    )


def test_exceptions_that_others_caused() -> None:
    def function(x: Any) -> Any:
        try:
            raise KeptError("first", x + 1)
        except KeptError as first:
            raise KeyError(x * 2) from first

    with pytest.raises(KeyError) as caught:
        fuse(function)(X)
    cause: Any = caught.value.__cause__
    assert type(caught.value.args[0]) is type(cause.value) is type(cause.args[1]) is np.ndarray
    assert caught.value.__context__ is cause


def test_a_variable_of_the_function_around_it() -> None:
    best: Any = None

    @fuse
    def function(x: Any) -> None:
        nonlocal best
        best = x @ x.T

    function(X)
    assert type(best) is np.ndarray
    np.testing.assert_allclose(best, X @ X.T)


def test_a_coroutine_that_goes_on_later() -> None:
    async def later(y: Any) -> Any:
        await asyncio.sleep(0)
        return y

    result = asyncio.run(fuse(lambda x: later(x * 2))(X))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, X * 2)


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.sampled_from(sorted(HOLDERS)), min_size=1, max_size=3))
def test_what_holds_what_holds_it(hows: list[str]) -> None:
    def function(x: Any) -> Any:
        holder = x * 2
        for how in hows:
            holder = HOLDERS[how][0](holder)
        KEPT["held"] = holder

    if {"map", "generator"} & set(hows[1:]):
        return  # they compute with what they hold
    fuse(function)(X)
    kept = KEPT.pop("held")
    for how in reversed(hows):
        kept = HOLDERS[how][1](kept)
    assert isinstance(kept, np.ndarray)
    np.testing.assert_array_equal(kept, X * 2)


def test_nothing_that_stands_for_an_array_is_left() -> None:
    def function(x: Any, collection: list[Any]) -> Any:
        kept = [x * i for i in range(5)]
        collection.append({"kept": kept, "views": [array[1:] for array in kept]})
        KEPT["calls"] = [calls_back(array) for array in kept]
        return (array.sum() for array in kept)

    collection: list[Any] = []
    fused = fuse(function)
    sums = fused(X, collection)
    gc.collect()
    assert not any(
        is_lazy(object_) for object_ in gc.get_objects() if type(object_).__name__ == "LazyArray"
    )
    np.testing.assert_allclose(list(sums), [X.sum() * i for i in range(5)])
    KEPT.clear()
