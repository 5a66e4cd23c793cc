"""What `memory=` allows is measured: the peak of a process over what it had before."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dask", reason="values in blocks need Dask: pip install 'tensolog[dask]'")
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak is Linux's to tell"
)

ROWS, COLUMNS, BLOCKS, BUDGET = 240_000, 100, 24, 64_000_000

PROGRAM = f"""
import sys
import dask, numpy as np
import dask.array as da
from tensolog import fuse

dask.config.set(scheduler="threads", num_workers=2)

def block(number, rows):
    return np.sin(np.arange(rows * {COLUMNS}, dtype=float) + number).reshape(rows, -1)

def drawn(rows):
    parts = [dask.delayed(block)(at, rows) for at in range({BLOCKS})]
    return da.concatenate([da.from_delayed(one, (rows, {COLUMNS}), float) for one in parts])

def gradient(X, w):
    return X.T @ (1 / (1 + np.exp(-(X @ w))))

def spread(X, w):
    return np.sqrt(((X - X.mean(axis=0)) ** 2).mean(axis=0)) + w

def whole(X, w):
    return np.asarray(X.compute()).sum(axis=0) + w

def resident(name):
    with open("/proc/self/status") as lines:
        (line,) = [one for one in lines if one.startswith(name)]
    return int(line.split()[1]) * 1024

function = globals()[sys.argv[1]]
called = function if sys.argv[1] == "whole" else fuse(memory={BUDGET})(function)
w = np.linspace(-1, 1, {COLUMNS})
called(drawn(50), w)  # modules, kernels and threads are there
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = resident("VmRSS")
called(drawn({ROWS // BLOCKS}), w)
print(resident("VmHWM") - before)
"""


def peak(name: str) -> int:
    """Return the bytes by which the peak exceeds what was there."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return int(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["gradient", "spread"])
def test_a_function_keeps_to_its_budget(name: str) -> None:
    assert peak(name) < BUDGET < ROWS * COLUMNS * 8 / 2


def test_what_keeps_to_none_is_seen_to_exceed_it() -> None:
    assert peak("whole") > ROWS * COLUMNS * 8 > BUDGET
