"""A slice of the campaign under the sanitizers."""

import subprocess
import sys

import pytest

from tests.campaigns import ALL
from tests.optimizer.fuse.codegen.sanitize import MISSING

from .build import needs_compiler


@needs_compiler
def test_random_kernels_are_clean():
    command = [sys.executable, "-m", "tests.optimizer.native.sanitize", "4" if ALL else "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == MISSING:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
