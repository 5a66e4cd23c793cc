"""The algorithms in examples/ converge to what a direct solution, or another method, finds."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import optimize

EXAMPLES = Path(__file__).parents[4] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def minimum(loss: Any, slope: Any, start: Any) -> Any:
    """Return where a convex function is least, by a method of SciPy's."""
    optimum = optimize.minimize(loss, start, jac=slope, method="BFGS", options={"gtol": 1e-7})
    return optimum.x


def test_l2svm() -> None:
    module = example("l2svm")
    X, y = module.generate(400, 5)

    def loss(w: Any) -> Any:
        out = np.maximum(1 - y * (X @ w), 0)
        return 0.5 * out @ out + 0.5 * w @ w

    def slope(w: Any) -> Any:
        return w - X.T @ (y * np.maximum(1 - y * (X @ w), 0))

    w = module.l2svm(X, y, tolerance=1e-14)
    np.testing.assert_allclose(w, minimum(loss, slope, np.zeros(5)), atol=1e-5)


def test_mlogreg() -> None:
    module = example("mlogreg")
    X, Y = module.generate(300, 4, 3)

    def loss(b: Any) -> Any:
        B = b.reshape(4, 3)
        return -np.sum(Y * module.log_softmax(X @ B)) + 0.5 * np.sum(B * B)

    def slope(b: Any) -> Any:
        B = b.reshape(4, 3)
        return (X.T @ (np.exp(module.log_softmax(X @ B)) - Y) + B).reshape(-1)

    B = module.mlogreg(X, Y)
    np.testing.assert_allclose(B.reshape(-1), minimum(loss, slope, np.zeros(12)), atol=1e-5)


def test_glm() -> None:
    module = example("glm")
    X, y = module.generate(400, 5)

    def loss(w: Any) -> Any:
        return np.sum(np.exp(X @ w) - y * (X @ w)) + 0.5e-3 * w @ w

    def slope(w: Any) -> Any:
        return X.T @ (np.exp(X @ w) - y) + 1e-3 * w

    w = module.poisson(X, y)
    np.testing.assert_allclose(w, minimum(loss, slope, np.zeros(5)), atol=1e-5)


def test_kmeans() -> None:
    """Against Lloyd's algorithm written with indices, from the same start."""
    module = example("kmeans")
    X, start = module.generate(600, 4, 3)
    centers, distance = module.kmeans(X, start)
    C = start
    for _ in range(100):
        nearest = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
        new = np.stack([X[nearest == cluster].mean(axis=0) for cluster in range(3)])
        if np.array_equal(new, C):
            break
        C = new
    np.testing.assert_allclose(centers, C, rtol=1e-9)
    assert distance == pytest.approx(((X - C[nearest]) ** 2).sum(), rel=1e-9)


def test_als() -> None:
    """Each row of U solves a small ridge regression over the entries of its row of X."""
    module = example("als_cg")
    X = module.generate(60, 50, 3, 0.2)
    U, V, losses = module.als(X, 3, 4)
    assert losses == sorted(losses, reverse=True)
    W = X.copy()
    W.data[:] = 1
    solved = module.factor(X, W, U, V, steps=200)
    for row in range(60):
        columns = X.indices[X.indptr[row] : X.indptr[row + 1]]
        values = X.data[X.indptr[row] : X.indptr[row + 1]]
        direct = np.linalg.solve(V[columns].T @ V[columns] + 0.1 * np.eye(3), V[columns].T @ values)
        np.testing.assert_allclose(solved[row], direct, atol=1e-6)


def test_autoencoder() -> None:
    module = example("autoencoder")
    X = module.generate(128, 12, 3)
    weights = module.start(12, 4)
    gradients = module.gradients(X, *weights)
    expected = module.gradients._function(X, *weights)
    for first, other in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-8, atol=1e-12)
    # The slope along a direction is the loss's difference quotient.
    rng = np.random.default_rng(0)
    way = [rng.normal(size=weight.shape) for weight in weights]
    slope = sum(np.sum(a * b) for a, b in zip(gradients[1:], way, strict=True))
    ahead, behind = (
        module.gradients(X, *(w + sign * 1e-5 * d for w, d in zip(weights, way, strict=True)))[0]
        for sign in (1, -1)
    )
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)
    _, losses = module.train(X, epochs=5, batch=32)
    assert losses[-1] < 0.8 * losses[0]
