"""What a benchmark ran on: processor, cores, versions. No names of hosts or people."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

from tensolog.optimizer.codegen.unit import native_level

PACKAGES = ("tensolog", "onnxruntime", "onnx", "duckdb", "numpy", "torch", "onnxscript")


RESULTS = Path(__file__).resolve().parent / "results"


def results(command: str) -> Path:
    """Return where rows are kept, apart by instruction set: ratios don't carry over."""
    return RESULTS / native_level() / f"{command}.json"


def describe() -> dict[str, str]:
    """Describe machine and software as label -> text."""
    described = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "processor": f"{processor()} ({native_level()})",
        "cores": str(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        ),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            described[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return described


def processor() -> str:
    """Return the processor's model name."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def markdown(description: dict[str, str]) -> str:
    """Write the description as one paragraph."""
    return ", ".join(f"{label} {text}" for label, text in description.items())
