"""The six algorithms of examples/, whole: as they are fused, under each heuristic, and by NumPy."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .peers import Run

_EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
_SCALE = {"quick": 0.01, "default": 1.0, "full": 5.0}


@dataclass(frozen=True)
class Algorithm:
    """One of the examples: which of its functions are fused, its data by size, and how it is run.

    `run` takes the example's module and the data; what it returns is compared.
    """

    example: str
    fused: tuple[str, ...]
    draw: Callable[[ModuleType, str], tuple[Any, ...]]
    run: Callable[..., Any]

    def data(self, size: str) -> tuple[Any, ...]:
        """Return the data, the same each time; `size` is quick, default or full."""
        return self.draw(_module(self.example), size)

    def contenders(self, data: tuple[Any, ...], threads: int) -> dict[str, Run]:
        """Return the example over the data with its functions plain, or fused anew."""
        import tensolog

        module = _module(self.example)
        plain = {name: getattr(module, name).__wrapped__ for name in self.fused}

        def contender(replaced: Mapping[str, Any]) -> Run:
            def call() -> Any:
                for name, function in replaced.items():
                    setattr(module, name, function)
                try:
                    return self.run(module, *data)
                finally:
                    for name, function in kept.items():
                        setattr(module, name, function)

            return call

        kept = {name: getattr(module, name) for name in self.fused}
        contenders = {"numpy": contender(plain)}
        for heuristic in ("cost", "all", "no_redundancy"):
            again = tensolog.fuse(heuristic=heuristic, threads=threads)  # type: ignore[call-overload]
            contenders[heuristic] = contender({name: again(run) for name, run in plain.items()})
        return contenders


def _module(name: str) -> ModuleType:
    module = sys.modules.get(f"examples_{name}")
    if module is None:
        spec = importlib.util.spec_from_file_location(f"examples_{name}", _EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[f"examples_{name}"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _rows(size: str, rows: int) -> int:
    return max(300, int(rows * _SCALE[size]))


def _tall(example: ModuleType, size: str) -> tuple[Any, ...]:
    operands: tuple[Any, ...] = example.generate(_rows(size, 100_000), 10)
    return operands


def _factors(example: ModuleType, size: str) -> tuple[Any, ...]:
    rank, rows = 20, _rows(size, 1_000)
    rng = np.random.default_rng(1)
    X = example.generate(rows, rows, density=0.01 if size == "full" else 0.1)
    return X, rng.normal(size=(rows, rank)), rng.normal(size=(rows, rank))


def _factorized(on: ModuleType, X: Any, U: Any, V: Any) -> Any:
    """Alternate twice, and return the loss and the products of the factors' rows and columns."""
    W = X.copy()
    W.data[:] = 1.0
    Xt, Wt = X.T.tocsr(), W.T.tocsr()
    for _ in range(2):
        U = on.factor(X, W, U, V)
        V = on.factor(Xt, Wt, V, U)
    return on.loss(X, W, U, V), U @ V.sum(axis=0), V @ U.sum(axis=0)


def _weights(example: ModuleType, size: str) -> tuple[Any, ...]:
    X = example.generate(_rows(size, 8_192), 64)
    W1, _, W2, _ = example.start(X.shape[1])
    return X, W1, W2


def _trained(on: ModuleType, X: Any, W1: Any, W2: Any) -> Any:
    return np.array(on.train(X, epochs=2)[1])


ALGORITHMS: Mapping[str, Algorithm] = {
    "L2SVM": Algorithm("l2svm", ("l2svm",), _tall, lambda on, X, y: on.l2svm(X, y, steps=10)),
    "MLogreg": Algorithm(
        "mlogreg", ("mlogreg",), _tall, lambda on, X, Y: on.mlogreg(X, Y, steps=5)
    ),
    "GLM, Poisson": Algorithm(
        "glm", ("poisson",), _tall, lambda on, X, y: on.poisson(X, y, steps=5)
    ),
    "KMeans": Algorithm("kmeans", ("kmeans",), _tall, lambda on, X, C: on.kmeans(X, C, steps=10)),
    "ALS-CG, sparse": Algorithm("als_cg", ("factor", "loss"), _factors, _factorized),
    "AutoEncoder": Algorithm("autoencoder", ("gradients", "moved"), _weights, _trained),
}
