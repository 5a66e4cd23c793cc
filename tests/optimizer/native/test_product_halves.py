"""Products with a matrix that float16 holds without loss: half the bytes, the same products."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.product.matrix_products import formed, products
from tensolog.optimizer.native.product.panels import fits_half
from tensolog.optimizer.native.product.product_text import HALVES

from tests.optimizer.fuse.codegen.build import reachable

from .build import (
    embed,
    model,
    needs_compiler,
    opened,
    place,
    to_model,
    typed,
)

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)
# What fills panels, strips of them, pieces of the depth, and what does not.
SIZES = ((64, 96), (300, 70), (16, 33), (700, 200))
ROWS = (1, 2, 3, 9, 100)


def half(*shape):
    return (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float16).astype(np.float32)


def dense(depth, width, matrix=None):
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Add", ["p", "b"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    constants = {"w": half(depth, width) if matrix is None else matrix, "b": half(width)}
    return model(nodes, {"x": ["n", depth]}, {"y": ["n", width]}, constants)


def halved(proto):
    """The graph of a model, and its product with a matrix of 16 bits; None where there is none."""
    graph = typed(proto)
    meanings = Meanings(graph)
    halves = formed(meanings, products(meanings, graph.nodes), [HALVES])
    return graph, halves[0] if halves else None


@pytest.mark.parametrize("level", reachable())
def test_it_multiplies_as_the_runtime_does(level):
    cases = [(proto, *halved(proto)) for proto in (dense(*size) for size in SIZES)]
    library = build([candidate.kernel for _, _, candidate in cases], levels=(level,))
    for proto, graph, candidate in cases:
        assert place(graph, candidate.region.nodes, candidate.kernel)
        supply(graph, [candidate.kernel])
        changed = to_model(embed(graph, library.domain))
        arrays = {t.name: numpy_helper.to_array(t) for t in changed.graph.initializer}
        assert [arrays[n].dtype for n in arrays if n.endswith(".halves")] == [np.float16]
        sessions = opened(proto), opened(changed, library, threads=2)
        for rows in ROWS:
            depth = proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value
            x = rng.standard_normal((rows, depth)).astype(np.float32)
            wanted, result = (session.run(None, {"x": x})[0] for session in sessions)
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [1 / 3, 1e-9, 70000.0, np.inf, np.nan])
def test_a_matrix_with_one_number_that_is_rounded_stays_as_it_is(number):
    matrix = half(64, 96)
    assert fits_half(matrix)
    assert halved(dense(64, 96, matrix))[1] is not None
    matrix[63, 95] = number
    fits = bool(np.isinf(number))  # float16 has infinities; of NaN nobody asks which it is
    assert fits_half(matrix) == fits
    assert (halved(dense(64, 96, matrix))[1] is not None) == fits
