"""Seconds of looking for what kernels may compute, by model; beside another checkout, in turns.

What a plan's graph goes through: shapes made known, facts and clauses (optimizer/native/regions),
and the C text of kernels, with products and without. Nothing is compiled or raced. Times are
processor seconds, the least of several runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import onnx

# Imported within functions: the zoo, which a worker, run as a file by itself, does without.

LAYERS = 12  # of a larger BERT


def looking_s(model: Path) -> tuple[float, int]:
    """Look for regions in a model; return processor seconds, and how many there are."""
    from tensolog.optimizer.graph.convert import load_graph
    from tensolog.optimizer.graph.infer import infer_types
    from tensolog.optimizer.native.fuse_graph import prepare, regions
    from tensolog.optimizer.native.loops.kernel_region import Meanings

    graph = load_graph(onnx.load(model))
    graph.types = infer_types(graph)
    gc.collect()
    start = time.process_time()
    prepare(graph)
    meanings = Meanings(graph)
    kernels = [
        regions(meanings, graph.nodes, multiplies=multiplies) for multiplies in (True, False)
    ]
    return time.process_time() - start, sum(map(len, kernels))


@contextmanager
def worker(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that looks for regions as a checkout does, in the models that it is told."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    command = [sys.executable, __file__, "--worker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.terminate()


def ask(process: subprocess.Popen[str], model: Path) -> tuple[float, int]:
    """Have a worker look into a model."""
    assert process.stdin is not None and process.stdout is not None
    print(model, file=process.stdin, flush=True)
    seconds, count = process.stdout.readline().split()
    return float(seconds), int(count)


def models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the tiny models of the zoo, and a BERT of more layers."""
    from .zoo import ARCHITECTURES, build

    for name in ARCHITECTURES:
        onnx.save(build(name, tiny=True), folder / f"{name}.onnx")
        yield name, folder / f"{name}.onnx"
    onnx.save(build("bert", tiny=True, depth=LAYERS), folder / "deep.onnx")
    yield f"bert, {LAYERS} layers", folder / "deep.onnx"


def compare(checkouts: Sequence[Path], repeat: int) -> None:
    """Print the seconds of each checkout, model by model."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = [stack.enter_context(worker(checkout)) for checkout in checkouts]
        totals = [0.0] * len(workers)
        for name, model in models(folder):
            runs = [[ask(process, model) for process in workers] for _ in range(repeat + 1)][1:]
            least = [min(run[place][0] for run in runs) for place in range(len(workers))]
            counts = [count for _, count in runs[0]]
            totals = [total + seconds for total, seconds in zip(totals, least, strict=True)]
            pairs = zip(least, counts, strict=True)
            columns = (f"{seconds:8.3f} s {count:4d} regions" for seconds, count in pairs)
            print(f"{name:<18}", *columns, flush=True)
        print(f"{'all':<18}", *(f"{total:8.3f} s             " for total in totals))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regions", description=__doc__)
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    others = [] if arguments.beside is None else [arguments.beside.resolve()]
    compare([*others, here], arguments.repeat)


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        for line in sys.stdin:
            print(*looking_s(Path(line.strip())), flush=True)
    else:
        main()
