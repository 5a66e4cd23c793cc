"""Seven products for eight: any sizes, how much they round, and rows and columns that don't mix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.native.product.panels import APART, DEEP, PANEL, alike
from tensolog.optimizer.native.product.product_text import EACH, SEVEN

from tests.campaigns import examples

from .build import check, fused, model, needs_compiler
from .test_product import dense, form_of, matrix, normal, results, with_an_end

pytestmark = needs_compiler
node = helper.make_node
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]


@st.composite
def any_large_product(draw):
    """Rows, columns and depths around those of tiles, panels and pieces, and what follows."""
    rows = draw(st.lists(st.integers(1, 300), min_size=1, max_size=2))
    rows = rows if len(rows) < 2 else [min(rows[0], 4), rows[1]]
    depth, columns = 2 * draw(st.integers(64, 700)), draw(st.integers(4 * PANEL, 7 * PANEL))
    named = [f"n{i}" for i in range(len(rows))]
    return with_an_end(draw, rows, depth, columns, named)


@given(any_large_product(), st.sampled_from(RUNNABLE))
@settings(max_examples=examples(5), deadline=None)
def test_sizes_of_all_kinds(case, level):
    proto, feeds = case
    _, library = check(proto, feeds, expect=1, threads=2, levels=(level,), form=SEVEN)
    assert form_of(library) == SEVEN


def test_a_gemm_with_a_bias_and_an_activation():
    arrays = {"w": matrix(200, 130).T.copy(), "b": normal(200)}
    nodes = [node("Gemm", ["x", "w", "b"], ["g"], transB=1), node("Tanh", ["g"], ["y"])]
    arrays["w"] = np.ascontiguousarray(matrix(130, 200).T)
    proto = model(nodes, {"x": ["t", 130]}, {"y": ["t", 200]}, arrays)
    all_feeds = [{"x": normal(rows, 130)} for rows in (0, 1, 127, 128, 300)]
    check(proto, *all_feeds[1:], expect=1, form=SEVEN)
    assert results(proto, all_feeds[0]["x"], form=SEVEN).shape == (0, 200)


@pytest.mark.parametrize("change", [{"rows": (191,)}, {"columns": 191}, {"depth": 129}])
def test_small_products_and_odd_depths_take_eight_products(change):
    sizes = {"depth": 128, "columns": 192, "rows": (192,)}
    _, library = fused(dense(**sizes), form=SEVEN)
    assert form_of(library) == SEVEN
    _, library = fused(dense(**{**sizes, **change}), form=SEVEN)
    assert form_of(library) == EACH


@pytest.mark.parametrize("kind", ["normal", "positive", "heavy"])
def test_errors_are_at_most_three_times_those_of_eight_products(kind):
    weights, x = matrix(768, 384), normal(256, 768)
    if kind == "positive":
        weights, x = np.abs(weights), np.abs(x)
    if kind == "heavy":
        x = x**3
    proto = dense(768, 384, rows=("t",), constants={"w": weights})
    exact = x.astype(np.float64) @ weights.astype(np.float64)
    root = [np.sqrt(np.mean((results(proto, x, form=form) - exact) ** 2)) for form in (EACH, SEVEN)]
    assert 0 < root[1] < 3 * root[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 1e3])
def test_a_row_spoils_no_other_one(value):
    proto = dense(256, 200, rows=("t",))
    x = normal(160, 256)
    x[7, 30] = value
    wanted, result = results(proto, x), results(proto, x, form=SEVEN)
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(wanted))
    others = np.delete(np.arange(160), 7)
    np.testing.assert_allclose(result[others], wanted[others], rtol=0, atol=1e-5)
    np.testing.assert_allclose(result[7], wanted[7], rtol=1e-4)


def test_rows_of_nothing_give_nothing():
    proto = dense(256, 200, rows=("t",))
    x = normal(160, 256)
    x[40:] = 0
    result = results(proto, x, form=SEVEN)
    assert not result[40:].any()
    np.testing.assert_allclose(result, results(proto, x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1e4, np.nan, np.inf])
def test_a_column_spoils_no_other_one(value):
    weights = matrix(256, 200)
    weights[:, 50] = value
    proto = dense(256, 200, rows=("t",), constants={"w": weights})
    x = normal(160, 256)
    wanted, result = results(proto, x), results(proto, x, form=SEVEN)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    if value == 0:
        assert not result[:, 50].any()
    others = np.delete(np.arange(200), 50)
    np.testing.assert_allclose(result[:, others], wanted[:, others], rtol=0, atol=1e-5)


@given(
    st.integers(1, 3 * DEEP),
    st.integers(1, 5 * PANEL),
    st.sampled_from([0.0, 1e-3, 1 / APART, 1.0, APART, 1e16, np.nan]),
    st.data(),
)
@settings(max_examples=examples(40), deadline=None)
def test_panels_are_alike_where_all_columns_are(half, columns, factor, data):
    weights = np.ones((2 * half, columns), np.float32)
    column = data.draw(st.integers(0, columns - 1))
    weights[:, column] = factor
    expected = [int(PANEL * (2 * pair + 1) < columns) for pair in range(-(-columns // (2 * PANEL)))]
    if not 1 / APART <= factor <= APART:
        expected[column // (2 * PANEL)] = 0
    partner = column + PANEL if column // PANEL % 2 == 0 else column - PANEL
    if partner >= columns and factor <= 1e15:  # nothing is added to it
        expected[column // (2 * PANEL)] = int(PANEL * (column // (2 * PANEL) * 2 + 1) < columns)
    np.testing.assert_array_equal(alike(weights), expected)
