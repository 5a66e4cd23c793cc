"""One step of a benchmark in a process of its own, so that its peak memory is its own.

python -m benchmarks.child STEP '{"argument": ...}' prints one JSON object.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class StepError(Exception):
    """A step failed; the message is the last line it wrote."""


def run_step(step: str, *, timeout_s: float | None = None, **arguments: Any) -> dict[str, Any]:
    """Run a step in a child process and return what it printed; raises StepError."""
    command = [sys.executable, "-m", "benchmarks.child", step, json.dumps(arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A session of its own: what it starts in turn, a compiler, ends with it.
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        try:
            written, complaints = process.communicate(timeout=timeout_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise StepError(f"{step}: took more than {timeout_s:.0f} s") from error
            raise
    lines = written.splitlines()
    if process.returncode or not lines:
        reasons = [line for line in complaints.splitlines() if line.strip()]
        code = process.returncode
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        raise StepError(f"{step}: {reasons[-1][:300] if reasons and code >= 0 else ended}")
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
    path: str,
    out: str,
    *,
    threads: int,
    budget: float | None,
    catalog: str,
    target: str | None = None,
    costs: str | None = None,
) -> dict[str, Any]:
    """Optimize a file; returns seconds, peak memory, and what the optimization says of itself.

    `first_s` are the seconds from the file being read to the first plan with a gain that is told,
    raced or predicted.
    """
    start = time.perf_counter()
    from tensolog.optimizer.phases import BEST, FORETOLD

    import tensolog

    marks: dict[str, float] = {}

    def progress(phase: str, done: int, total: int, detail: str) -> None:
        if phase != "reading":
            marks.setdefault("read", time.perf_counter())
        if phase in (BEST, FORETOLD) and detail:
            marks.setdefault("first", time.perf_counter())

    requested = {"budget": budget, "target": target, "costs": costs}
    options: dict[str, Any] = {key: value for key, value in requested.items() if value is not None}
    options["progress"] = progress
    result = tensolog.optimize(path, threads=threads, catalog=catalog, **options)
    result.save(out)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak_bytes": peak_bytes(),
        "nodes_before": result.nodes_before,
        "nodes_after": result.nodes_after,
        "chosen": result.chosen,
        "first_s": marks["first"] - marks["read"] if "first" in marks else None,
        "rules": sorted({step.rule for step in result.plan if step.accepted}),
    }


def race(original: str, optimized: str, *, threads: int, budget: float) -> dict[str, Any]:
    """Time two models interleaved, the original under full optimization.

    The other one is opened as its metadata says, and by the runtime's defaults too where they are
    not the same: users who know nothing of it must lose nothing. Opening them is raced as well.
    """
    import onnx
    from tensolog.profiles.races.opening_time import race_openings
    from tensolog.profiles.races.race import race as race_models
    from tensolog.profiles.sessions.deployed import model_file
    from tensolog.profiles.sessions.execution import DEFAULTS, embedded

    from .zoo import random_feeds

    feeds = random_feeds(onnx.load(original), dimensions={"batch": 1, "tokens": 128})
    file = model_file(Path(optimized))
    execution = embedded(file)
    models = {"original": Path(original), "optimized": file}
    plain = execution != DEFAULTS and not execution.libraries
    if plain:
        models["plain"] = file
    laps = race_models(
        models,
        feeds,
        threads=threads,
        budget_s=budget,
        reference="original",
        executions={"optimized": execution},
    )
    lap = laps["optimized"]
    openings = race_openings(
        {name: models[name] for name in ("original", "optimized")},
        threads=threads,
        budget_s=budget / 4,
        reference="original",
        executions={"optimized": execution},
    )
    row: dict[str, Any] = {
        "opened": execution.describe(),
        "opening_before_ms": openings["original"].median_ns / 1e6,
        "opening_ms": openings["optimized"].median_ns / 1e6,
        "opening_verdict": openings["optimized"].verdict,
    }
    if plain:
        row["plain_speedup"] = 1 / laps["plain"].ratio
        row["plain_verdict"] = laps["plain"].verdict
    return row | {
        "original_ms": laps["original"].median_ns / 1e6,
        "optimized_ms": lap.median_ns / 1e6,
        "speedup": 1 / lap.ratio,
        "speedup_low": 1 / lap.ratio_high,
        "speedup_high": 1 / lap.ratio_low,
        "rounds": lap.samples,
        "verdict": lap.verdict,
    }


def race_results(
    original: str, results: dict[str, str], *, threads: int, budget: float
) -> dict[str, Any]:
    """Race several results of one model and the original in one race, each opened as it says."""
    import onnx
    from tensolog.profiles.races.race import race as race_models
    from tensolog.profiles.sessions.deployed import model_file
    from tensolog.profiles.sessions.execution import embedded

    from .zoo import random_feeds

    files = {name: model_file(Path(path)) for name, path in results.items()}
    laps = race_models(
        {"original": Path(original), **files},
        random_feeds(onnx.load(original), dimensions={"batch": 1, "tokens": 128}),
        threads=threads,
        budget_s=budget,
        reference="original",
        executions={name: embedded(file) for name, file in files.items()},
    )
    return {
        "original_ms": laps["original"].median_ns / 1e6,
        "laps": {
            name: {
                "ratio": laps[name].ratio,
                "low": laps[name].ratio_low,
                "high": laps[name].ratio_high,
                "rounds": laps[name].samples,
            }
            for name in files
        },
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


def rewrite(peer: str, path: str, out: str, *, threads: int) -> dict[str, Any]:
    """Write what a peer makes of a model, for so many threads if it measures."""
    import onnx

    from .peers.rewriters import REWRITERS, TUNERS

    tuner = TUNERS.get(peer)
    model = REWRITERS[peer](onnx.load(path)) if tuner is None else tuner(Path(path), threads)
    onnx.save(model, out)
    return {}


def attempt(
    name: str, entrant: str, path: str, *, original: str, kept: str, threads: int, tiny: bool
) -> dict[str, Any]:
    """Run a peer's model once and say how far its outputs are from the reference's.

    `kept` is the file of these, which the reference, the first to run, writes.
    """
    import numpy as np

    loader = loader_of(name, {entrant: path}, original, threads, tiny)
    outputs = [np.asarray(part) for part in loader.outputs(entrant)]
    file = Path(kept)
    if not file.exists():
        np.savez(file, *outputs)
    with np.load(file) as stored:
        expected = [stored[key] for key in stored.files]
    return {"deviation": deviation(expected, outputs)}


def contest(
    name: str, entrants: dict[str, str], *, threads: int, budget: float, tiny: bool
) -> dict[str, Any]:
    """Race peers against ONNX Runtime on one model."""
    from tensolog.profiles.machine import available_memory_bytes
    from tensolog.profiles.races.race import race as race_models

    from .peers import REFERENCE

    loader = loader_of(name, entrants, entrants[REFERENCE], threads, tiny)
    largest = max(Path(path).stat().st_size for path in entrants.values())
    laps = race_models(
        {entrant: Path(path) for entrant, path in entrants.items()},
        loader.feeds,
        threads=threads,
        budget_s=budget,
        reference=REFERENCE,
        seats=max(1, available_memory_bytes() // (2 * largest + (64 << 20))),
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
            }
            for entrant, lap in laps.items()
        }
    }


def loader_of(name: str, entrants: dict[str, str], original: str, threads: int, tiny: bool) -> Any:
    """Make what loads peers by name; all get the inputs that the original model asks for."""
    import onnx

    from .peers.runners import Loader
    from .zoo import random_feeds

    sources = {entrant: Path(path) for entrant, path in entrants.items()}
    model = onnx.load(original, load_external_data=False)
    feeds = random_feeds(model, dimensions={"batch": 1, "tokens": 128})
    return Loader(sources, feeds, threads, partial(module_of, name, original, tiny))


def module_of(name: str, original: str, tiny: bool) -> Any:
    """Build the PyTorch module that a model was exported from, or one with the model's weights."""
    import onnx

    from .torch_models import MODULES, module
    from .torch_models.counterparts import counterpart

    if name in MODULES:
        return module(name, tiny=tiny)
    return counterpart(name, onnx.load(original), tiny=tiny)


