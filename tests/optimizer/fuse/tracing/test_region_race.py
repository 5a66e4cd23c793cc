"""SciPy is kept unless the kernel wins its race by more than the interval of its ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tensolog.optimizer.fuse.tracing import prepare, region_race
from tensolog.optimizer.fuse.tracing.region_race import LOOKS, Race

from tensolog import fuse


def raced(ratio: float, noise: float, rng: Any, overhead_s: float = 0.0) -> Race:
    """Return a race that has ended: turns whose ratio is so large, but for noise of both."""
    race = Race(overhead_s)
    for _ in range(1 + max(LOOKS)):
        slow = float(np.exp(rng.normal(0, 1.0)))  # what else the machine does takes from both
        noises = np.exp(rng.normal(0, noise, size=2))
        race.add(1e-3 * ratio * slow * noises[0], 1e-3 * slow * noises[1])
        if race.verdict != "open":
            return race
    raise AssertionError("a race without an end")


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_a_kernel_that_is_no_sooner_is_seldom_kept(noise: float) -> None:
    rng = np.random.default_rng(0)
    for ratio, most in ((1.0, 0.07), (1.0 + 2 * noise, 0.01)):
        kept = [raced(ratio, noise, rng).verdict == "kernel" for _ in range(1000)]
        assert np.mean(kept) <= most


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_a_kernel_that_is_clearly_sooner_is_kept(noise: float) -> None:
    rng = np.random.default_rng(0)
    kept = [raced(1.0 - 2 * noise, noise, rng).verdict == "kernel" for _ in range(300)]
    assert np.mean(kept) >= 0.95


def test_what_tracing_takes_counts_for_the_kernel() -> None:
    rng = np.random.default_rng(0)
    assert raced(0.5, 0.01, rng).verdict == "kernel"
    assert raced(0.01, 0.01, rng, overhead_s=1.0).verdict == "SciPy"


@pytest.mark.parametrize("turns", LOOKS)
def test_the_interval_has_the_median_with_its_probability(turns: int) -> None:
    """By brute force over draws: of any distribution, here a skew one."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(4000):
        race = Race(warm=True)
        for ratio in rng.exponential(size=turns):
            race.add(float(ratio), 1.0)
        inside += race.ratio.low <= np.log(2) <= race.ratio.high
    assert inside / 4000 >= 0.95


class Clock:
    """Tells the seconds that both ways of computing a region are made to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernel_s: float, scipy_s: float) -> None:
        self.now = 0.0
        self.order: list[str] = []
        plain = prepare.run

        def run(program: Any, inputs: Any, scipy_formats: bool = False) -> Any:
            self.now += scipy_s
            self.order.append("SciPy")
            return plain(program, inputs, scipy_formats)

        def checked(prepared: Any, values: Any) -> Any:
            self.now += kernel_s
            self.order.append("kernel")
            return list(values)

        monkeypatch.setattr(prepare, "run", run)
        monkeypatch.setattr(prepare.Prepared, "_checked", checked)
        monkeypatch.setattr(prepare, "perf_counter", lambda: self.now)
        monkeypatch.setattr(prepare, "TRACING_S", 1e-12)
        for name in ("_SPARSE_ARGUMENT_S", "_SPARSE_RESULT_S", "REPLAY_S", "SPARSE_REPLAY_S"):
            monkeypatch.setattr(prepare, name, 0.0)


def gradient(X: Any, v: Any, w: Any) -> Any:
    return X.T @ (w * (X @ v))


def operands(m: int, n: int, density: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    X = sp.random_array((m, n), density=density, format="csr", rng=rng)
    return X, rng.normal(size=n), rng.normal(size=m)


@pytest.mark.parametrize(("kernel_s", "kept"), [(0.5, True), (2.0, False)])
def test_calls_race_both_ways_in_alternating_order(
    monkeypatch: pytest.MonkeyPatch, kernel_s: float, kept: bool
) -> None:
    clock = Clock(monkeypatch, kernel_s, 1.0)
    fused = fuse(gradient)
    X, v, w = operands(400, 300, 0.05)
    for _ in range(12):
        np.testing.assert_allclose(fused(X, v, w), gradient(X, v, w))
    pairs = list(zip(clock.order[:14:2], clock.order[1:14:2], strict=True))
    assert {frozenset(pair) for pair in pairs} == {frozenset(["kernel", "SciPy"])}
    assert {pair[0] for pair in pairs} == {"kernel", "SciPy"}
    # decided: of SciPy one call more is traced, to find that this gains nothing
    assert clock.order[14:].count("SciPy") == (0 if kept else 1)
    assert ("kernel" in clock.order[14:]) == kept
    text = fused.explain()
    assert ("raced: the kernel takes 0.50 of SciPy's time" in text) == kept
    assert ("SciPy is kept: the kernel takes 2.00" in text) == (not kept)


def test_other_sizes_and_densities_are_raced_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.5, 1.0)
    fused = fuse(gradient)
    for m, n, density in ((400, 300, 0.05), (400, 300, 0.4), (900, 300, 0.05)):
        clock.order.clear()
        for _ in range(8):
            fused(*operands(m, n, density))
        assert clock.order.count("SciPy") == 1 + min(region_race.LOOKS), (m, n, density)


@pytest.mark.parametrize(
    ("function", "layouts"),
    [
        (lambda X, v, w: X.multiply(w[:, None]), ["coo"]),
        (lambda X, v, w: X * 2.0, ["csr"]),
        (lambda X, v, w: (X.multiply(w[:, None]).T @ w, X.power(2)), ["dense", "csr"]),
    ],
)
def test_scipy_races_in_its_own_formats(function: Any, layouts: list[str]) -> None:
    """And gives what it gives alone."""
    fused = fuse(function, heuristic="all")
    arrays = operands(60, 50, 0.1)
    fused(*arrays)
    (prepared,) = fused._engine.prepared_regions()
    inputs = [
        next(array for array in arrays if array.shape == node.shape)
        for node in (prepared.traced.nodes[number] for number in prepared.traced.inputs)
    ]
    values = prepare.run(prepared.traced, inputs, scipy_formats=True)
    assert [getattr(value, "format", "dense") for value in values] == layouts
    expected = function(*arrays)
    for value, other in zip(
        values, expected if isinstance(expected, tuple) else [expected], strict=True
    ):
        dense = [side.toarray() if hasattr(side, "toarray") else side for side in (value, other)]
        np.testing.assert_allclose(*dense)
