"""Models over machines of which none holds them alone: what plans are predicted to take, and take.

python -m benchmarks.cluster                    needs root, see benchmarks/machines.py
python -m benchmarks.cluster --only bert        one model
python -m benchmarks.cluster --workers 2 3      over two workers, then over three

Workers of a thread each, in network namespaces, with a link of 1 ms and 1 Gbit/s between them
and to the caller; each has a processor of its own as far as there are enough of them. Each process
may have as much memory of its own as a share of the weights takes, beside what the runtime does: of
two workers all of them, of more uneven shares. The model is deployed over the workers as they are
measured; then requests are timed one after the other (latency) and as many at once as there is room
for (period, the time for each of them), beside what the plan is simulated to take, which leaves out
the way from the caller and back. Last, one worker is killed while 100 requests wait: the engine
starts another one, and all have to be answered as before.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from tensolog.catalog import Catalog
from tensolog.catalog.errors import TensologError
from tensolog.parallel.choosing.batches import drawn_feeds
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.choosing.device_crews import runtime_bytes
from tensolog.parallel.cluster.cluster_group import ClusterGroup, StageFiles
from tensolog.parallel.cluster.dask_engine import Engine
from tensolog.parallel.cluster.measured_cluster import measure_cluster
from tensolog.parallel.cluster.places import Place
from tensolog.parallel.deployment.deployment import Deployment
from tensolog.parallel.devices import Cluster, Device
from tensolog.parallel.partitioner import part
from tensolog.parallel.simulation.placement import whole_on
from tensolog.parallel.simulation.tasks import Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.timeline import Timeline
from tensolog.parallel.workload import read_workload

from tensolog import open_parallel

from .environment import describe, markdown
from .machines import dask_cluster, machines, why_not
from .rows import write_whole
from .zoo import build

LATENCY_S, BYTES_PER_S = 1e-3, 125e6
# Not ResNet-50: the runtime packs filters as it opens a model, and no half of it fits either.
MODELS: dict[str, dict[str, Any]] = {"bert": {"depth": 6, "tokens": 64}}
_RUNS, _AT_ONCE, _LOST = 15, 30, 100
# So long workers may take to start, and a model in all.
_WORKERS_S, _LIMIT_S = 120.0, 900.0
# By number of workers, the part of the weights that each has memory for.
SHARES = {2: (1.0, 1.0), 3: (0.9, 0.6, 0.5), 4: (0.8, 0.5, 0.4, 0.4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/cluster.md")
    parser.add_argument(
        "--workers", nargs="+", type=int, choices=list(SHARES), default=[2], help="how many [2]"
    )
    parser.add_argument("--inside", metavar="ADDRESS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        (name,), (workers,) = arguments.only, arguments.workers
        try:
            print(json.dumps(inside(arguments.inside, name, workers)))
        except TensologError as error:  # a worker was lost, or no plan can be opened
            sys.exit(f"{name}, {workers} workers: {error}")
        return
    if why := why_not():
        sys.exit(f"no machines can be made here: {why}")
    rows = [run(name, workers) for name in arguments.only for workers in arguments.workers]
    head = "# Models over machines of which none holds them alone\n\n`python -m benchmarks.cluster"
    if arguments.workers != [2]:
        head += f" --workers {' '.join(map(str, arguments.workers))}"
    head += "`"
    machine = markdown(describe())
    write_whole(arguments.out, f"{head}; {machine}.\n\n{table(rows)}\n")
    print(table(rows))


def run(name: str, workers: int) -> dict[str, Any]:
    """Make machines and a cluster, and measure a model from the first one."""
    with (
        tempfile.TemporaryDirectory(prefix="tensolog-machines-") as place,
        machines(workers + 1, LATENCY_S, BYTES_PER_S) as (hub, *others),
        dask_cluster(hub, others, Path(place), ["4GiB"] * len(others)) as address,
    ):
        command = [sys.executable, "-m", "benchmarks.cluster", "--inside", address, "--only", name]
        command += ["--workers", str(workers)]
        try:
            done = subprocess.run(
                hub.command(command),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            # Where it was, it has said on standard error.
            sys.exit(f"{name} over {workers} workers had not ended after {_LIMIT_S:.0f} s")
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name} over {workers} workers failed with exit code {error.returncode}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


def inside(address: str, name: str, workers: int) -> dict[str, Any]:
    """Measure the cluster, deploy over it, and time requests; on the caller's machine."""
    with tempfile.TemporaryDirectory() as place, Catalog(":memory:") as catalog:
        folder = Path(place)
        begin_s = time.monotonic()

        def tell(phase: str, done: int, total: int, detail: str) -> None:
            took = f"{time.monotonic() - begin_s:.0f} s"
            print(f"{name}, {workers} workers, {took}: {phase} {detail}", file=sys.stderr)

        _wait_for_workers(address, workers)
        cluster = measure_cluster(address, tell=tell)
        model = build(name, **MODELS[name])
        onnx.save(model, folder / "model.onnx")
        weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
        limits = [runtime_bytes() + round(share * weights) for share in SHARES[workers]]
        devices = tuple(
            replace(device, memory_bytes=limit)
            for device, limit in zip(cluster.devices, limits, strict=True)
        )
        start = time.monotonic()
        plan = deploy(
            folder / "model.onnx",
            folder / "plan",
            devices=replace(cluster, devices=devices),
            budget=4,
            catalog=catalog,
            progress=tell,
        )
        deployed_s = time.monotonic() - start
        session = onnxruntime.InferenceSession(folder / "model.onnx")
        feeds = [drawn_feeds(plan.inputs, {}, None, seed=seed) for seed in range(3)]
        expected = [session.run(None, feed) for feed in feeds]
        assert plan.timeline is not None and plan.remote is not None
        with open_parallel(plan) as parallel:
            worst = max(
                float(np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b)))
                for feed, outputs in zip(feeds, expected, strict=True)
                for a, b in zip(parallel.run(feed), outputs, strict=True)
            )
            latencies = []
            for _ in range(_RUNS):
                begin = time.perf_counter()
                parallel.run(feeds[0])
                latencies.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            for future in [parallel.submit(feeds[0]) for _ in range(_AT_ONCE)]:
                future.result()
            period_s = (time.perf_counter() - begin) / _AT_ONCE
            way_s = _way_s(address, plan)
            begin = time.perf_counter()
            futures = [parallel.submit(feeds[n % 3]) for n in range(_LOST)]
            with Engine(address) as engine:
                gone = engine.run(os.getpid, [], [plan.remote.workers[0][0].address])
            os.kill(next(iter(gone.values())), signal.SIGKILL)
            equal = 0
            for number, future in enumerate(futures):
                outputs = future.result()
                equal += all(
                    np.allclose(outputs[slot.name], output, rtol=1e-3, atol=1e-4)
                    for slot, output in zip(plan.outputs, expected[number % 3], strict=True)
                )
            lost_s = time.perf_counter() - begin
            restarts = parallel.restarts
        link = cluster.links[0]
        return {
            "name": f"{name}, {workers} workers",
            "weights": weights,
            "limits": limits,
            "stages_s": [device.stage_s for device in devices],
            "plan": plan.setting.plan,
            "link": (link.latency_s, link.bytes_per_s),
            "whole": [reason for reason in plan.reasons if "can't be served" in reason][:1],
            "deployed_s": deployed_s,
            "deviation": worst,
            "simulated": (plan.timeline.seconds, _period_s(plan.timeline)),
            "measured": (statistics.median(latencies), period_s),
            "way_s": way_s,
            "lost": (equal, _LOST, restarts, lost_s),
        }


