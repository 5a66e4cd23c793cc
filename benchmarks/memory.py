"""A 1.5 GB model, weights inline and in a file beside it: seconds and peak memory to optimize.

python -m benchmarks.memory [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from .child import run_step
from .environment import describe, markdown
from .models import MEMORY_EXTRA, MEMORY_FACTOR

SIZES = {"depth": 8, "width": 2048, "heads": 32, "groups": 8, "hidden": 5632}
QUICK = {"depth": 4, "width": 512, "heads": 8, "groups": 2, "hidden": 1408}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a model of about 80 MB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    print(markdown(describe()))
    for external in (False, True):
        label = "external data" if external else "inline"
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "model.onnx", Path(folder) / "optimized.onnx"
            with console.status(f"{label}: building"):
                run_step(
                    "build",
                    name="llama",
                    source="onnx",
                    path=str(path),
                    external=external,
                    sizes=QUICK if arguments.quick else SIZES,
                )
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            with console.status(f"{label}: optimizing {size / 1e6:.0f} MB"):
                row = run_step(
                    "optimize",
                    path=str(path),
                    out=str(out),
                    threads=arguments.threads,
                    budget=arguments.budget,
                    catalog=f"{folder}/catalog.duckdb",
                )
            with console.status(f"{label}: comparing"):
                deviation = run_step("compare", original=str(path), optimized=str(out))
        allowed = MEMORY_FACTOR * size + MEMORY_EXTRA
        print(
            f"{label}: {size / 1e6:.0f} MB optimized in {row['seconds']:.1f} s, "
            f"peak {row['peak_bytes'] / 1e6:.0f} of {allowed / 1e6:.0f} MB, "
            f"deviation {deviation['deviation']:.1e}"
        )


if __name__ == "__main__":
    main()
