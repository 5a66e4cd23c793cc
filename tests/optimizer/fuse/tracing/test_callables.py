"""Whatever calls a function in Python is fused as that function is, and binds as it did."""

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing.decorator import FuseError

from tensolog import fuse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 40))
W = RNG.normal(size=(40, 3))


def affine(x: Any, w: Any, bias: float = 0.0, *, scale: float = 1.0) -> Any:
    return np.tanh(x @ w * scale + bias)


class Layer:
    """A layer of a network, in all the ways in which a class may have functions."""

    factor = 3.0

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def __call__(self, x: Any) -> Any:
        return np.tanh(x @ self.weights)

    def scaled(self, x: Any, by: float = 1.0) -> Any:
        return np.tanh(x @ self.weights) * by

    @fuse
    @staticmethod
    def inner_static(x: Any) -> Any:
        return np.exp(x) * x

    @staticmethod
    @fuse
    def outer_static(x: Any) -> Any:
        return np.exp(x) * x

    @fuse
    @classmethod
    def inner_class(cls, x: Any) -> Any:
        return np.exp(x) * cls.factor

    @classmethod
    @fuse
    def outer_class(cls, x: Any) -> Any:
        return np.exp(x) * cls.factor

    partial = fuse(functools.partial(affine, w=W))


class Wide(Layer):
    factor = 5.0


layer = Layer(W)
fused_partial = fuse(functools.partial(affine, w=W))

GIVEN: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (functools.partial(affine, X), (W,), {}),
    (functools.partial(affine, X, W, scale=2.0), (0.5,), {}),
    (functools.partial(affine, X, W, scale=2.0), (), {"scale": 3.0}),
    (functools.partial(functools.partial(affine, X), bias=0.5), (W,), {}),
    (functools.partial(layer.scaled, by=2.0), (X,), {}),
    (functools.partial(layer, X), (), {}),
    (layer, (X,), {}),
    (layer.scaled, (X,), {"by": 0.5}),
    (Wide.__call__, (layer, X), {}),
    (lambda x, w: np.tanh(x @ w), (X, W), {}),
    (functools.wraps(affine)(lambda *args: affine(*args)), (X, W), {}),
    (functools.partial(lambda x, w: np.tanh(x @ w), w=W), (X,), {}),
]


@pytest.mark.parametrize("case", range(len(GIVEN)))
def test_what_calls_a_function_returns_what_it_did(case: int) -> None:
    decorated, args, kwargs = GIVEN[case]
    fused = fuse(decorated)
    for _ in range(3):
        np.testing.assert_allclose(fused(*args, **kwargs), decorated(*args, **kwargs), rtol=1e-12)
    assert fused.plans
    again = fuse(heuristic="all")(fused)
    np.testing.assert_allclose(again(*args, **kwargs), decorated(*args, **kwargs), rtol=1e-12)


def test_a_partial_is_replayed_with_what_it_was_given() -> None:
    fused = fuse(functools.partial(affine, X))
    fused(W)
    assert fused._replays
    np.testing.assert_allclose(fused(W * 2), affine(X, W * 2), rtol=1e-12)


def test_too_few_arguments_are_refused_as_without_it() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'w'"):
        fuse(functools.partial(affine, X))()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        fuse(functools.partial(affine, X))(W, nothing=1)


@pytest.mark.parametrize("owner", [Layer, Wide, Layer(W), Wide(W)])
def test_a_class_binds_them(owner: Any) -> None:
    for name in ("inner_static", "outer_static"):
        np.testing.assert_allclose(getattr(owner, name)(X), np.exp(X) * X, rtol=1e-12)
    for name in ("inner_class", "outer_class"):
        np.testing.assert_allclose(getattr(owner, name)(X), np.exp(X) * owner.factor, rtol=1e-12)
        assert "region" in getattr(owner, name).explain()
    np.testing.assert_allclose(owner.partial(X), affine(X, W), rtol=1e-12)


def test_a_static_method_outside_of_a_class_is_called_as_it_is() -> None:
    np.testing.assert_allclose(fuse(staticmethod(affine))(X, W), affine(X, W), rtol=1e-12)


def test_an_object_keeps_its_attributes() -> None:
    fused = fuse(layer)
    assert fused.weights is layer.weights
    assert not hasattr(fused, "nothing")


def test_fused_callables_are_copied_and_pickled_as_what_they_call() -> None:
    fused = fuse(functools.partial(affine, w=W), mode="fused")
    for other in (pickle.loads(pickle.dumps(fused)), copy.deepcopy(fused)):
        np.testing.assert_allclose(other(X), affine(X, W), rtol=1e-12)
        assert other._mode == "fused"


class Lazily:
    async def __call__(self, x: Any) -> Any:
        return x


def generator(x: Any) -> Any:
    yield x


@pytest.mark.parametrize(
    ("decorated", "reason"),
    [
        (functools.partial(generator, X), "generator"),
        (Lazily(), "coroutine"),
        (functools.partial(np.dot, X), "takes a function"),
        (Layer, "takes a function"),
        (property(affine), "@fuse below @property"),
        (functools.partialmethod(affine, X), "@fuse below @partialmethod"),
    ],
)
def test_what_runs_no_function_of_pythons_is_refused(decorated: Any, reason: str) -> None:
    with pytest.raises(FuseError, match=reason):
        fuse(decorated)