def predict(path: str, *, threads: int, rounds: int) -> dict[str, Any]:
    """Time a model and the kernels that run for it; the shares of the latter, dearest first."""
    import onnx
    from tensolog.profiles.kernels.accuracy import accuracy

    from .zoo import random_feeds

    model = onnx.load(path)
    feeds = random_feeds(model, dimensions={"batch": 1, "tokens": 128})
    del model
    scores = accuracy(Path(path), feeds, threads=threads, rounds=rounds)
    return {
        "measured_ms": scores.measured_ns / 1e6,
        "ratio": scores.ratio,
        "kernels": sum(share.count for share in scores.shares),
        "untimed": [kernel.label() for kernel in scores.untimed],
        "shares": [
            {
                "kernel": share.kernel.label(),
                "count": share.count,
                "us": share.ns / 1e3,
                "part": share.part,
            }
            for share in scores.shares
        ],
    }


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


def segments(nodes: int, full: bool) -> dict[str, Any]:
    """Train a synthetic cost graph for ten steps; return the peak memory and the start's."""
    import numpy as np
    from tensolog.profiles.learning.samples.examples import example_of
    from tensolog.profiles.learning.training.network import Shape
    from tensolog.profiles.learning.training.training_loop import fit
    from tensolog.profiles.learning.training.training_options import Training

    from .segments import synthetic

    start = peak_bytes()
    example = example_of(synthetic(nodes))
    widths = (example.features.shape[1], example.configurations.shape[2])
    training = Training(steps=10, segment_nodes=nodes if full else 1000)
    fit([example], Shape(np.unique(example.opcodes), *widths), training)
    return {"peak_bytes": peak_bytes(), "start_bytes": start}


STEPS = {
    step.__name__: step
    for step in (
        build,
        optimize,
        race,
        race_results,
        compare,
        predict,
        startup,
        rewrite,
        attempt,
        contest,
        segments,
    )
}


if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](**json.loads(sys.argv[2]))))
