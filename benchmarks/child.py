"""One step of a benchmark in a process of its own, so that its peak memory is its own.

python -m benchmarks.child STEP '{"argument": ...}' prints one JSON object.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class StepError(Exception):
    """A step failed; the message is the last line it wrote."""


def run_step(step: str, **arguments: Any) -> dict[str, Any]:
    """Run a step in a child process and return what it printed; raises StepError."""
    command = [sys.executable, "-m", "benchmarks.child", step, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = result.stdout.splitlines()
    if result.returncode or not lines:
        reasons = [line for line in result.stderr.splitlines() if line.strip()]
        raise StepError(f"{step}: {reasons[-1] if reasons else result.returncode}")
    outcome: dict[str, Any] = json.loads(lines[-1])
    return outcome


def peak_bytes() -> int:
    """Return this process's peak resident memory."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would count the parent's memory too, which a child has until it executes.
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def build(
    name: str,
    source: str,
    path: str,
    *,
    tiny: bool = False,
    dynamic: bool = False,
    external: bool = False,
    sizes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a model of the zoo (`source` "onnx") or one exported by torch."""
    import onnx

    if source == "onnx":
        from .zoo import build as build_model

        model = build_model(name, tiny=tiny, dynamic=dynamic, **(sizes or {}))
    else:
        from .torch_models import export

        model = export(name, exporter=source, tiny=tiny, dynamic=dynamic)  # type: ignore[arg-type]
    data = Path(path).name + ".data"
    onnx.save(model, path, save_as_external_data=external, location=data)
    return {"nodes": len(model.graph.node)}


def optimize(
    path: str, out: str, *, threads: int, budget: float | None, catalog: str
) -> dict[str, Any]:
    """Optimize a file; returns seconds, peak memory, and what the optimization says of itself."""
    start = time.perf_counter()
    import tensolog

    options: dict[str, Any] = {} if budget is None else {"budget": budget}
    result = tensolog.optimize(path, threads=threads, catalog=catalog, **options)
    result.save(out)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak_bytes": peak_bytes(),
        "nodes_before": result.nodes_before,
        "nodes_after": result.nodes_after,
        "chosen": result.chosen,
        "rules": sorted({step.rule for step in result.plan if step.accepted}),
    }


def race(original: str, optimized: str, *, threads: int, budget: float) -> dict[str, Any]:
    """Time two models interleaved, the original under full optimization; ratios are speedups.

    The other one is opened as its metadata says, and by the runtime's defaults too where they are
    not the same: users who know nothing of it must lose nothing.
    """
    import onnx
    from tensolog.profiles.execution import DEFAULTS, embedded
    from tensolog.profiles.race import race as race_models

    from .zoo import random_feeds

    feeds = random_feeds(onnx.load(original), dimensions={"batch": 1, "tokens": 128})
    execution = embedded(Path(optimized))
    models = {"original": Path(original), "optimized": Path(optimized)}
    plain = execution != DEFAULTS and not execution.libraries
    if plain:
        models["plain"] = Path(optimized)
    laps = race_models(
        models,
        feeds,
        threads=threads,
        budget_s=budget,
        reference="original",
        executions={"optimized": execution},
    )
    lap = laps["optimized"]
    found: dict[str, Any] = {"opened": execution.describe()}
    if plain:
        found["plain_speedup"] = 1 / laps["plain"].ratio
        found["plain_verdict"] = laps["plain"].verdict
    return found | {
        "original_ms": laps["original"].median_ns / 1e6,
        "optimized_ms": lap.median_ns / 1e6,
        "speedup": 1 / lap.ratio,
        "speedup_low": 1 / lap.ratio_high,
        "speedup_high": 1 / lap.ratio_low,
        "rounds": lap.samples,
        "verdict": lap.verdict,
    }


def compare(original: str, optimized: str) -> dict[str, Any]:
    """Return the largest deviation over input distributions, relative to the output's scale."""
    import onnx

    import tensolog

    from .zoo import DISTRIBUTIONS, random_feeds

    model = onnx.load(original)
    draws = [
        random_feeds(model, distribution=distribution, dimensions={"batch": 1, "tokens": 128})
        for distribution in DISTRIBUTIONS
    ]
    del model
    outputs = []
    for path in (original, optimized):  # one session at a time: large models need the memory
        session = tensolog.open_session(path)
        outputs.append([session.run(None, feeds) for feeds in draws])
        del session
    return {"deviation": max(map(deviation, *outputs))}


def deviation(expected: Sequence[Any], actual: Sequence[Any]) -> float:
    """Return how far outputs are from those expected, relative to the scale of each."""
    import numpy as np

    largest = 0.0
    for before, after in zip(expected, actual, strict=True):
        scale = float(np.max(np.abs(before), initial=0.0)) or 1.0
        largest = max(largest, float(np.max(np.abs(before - after), initial=0.0)) / scale)
    return largest


def rewrite(peer: str, path: str, out: str) -> dict[str, Any]:
    """Write what a peer makes of a model."""
    import onnx

    from .peers.rewriters import REWRITERS

    onnx.save(REWRITERS[peer](onnx.load(path)), out)
    return {}


def contest(
    name: str,
    entrants: dict[str, str],
    *,
    threads: int,
    budget: float,
    refused: dict[str, str],
    tiny: bool,
) -> dict[str, Any]:
    """Race peers against ONNX Runtime on one model; those that can't run it are refused."""
    import onnx
    from tensolog.profiles.machine import available_memory_bytes
    from tensolog.profiles.race import race as race_models

    from .peers import REFERENCE
    from .peers.runners import Loader
    from .zoo import random_feeds

    sources = {entrant: Path(path) for entrant, path in entrants.items()}
    feeds = random_feeds(onnx.load(sources[REFERENCE]), dimensions={"batch": 1, "tokens": 128})
    loader = Loader(sources, feeds, threads, partial(module_of, name, tiny))
    expected = loader.outputs(REFERENCE)
    deviations: dict[str, float] = {}
    for entrant in sources:
        try:
            found = loader.outputs(entrant)
        except Exception as error:  # whatever a peer raises is its reason to refuse
            refused[entrant] = " ".join(str(error).split())[:200]
            continue
        deviations[entrant] = deviation(expected, found)
    laps = race_models(
        {entrant: sources[entrant] for entrant in deviations},
        feeds,
        threads=threads,
        budget_s=budget,
        reference=REFERENCE,
        memory_budget=available_memory_bytes() * 3 // 4,
        loader=loader,
    )
    return {
        "laps": {
            entrant: {
                "median_ns": lap.median_ns,
                "ratio": lap.ratio,
                "ratio_low": lap.ratio_low,
                "ratio_high": lap.ratio_high,
                "rounds": lap.samples,
                "deviation": deviations[entrant],
            }
            for entrant, lap in laps.items()
        },
        "refused": refused,
    }


def module_of(name: str, tiny: bool) -> Any:
    """Build the PyTorch module that the architecture's model was exported from."""
    from .torch_models import module

    return module(name, tiny=tiny)


def startup(path: str) -> dict[str, Any]:
    """Return seconds from starting `tensolog optimize` to its first progress line."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tensolog", "optimize", path]
        command += ["-o", f"{folder}/out.onnx", "--catalog", f"{folder}/c.duckdb", "--budget", "1"]
        start = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert process.stderr is not None
        first = process.stderr.readline()
        seconds = time.perf_counter() - start
        process.stderr.read()
        if process.wait() != 0 or not first:
            raise StepError("tensolog optimize failed")
    return {"seconds": seconds}


STEPS = {
    step.__name__: step for step in (build, optimize, race, compare, startup, rewrite, contest)
}


if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](**json.loads(sys.argv[2]))))
