"""Products on matrix tiles: any sizes, how much they round, and rows that don't mix.

Where the processor has no such tiles the same kernels multiply numbers as they are.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.codegen import unit
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.native.product.panels import PANEL
from tensolog.optimizer.native.product.product_text import EACH, TILES

from tests.campaigns import examples

from .build import check, fused, model, needs_compiler
from .test_product import dense, form_of, matrix, normal, results, with_an_end

pytestmark = needs_compiler
node = helper.make_node
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]
# A piece of the depth, as call.h has it.
PIECE = 768


@st.composite
def any_tiled_product(draw):
    """Rows, columns and depths around those of tiles, panels and pieces, and what follows."""
    rows = draw(st.lists(st.integers(1, 300), min_size=1, max_size=2))
    rows = rows if len(rows) < 2 else [min(rows[0], 4), rows[1]]
    depth = draw(st.integers(32, 200) | st.integers(PIECE - 2, PIECE + 2))
    columns = draw(st.integers(32, 12 * PANEL))
    return with_an_end(draw, rows, depth, columns, [f"n{i}" for i in range(len(rows))])


@given(any_tiled_product(), st.sampled_from(RUNNABLE))
@settings(max_examples=examples(15), deadline=None)
def test_sizes_of_all_kinds(case, level):
    proto, feeds = case
    _, library = check(proto, feeds, expect=1, threads=2, levels=(level,), form=TILES)
    assert form_of(library) == TILES


def test_a_gemm_with_a_bias_and_an_activation():
    arrays = {"w": np.ascontiguousarray(matrix(130, 200).T), "b": normal(200)}
    nodes = [node("Gemm", ["x", "w", "b"], ["g"], transB=1), node("Tanh", ["g"], ["y"])]
    proto = model(nodes, {"x": ["t", 130]}, {"y": ["t", 200]}, arrays)
    check(proto, *({"x": normal(rows, 130)} for rows in (1, 15, 16, 33, 300)), form=TILES)
    assert results(proto, normal(0, 130), TILES).shape == (0, 200)


@pytest.mark.parametrize("change", [{"rows": (31,)}, {"depth": 31}])
def test_what_fills_no_tile_stays(change):
    sizes = {"depth": 32, "columns": 64, "rows": (32,)}
    assert form_of(fused(dense(**sizes), form=TILES)[1]) == TILES
    assert form_of(fused(dense(**{**sizes, **change}), form=TILES)[1]) == EACH


@pytest.mark.parametrize("kind", ["normal", "positive", "heavy", "small", "large"])
@pytest.mark.parametrize("depth", [64, 768, 2000])
def test_errors_are_no_larger_than_those_of_products_one_by_one(kind, depth):
    weights, x = matrix(depth, 96), normal(64, depth)
    if kind == "positive":
        weights, x = np.abs(weights), np.abs(x)
    if kind == "heavy":
        x = x**3
    if kind == "small":
        x = (x * np.float32(1e-25)).astype(np.float32)
    if kind == "large":
        x = (x * np.float32(1e30)).astype(np.float32)
    proto = dense(depth, 96, rows=("t",), constants={"w": weights})
    exact = x.astype(np.float64) @ weights.astype(np.float64)
    root = [np.sqrt(np.mean((results(proto, x, form) - exact) ** 2)) for form in (EACH, TILES)]
    assert 0 < root[1] < 1.2 * root[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("row", [3, 40, 159])
def test_a_row_spoils_no_other_one(value, row):
    proto = dense(900, 200, rows=("t",))
    x = normal(160, 900)
    x[row, 870] = value
    wanted, result = results(proto, x), results(proto, x, TILES)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(wanted))
    others = np.delete(np.arange(160), row)
    np.testing.assert_allclose(result[others], wanted[others], rtol=0, atol=1e-5)
    np.testing.assert_allclose(result[row], wanted[row], rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_column_spoils_no_other_one(value):
    weights = matrix(256, 200)
    weights[130, 50] = value
    proto = dense(256, 200, rows=("t",), constants={"w": weights})
    x = normal(160, 256)
    x[7, 130] = 0.0  # of which infinity makes no number
    wanted, result = results(proto, x), results(proto, x, TILES)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(wanted))
    others = np.delete(np.arange(200), 50)
    np.testing.assert_allclose(result[:, others], wanted[:, others], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fma amx_bf16 avx512f amx_tile", True), ("fma amx_tile amx_int8", False), ("", False)],
)
def test_processors_say_whether_they_have_tiles(flags, expected, monkeypatch):
    text = f"model name\t: one\nflags\t\t: {flags}\nbugs\t\t: amx_bf16\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    monkeypatch.setattr(unit, "native_level", lambda: "avx512")
    assert unit.has_tiles.__wrapped__() == expected


def test_threads_and_runs_give_the_same():
    proto = dense(1000, 700, rows=("t",))
    x = normal(300, 1000)
    first = results(proto, x, TILES)
    for _ in range(3):
        np.testing.assert_array_equal(results(proto, x, TILES, threads=2), first)
