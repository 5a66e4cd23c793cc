"""The six algorithms of examples/, whole: as they are fused, under each heuristic, and by NumPy."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .peers import Run

_EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
_SCALE = {"quick": 0.01, "default": 1.0, "full": 5.0}


def _example(name: str) -> ModuleType:
    found = sys.modules.get(f"examples_{name}")
    if found is None:
        spec = importlib.util.spec_from_file_location(f"examples_{name}", _EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = sys.modules[f"examples_{name}"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return found


def _rows(size: str, rows: int) -> int:
    return max(300, int(rows * _SCALE[size]))


def _contenders(
    example: ModuleType, threads: int, fused: tuple[str, ...], run: Callable[[ModuleType], Any]
) -> dict[str, Run]:
    """Return an example as it is run with its fused functions made plain, or fused anew."""
    import tensolog

    plain = {name: getattr(example, name).__wrapped__ for name in fused}

    def contender(replaced: Mapping[str, Any]) -> Run:
        def call() -> Any:
            for name, function in replaced.items():
                setattr(example, name, function)
            return run(example)

        return call

    found = {"numpy": contender(plain)}
    for heuristic in ("cost", "all", "no_redundancy"):
        again = tensolog.fuse(heuristic=heuristic, threads=threads)  # type: ignore[call-overload]
        found[heuristic] = contender({name: again(one) for name, one in plain.items()})
    return found


def l2svm(size: str, threads: int) -> dict[str, Run]:
    example = _example("l2svm")
    X, y = example.generate(_rows(size, 100_000), 10)
    return _contenders(example, threads, ("l2svm",), lambda on: on.l2svm(X, y, steps=10))


def mlogreg(size: str, threads: int) -> dict[str, Run]:
    example = _example("mlogreg")
    X, Y = example.generate(_rows(size, 100_000), 10)
    return _contenders(example, threads, ("mlogreg",), lambda on: on.mlogreg(X, Y, steps=5))


def glm(size: str, threads: int) -> dict[str, Run]:
    example = _example("glm")
    X, y = example.generate(_rows(size, 100_000), 10)
    return _contenders(example, threads, ("poisson",), lambda on: on.poisson(X, y, steps=5))


def kmeans(size: str, threads: int) -> dict[str, Run]:
    example = _example("kmeans")
    X, C = example.generate(_rows(size, 100_000), 10)
    return _contenders(example, threads, ("kmeans",), lambda on: on.kmeans(X, C, steps=10))


def als_cg(size: str, threads: int) -> dict[str, Run]:
    example = _example("als_cg")
    X = example.generate(_rows(size, 1_000), _rows(size, 1_000))

    def run(on: ModuleType) -> Any:
        U, V, _ = on.als(X, rank=20, rounds=2)
        return U @ (V.T @ np.ones(V.shape[0]))

    return _contenders(example, threads, ("factor", "loss"), run)


def autoencoder(size: str, threads: int) -> dict[str, Run]:
    example = _example("autoencoder")
    X = example.generate(_rows(size, 8_192), 64)
    return _contenders(
        example, threads, ("gradients", "moved"), lambda on: np.array(on.train(X, epochs=2)[1])
    )


ALGORITHMS: Mapping[str, Callable[[str, int], dict[str, Run]]] = {
    "L2SVM": l2svm,
    "MLogreg": mlogreg,
    "GLM, Poisson": glm,
    "KMeans": kmeans,
    "ALS-CG, sparse": als_cg,
    "AutoEncoder": autoencoder,
}
