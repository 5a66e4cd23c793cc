"""Whole models with every region fused, at several sizes of their free dimensions."""

import numpy as np
import pytest
from tensolog.optimizer.race.verify import compare

from benchmarks.zoo import build

from .build import fused, kernels_of, needs_compiler, opened


def inputs(session, sizes, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    for entry in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes[size] for size in entry.shape]
        integers = "int" in entry.type
        drawn = rng.integers(0, 2, shape) if integers else rng.standard_normal(shape)
        feeds[entry.name] = drawn.astype(np.int64 if integers else np.float32)
    return feeds


@needs_compiler
@pytest.mark.parametrize("name", ["bert", "llama", "mobilenetv3"])
def test_every_region_of_a_model_with_free_sizes(name):
    proto = build(name, tiny=True, dynamic=True)
    changed, library = fused(proto)
    assert kernels_of(changed)
    original, plain = opened(proto), opened(proto, level="ORT_DISABLE_ALL")
    candidate = opened(changed, library, threads=2)
    for batch, tokens in ((1, 8), (2, 5), (1, 1)):
        feeds = inputs(original, {"batch": batch, "tokens": tokens})
        wanted = [session.run(None, feeds) for session in (original, plain)]
        for result, *both in zip(candidate.run(None, feeds), *wanted, strict=True):
            *_, error, tolerance, _ = compare(result, both, both[1])
            assert error <= tolerance
