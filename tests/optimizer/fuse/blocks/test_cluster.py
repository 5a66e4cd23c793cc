"""Under a cluster of processes: results are the same, and a worker that is killed loses nothing."""

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tensolog import fuse
from tests.optimizer.fuse.tracing.test_examples import example

distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20_000, 6))
y = (RNG.random(20_000) > 0.5) * 1.0


def descend(X: Any, y: Any, w: Any, steps: int) -> Any:
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-(X @ w)))
        w = w - 1e-4 * (X.T @ (chance - y))
    return w


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client_,
    ):
        yield client_


@pytest.mark.filterwarnings("ignore")
def test_the_example_finds_what_a_direct_solution_finds(client: Any) -> None:
    module = example("ridge_blocks")
    X, y = module.generate(2000, 5, 400)
    dense = X.compute()
    expected = np.linalg.solve(dense.T @ dense + np.eye(5), dense.T @ y.compute())
    np.testing.assert_allclose(module.ridge(X.persist(), y.persist()), expected, rtol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_nothing(client: Any) -> None:
    fused = fuse(memory=200_000)(descend)
    start = np.zeros(6)
    np.testing.assert_allclose(fused(X, y, start, 2), descend(X, y, start, 2), rtol=1e-10)
    before = client.run(os.getpid)
    seen = threading.Event()

    def kill() -> None:
        seen.wait(timeout=60)
        os.kill(next(iter(before.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()

    @fuse(memory=200_000)
    def interrupted(X: Any, y: Any, w: Any) -> Any:
        for step in range(8):
            w = w - 1e-4 * (X.T @ (1 / (1 + np.exp(-(X @ w))) - y))
            if step == 3 and float(w[0]) < 1e9:
                seen.set()
        return w

    result = interrupted(X, y, start)
    killer.join()
    np.testing.assert_allclose(result, descend(X, y, start, 8), rtol=1e-10)
    assert set(client.run(os.getpid).values()) != set(before.values())
