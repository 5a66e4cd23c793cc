"""An autoencoder with one hidden layer, trained on batches by gradient descent with momentum.

    python examples/autoencoder.py

Hinton and Salakhutdinov, "Reducing the Dimensionality of Data with Neural Networks", Science 313
(2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensolog


def generate(rows: int = 4_096, columns: int = 64, rank: int = 8, seed: int = 0) -> Any:
    """Return values between 0 and 1 that a few numbers a row describe."""
    rng = np.random.default_rng(seed)
    return sigmoid(rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns)))


def start(columns: int = 64, hidden: int = 16, seed: int = 1) -> tuple[Any, Any, Any, Any]:
    """Return weights and biases to start from."""
    rng = np.random.default_rng(seed)
    W1 = rng.normal(size=(columns, hidden)) / np.sqrt(columns)
    W2 = rng.normal(size=(hidden, columns)) / np.sqrt(hidden)
    return W1, np.zeros(hidden), W2, np.zeros(columns)


def sigmoid(A: Any) -> Any:
    """Return 1 / (1 + exp(-A))."""
    return 1 / (1 + np.exp(-A))


@tensolog.fuse
def gradients(X: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    """Return the mean squared error of a batch, and its gradients."""
    H = sigmoid(X @ W1 + b1)
    Y = sigmoid(H @ W2 + b2)
    E = Y - X
    dY = 2 / X.shape[0] * E * Y * (1 - Y)
    dH = (dY @ W2.T) * H * (1 - H)
    loss = np.sum(E * E) / X.shape[0]
    return loss, X.T @ dH, dH.sum(axis=0), H.T @ dY, dY.sum(axis=0)


@tensolog.fuse
def moved(weight: Any, speed: Any, slope: Any, rate: float, momentum: float) -> Any:
    """Return a weight and its speed after a step."""
    speed = momentum * speed - rate * slope
    return weight + speed, speed


def train(X: Any, epochs: int = 30, batch: int = 256, rate: float = 0.5) -> tuple[Any, list[float]]:
    """Return the weights, and the mean loss of each epoch."""
    weights = start(X.shape[1])
    speeds = tuple(np.zeros_like(weight) for weight in weights)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for first in range(0, len(X), batch):
            loss, *slopes = gradients(X[first : first + batch], *weights)
            total += float(loss)
            steps = [
                moved(weight, speed, slope, rate, 0.9)
                for weight, speed, slope in zip(weights, speeds, slopes, strict=True)
            ]
            weights = tuple(weight for weight, _ in steps)
            speeds = tuple(speed for _, speed in steps)
        losses.append(total * batch / len(X))
    return weights, losses


if __name__ == "__main__":
    _, losses = train(generate())
    print("loss by epoch:", *(f"{loss:.3f}" for loss in losses[::5]))
    print(gradients.explain())
