"""How long until tensolog is there: import, help, and the first progress line of optimize.

python -m benchmarks.startup
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .child import run_step
from .environment import describe, markdown

REPEATS = 7


def main() -> None:
    print(markdown(describe()))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        run_step("build", name="resnet50", source="onnx", path=path, tiny=True)
        report("python -c pass", 0.0, lambda: timed("-c", "pass"))
        report("import tensolog", 0.5, lambda: timed("-c", "import tensolog"))
        report("tensolog --help", 1.0, lambda: timed("-m", "tensolog", "--help"))
        report(
            "first progress line of optimize",
            1.0,
            lambda: float(run_step("startup", path=path)["seconds"]),
        )


def report(label: str, allowed: float, measure: Callable[[], float]) -> None:
    samples = [measure() for _ in range(REPEATS)]
    bound = f", allowed {allowed:.1f} s" if allowed else ""
    print(
        f"{label}: {statistics.median(samples):.3f} s, "
        f"{min(samples):.3f} to {max(samples):.3f}{bound}"
    )


def timed(*arguments: str) -> float:
    """Return the wall time of a Python process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
