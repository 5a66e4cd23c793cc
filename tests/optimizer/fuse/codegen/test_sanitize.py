"""A slice of the sanitizers' run, and that it would see a write outside of an array."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import ALL

from .sanitize import MISSING, runtime

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(runtime() is None, reason="the compiler has no AddressSanitizer to load")
def test_random_regions_are_clean():
    count = "5" if ALL else "3"
    command = [sys.executable, "-m", "tests.optimizer.fuse.codegen.sanitize", count]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != MISSING
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clean" in done.stdout


WRITES_BEHIND = """
import ctypes
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import library
from tests.optimizer.fuse.codegen.sanitize import SANITIZED
import numpy as np
source = '__attribute__((visibility("default"))) void bad(double *x) { x[1000] = 1; }'
function = library(source, find_compiler(), SANITIZED).bad
function.argtypes = [ctypes.c_void_p]
function(np.zeros(1000).ctypes.data)
"""


@pytest.mark.skipif(runtime() is None, reason="the compiler has no AddressSanitizer to load")
def test_a_write_behind_an_array_would_be_seen():
    options = {"LD_PRELOAD": runtime(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", WRITES_BEHIND],
        cwd=ROOT,
        env={**os.environ, **options},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
