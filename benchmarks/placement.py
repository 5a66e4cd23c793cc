"""Plans over FlexFlow's clusters for the models of its evaluation, and how long planning takes.

python -m benchmarks.placement                    all, on 16 and on 64 devices
python -m benchmarks.placement nmt --devices 64   one model, on one cluster

Times are simulated, on devices that are described and not there: of one request of 64 rows (1 of
Llama's), kernels from the roofline. Planning is seconds of one processor, proofs of cuts included.
Each model is planned in a process of its own.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import onnx
from tensolog.parallel import parse_cluster, plan

from .environment import RESULTS
from .rows import load_rows, rows_file, write_rows
from .zoo import build
from .zoo.flexflow import alexnet, nmt

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "alexnet": alexnet,
    "inception": functools.partial(build, "inception", batch=64),
    "resnext50": functools.partial(build, "resnext50", batch=64),
    "nmt": nmt,
    "gpt2": functools.partial(build, "gpt2", batch=64, tokens=256),
    "llama": functools.partial(build, "llama", depth=32),
}
# Of the datasheets; what starts an operator and a message takes was assumed.
DEVICES = {
    16: ("4 nodes of 4 P100", 4, 16, 9_300, 732, 20.0, 12.5),
    64: ("16 nodes of 4 K80", 16, 12, 4_370, 240, 12.0, 7.0),
}
CLUSTER = """
name = "{}"
[[device]]
name = "gpu"
nodes = {}
count = 4
kind = "gpu"
memory_gib = {}
gflops_per_s = {}
memory_gb_per_s = {}
launch_us = 5
[[link]]
same_node = true
latency_us = 5
gb_per_s = {}
[[link]]
latency_us = 10
gb_per_s = {}
shared = true
"""
USUAL = ("one device", "data parallel", "one weird trick")
HEADER = (
    "| model | operators | devices | one device | data parallel | one weird trick | found "
    "| found is | found / best of the others | planning, s |"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} [all]")
    parser.add_argument("--devices", type=int, choices=sorted(DEVICES), help="how many [both]")
    parser.add_argument(
        "--rows", type=rows_file, default=RESULTS / "placement.json", help="where to"
    )
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}")
    rows = load_rows(options.rows)
    context = multiprocessing.get_context("spawn")
    for name in options.models or MODELS:
        for count in [options.devices] if options.devices else sorted(DEVICES):
            with context.Pool(1) as pool:
                row = pool.apply(planned, (name, count))
            rows = [r for r in rows if (r["model"], r["devices"]) != (name, count)] + [row]
            print(row, flush=True)
            head = "# Plans over devices\n\n`python -m benchmarks.placement`"
            write_rows(options.rows, rows, head, table(rows))


def planned(name: str, count: int) -> dict[str, Any]:
    """Plan a model for a cluster, and return simulated times of a request in ms."""
    model = MODELS[name]()
    cluster = parse_cluster(CLUSTER.format(*DEVICES[count]))
    start = time.process_time()
    result = plan(model, cluster, goal="latency")
    seconds = time.process_time() - start
    usual = {
        kind: min((t for n, t in result.compared.items() if n.startswith(kind)), default=None)
        for kind in USUAL
    }
    return {
        "model": name,
        "operators": len(result.problem.workload.operators),
        "devices": count,
        "name": result.name,
        "ms": result.latency_s * 1e3,
        "usual_ms": {kind: None if t is None else t * 1e3 for kind, t in usual.items()},
        "planning_s": seconds,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Write rows as Markdown."""
    lines = [HEADER, "|---" * HEADER.count(" | ") + "|---|"]
    for row in rows:
        usual = [row["usual_ms"][kind] for kind in USUAL]
        least = min((t for t in usual if t is not None), default=None)
        cells = [
            row["model"],
            str(row["operators"]),
            str(row["devices"]),
            *("too large" if t is None else f"{t:.2f} ms" for t in usual),
            f"{row['ms']:.2f} ms",
            row["name"],
            "–" if least is None else f"{row['ms'] / least:.2f}",
            f"{row['planning_s']:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
