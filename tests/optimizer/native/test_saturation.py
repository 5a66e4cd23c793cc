"""Where the runtime saturates sums of 8-bit products, it is found out, and said."""

import numpy as np
import pytest
from tensolog.optimizer.native import runtime_answers

from .build import TRIED_LEVELS, needs_compiler
from .test_quantized import CASES, kernels


class Saturating:
    """A session that adds two products up in 16 bits, as instructions before VNNI do."""

    def __init__(self, source, threads):
        pass

    def run(self, names, feeds):
        x = feeds["x"].astype(np.int64)
        pairs = np.minimum(x[:, 0::2] * 127 + x[:, 1::2] * 127, np.iinfo(np.int16).max)
        return [np.repeat(pairs.sum(axis=1, keepdims=True), runtime_answers.OUTPUTS, axis=1)]


@pytest.fixture
def asked_anew():
    runtime_answers.saturates.cache_clear()
    yield
    runtime_answers.saturates.cache_clear()


def test_sums_that_saturate_are_told_from_exact_ones(asked_anew, monkeypatch):
    monkeypatch.setattr(runtime_answers, "open_session", Saturating)
    assert runtime_answers.saturates()


@needs_compiler
@pytest.mark.parametrize("level", TRIED_LEVELS)
def test_kernels_add_the_largest_products_up_exactly(level):
    case, session, original = kernels(level)["gemm"]
    feeds = {"x": np.full((3, CASES["gemm"].x[1]), 255, np.uint8)}
    (result,) = session.run(None, feeds)
    np.testing.assert_array_equal(result, case.expected(feeds["x"]))
    if not runtime_answers.saturates():
        np.testing.assert_array_equal(original.run(None, feeds)[0], result)
