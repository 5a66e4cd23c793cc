"""Sums of kernels are as exact as the runtime's, against float64: deep products, large means."""

from contextlib import closing

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.graph.widen import widen
from tensolog.optimizer.race.verify import FLOAT64, Verifier
from tensolog.profiles.sessions.execution import Execution
from tensolog.profiles.sessions.feeds import random_feeds

from tests.optimizer.native.build import double, fused, model, needs_compiler

node = helper.make_node
RNG = np.random.default_rng(0)


def product(rows, depth=3072, width=64):
    weights = {"w": RNG.standard_normal((depth, width)).astype(np.float32) / np.float32(depth**0.5)}
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Mish", ["p"], ["y"])]
    return model(nodes, {"x": [rows, depth]}, {"y": [rows, width]}, weights)


def normalization(rows=64, width=768):
    scale = {"g": RNG.standard_normal(width).astype(np.float32)}
    nodes = [node("LayerNormalization", ["x", "g"], ["n"], axis=-1), node("Mish", ["n"], ["y"])]
    return model(nodes, {"x": [rows, width]}, {"y": [rows, width]}, scale)


def convolution_of_signals():
    """As wav2vec2 begins: its sums have no kernel in float64, and yet there is a reference."""
    weights = {"w": RNG.standard_normal((16, 1, 10)).astype(np.float32)}
    ones = {"g": np.ones(16, np.float32), "b": np.zeros(16, np.float32)}
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[5]),
        node("InstanceNormalization", ["c", "g", "b"], ["n"]),
        node("Mish", ["n"], ["y"]),
    ]
    return model(nodes, {"x": [1, 1, 4000]}, {"y": [1, 16, 799]}, weights | ones)


MODELS = {
    "a product of few rows": product(2),
    "a product of many rows": product(48),
    "a normalization": normalization(),
    "a convolution": convolution_of_signals(),
}


@needs_compiler
@pytest.mark.parametrize("distribution", ["normal", "large_mean"])
@pytest.mark.parametrize("name", MODELS)
def test_root_mean_squares_of_errors_are_like_the_runtimes(name, distribution):
    built = MODELS[name]
    changed, library = fused(built)
    shape = tuple(size.dim_value for size in built.graph.input[0].type.tensor_type.shape.dim)
    feeds = {distribution: random_feeds({"x": ("float32", shape)}, distribution)}
    wide = widen(built, double).SerializeToString()
    verifier = Verifier(built.SerializeToString(), feeds, threads=1, wide=lambda: (wide, ""))
    with closing(verifier):
        execution = Execution(libraries=(library.path,))
        (deviation,) = verifier.deviations("fused", changed.SerializeToString(), execution)
        assert deviation.within
        verifier.widen(feeds)
        exact = verifier.output(FLOAT64, distribution, 0)
        runtime, kernel = (
            float(np.sqrt(np.mean((verifier.output(kind, distribution, 0) - exact) ** 2)))
            for kind in ("original", "candidate")
        )
    assert kernel < 2 * runtime
