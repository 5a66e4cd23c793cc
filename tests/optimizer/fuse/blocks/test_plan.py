"""Here or in blocks, by cost and by what fits; kernels over blocks; what explain says."""

from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.blocks.block_plan import BlockPlan
from tensolog.optimizer.fuse.blocks.partitioned import BlocksError, of_array, of_dask

from tensolog import fuse

da = pytest.importorskip(
    "dask.array", reason="values in blocks need Dask: pip install 'tensolog[dask]'"
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 8))
y = RNG.normal(size=3000)


def gradient(X: Any, y: Any, w: Any) -> Any:
    error = X @ w - y
    return X.T @ error / len(y), (error * error).sum()


def the_plan(fused: Any) -> BlockPlan:
    (region,) = fused._runner().regions
    assert isinstance(region.prepared, BlockPlan)
    return region.prepared


def test_more_than_the_budget_runs_in_blocks_with_kernels() -> None:
    fused = fuse(memory=100_000)(gradient)
    results = fused(X, y, np.ones(8))
    for left, right in zip(results, gradient(X, y, np.ones(8)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)
    block_plan = the_plan(fused)
    assert block_plan.in_blocks
    assert block_plan.here_s == float("inf")
    assert block_plan.kernels > 0
    text = fused.explain()
    assert "parts combined in a tree by add" in text
    assert "a generated kernel" in text


def test_what_fits_and_costs_less_here_runs_here() -> None:
    """Small blocks: fetching them takes less time than handing out tasks."""
    fused = fuse(gradient)
    results = fused(da.from_array(X, chunks=(300, 8)), y, np.ones(8))
    np.testing.assert_allclose(results[0], gradient(X, y, np.ones(8))[0], rtol=1e-12)
    block_plan = the_plan(fused)
    assert not block_plan.in_blocks
    assert block_plan.here_s < block_plan.blocks_s
    assert "gathered, and computed here" in fused.explain()


def test_dask_arrays_that_do_not_fit_stay_dask_arrays() -> None:
    argument = da.from_array(X, chunks=(300, 4))
    scaled, same = fuse(memory=100_000)(lambda X, w: (X * w, X))(argument, np.arange(8.0))
    assert isinstance(scaled, da.Array)
    assert scaled.chunks == ((300,) * 10, (8,))
    assert same is argument
    np.testing.assert_allclose(scaled.compute(), X * np.arange(8.0))


def test_blocks_persist_over_regions() -> None:
    def function(X: Any, y: Any, w: Any) -> Any:
        for _ in range(3):
            w = w - 1e-4 * gradient(X, y, w)[0]
        return w

    fused = fuse(memory=100_000)(function)
    np.testing.assert_allclose(fused(X, y, np.ones(8)), function(X, y, np.ones(8)), rtol=1e-12)
    assert [region.cached for region in fused._runner().regions] == [False, True, True]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.sort(X, axis=0), "memory budget"),
        (lambda X: (X @ X.T).sum(axis=0), "memory budget"),
        (lambda X: np.cumsum(X, axis=0), "memory budget"),
    ],
)
def test_what_needs_all_rows_is_refused_where_they_do_not_fit(function: Any, message: str) -> None:
    with pytest.raises(BlocksError, match=message):
        fuse(memory=100_000)(function)(da.from_array(X, chunks=(300, 8)))


def test_rows_of_an_array_that_is_here_are_taken_here() -> None:
    """Batches: an array beyond the budget is in memory all the same; a view of it takes none."""

    def train(X: Any, y: Any, w: Any) -> Any:
        for start in range(0, len(X), 500):
            batch = slice(start, start + 500)
            w = w - 0.1 * gradient(X[batch], y[batch], w)[0]
        return w, X.mean(axis=0)

    fused = fuse(memory=100_000)(train)
    for left, right in zip(fused(X, y, np.ones(8)), train(X, y, np.ones(8)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)
    first = fused._runner().regions[0].prepared
    assert isinstance(first, BlockPlan)
    assert not first.in_blocks
    assert first.kernels > 0


@pytest.mark.parametrize("rows", [1, 7, 10, 49, 50, 99])
def test_blocks_are_the_rows_in_order(rows: int) -> None:
    array = X[:50]
    blocks = of_array(array, rows * array[0].nbytes)
    assert sum(blocks.rows) == len(array)
    assert max(blocks.rows) <= rows
    np.testing.assert_array_equal(blocks.copied().gathered(1e9, "a test"), array)
    np.testing.assert_array_equal(blocks.as_dask().compute(), array)


@pytest.mark.parametrize("window", [slice(None), slice(100, 2500)])
def test_a_file_that_is_mapped_is_read_by_the_tasks(tmp_path: Any, window: slice) -> None:
    mapped = np.memmap(tmp_path / "rows", np.float64, "w+", offset=24, shape=X.shape)
    mapped[...] = X
    mapped.flush()
    fused = fuse(memory=50_000)(lambda X, y, w: gradient(X, y, w)[0])
    result = fused(mapped[window], y[window], np.ones(8))
    np.testing.assert_allclose(result, gradient(X[window], y[window], np.ones(8))[0], rtol=1e-12)
    assert the_plan(fused).in_blocks
    copied = np.memmap(tmp_path / "rows", np.float64, "c", offset=24, shape=X.shape)
    copied[7] = 1e3
    other = fused(copied[window], y[window], np.ones(8))
    np.testing.assert_allclose(
        other, gradient(copied[window], y[window], np.ones(8))[0], rtol=1e-12
    )


def test_a_dask_array_without_a_shape_is_refused() -> None:
    unknown = da.from_array(X, chunks=(300, 8))
    with pytest.raises(BlocksError, match="compute"):
        of_dask(unknown[unknown[:, 0] > 0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("np.sort(X * 2, axis=0)", "np.sort needs the whole array at once: float64 53x6"),
        ("np.median(X * 2)", "np.median needs the whole array at once: float64 53x6"),
        ("(X * 2).argsort(axis=0)", "ndarray.argsort needs the whole array at once: float64 53x6"),
        ("X.cumsum(axis=0)", "CumSum needs the whole array at once, and makes float64 53x6"),
        ("(X * 2) @ (X * 2).T", "needs the whole array at once"),
    ],
)
def test_what_needs_the_whole_array_says_so_with_the_numbers(text: str, reason: str) -> None:
    function = eval(f"lambda X: {text}", {"np": np})
    with pytest.raises(BlocksError) as caught:
        fuse(memory=1000)(function)(np.ones((53, 6)))
    said = str(caught.value)
    assert reason in said
    assert (
        "bytes, which is more than the memory budget of 1,000: give fuse a larger memory=" in said
    )