def _way_s(address: str, plan: Deployment) -> float:
    """Return the seconds of a request to the last worker that computes nothing, and gives as much.

    That is the way from the caller and back, which no plan is simulated with.
    """
    assert plan.remote is not None and plan.partition is not None
    size = sum(math.prod(output.shape) for output in plan.partition.outputs)
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "size"], ["y"])],
        "way",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (size,))],
        [helper.make_tensor("size", TensorProto.INT64, (1,), [size])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    device = Device("worker", memory_bytes=1 << 30, flops_per_s=1e9, memory_bytes_per_s=1e9)
    cluster = Cluster("one", (device,))
    parted = part(Problem(read_workload(model), cluster, Times(cluster)), (whole_on(0),))
    last = plan.remote.workers[0][-1]
    times = []
    with tempfile.TemporaryDirectory() as folder, Engine(address) as engine:
        parted.write(Path(folder))
        worker = next(w for w in engine.workers() if w.address == last.address)
        files = StageFiles(parted.partition, Path(folder))
        group = ClusterGroup(engine, files, [Place(worker, 1, 0)], 1)
        try:
            group.ready()
            lane = group.lane(0)
            for _ in range(_RUNS):
                begin = time.perf_counter()
                lane.run({"x": [np.zeros(1, np.float32)]}, _WORKERS_S)
                times.append(time.perf_counter() - begin)
        finally:
            group.close()
    return statistics.median(times)


def _period_s(timeline: Timeline) -> float:
    """Return how long the fullest lane is taken by a request: one follows after the other so."""
    taken = [0.0] * len(timeline.lanes)
    for span in timeline.spans:
        taken[span.lane] += span.free_s - span.begin_s
    return max(taken)


def _wait_for_workers(address: str, count: int) -> None:
    end_s = time.monotonic() + _WORKERS_S
    with Engine(address) as engine:
        while (there := len(engine.workers())) < count:
            if time.monotonic() > end_s:
                sys.exit(f"{there} of {count} workers were there after {_WORKERS_S:.0f} s")
            time.sleep(0.2)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Lay out what was measured, a column for each model."""

    def ms(pair: Sequence[float]) -> str:
        return " / ".join(f"{1e3 * seconds:.1f}" for seconds in pair)

    lines: dict[str, list[str]] = {}
    for row in rows:
        equal, asked, restarts, seconds = row["lost"]
        latency_s, bytes_per_s = row["link"]
        for label, cell in {
            "weights, MB": f"{row['weights'] / 1e6:.0f}",
            "memory of a worker's process, MB": ", ".join(f"{n / 1e6:.0f}" for n in row["limits"]),
            "what a stage takes, measured, us": ", ".join(
                f"{1e6 * s:.0f}" for s in row["stages_s"]
            ),
            "one worker": row["whole"][0].split("can't be served: ")[-1]
            if row["whole"]
            else "fits",
            "link as measured": f"{latency_s * 1e3:.2f} ms, {bytes_per_s / 1e6:.0f} MB/s",
            "measured and deployed in, s": f"{row['deployed_s']:.0f}",
            "plan": row["plan"] or "whole",
            "latency / period simulated, ms": ms(row["simulated"]),
            "latency / period measured, ms": ms(row["measured"]),
            "of the latency, the way from the caller and back, ms": f"{1e3 * row['way_s']:.1f}",
            "largest relative deviation": f"{row['deviation']:.1e}",
            "answered as before after a kill": f"{equal} of {asked}",
            "groups opened again": f"{restarts} ({seconds:.1f} s for all)",
        }.items():
            lines.setdefault(label, []).append(cell)
    names = " | ".join(row["name"] for row in rows)
    body = [f"| {label} | {' | '.join(cells)} |" for label, cells in lines.items()]
    return "\n".join([f"| | {names} |", f"|---|{'---|' * len(rows)}", *body])


if __name__ == "__main__":
    main()
